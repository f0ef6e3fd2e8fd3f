/** The board at work: what is shown of it, what is chosen, what is lifted, and what is asked. */

import { DndContext, DragOverlay } from '@dnd-kit/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { type CSSProperties, Suspense, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { api, type Card, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useMay, useMe } from '@/shell/session'
import { Coming } from '@/ui/Coming'
import { Rendered } from '@/ui/Markdown'
import { later, useSoon } from '@/ui/parts'
import { useToast } from '@/ui/Toasts'
import { Asking, Chooser, type Question } from './Asking'
import { useActions } from './actions'
import { useAgents } from './agents'
import { HOW } from './BoardCard'
import { BulkBar } from './BulkBar'
import css from './board.module.css'
import { CardFace } from './CardFace'
import { CardMenu } from './CardMenu'
import { Column, type ColumnProps } from './Column'
import card from './card.module.css'
import { type Board, STATUSES, type Status, useShownCards } from './cards'
import { useBoardCommands } from './commands'
import { type Desk, DeskContext, type Hands, HandsContext, type Point } from './desk'
import { EmptyBoard } from './EmptyBoard'
import { passing } from './filters'
import { Lanes } from './Lanes'
import { beside, between, type Direction, type Lane, lanesOf, type Place, placeOf } from './lanes'
import { byPointer, useBoardSensors, useLifting } from './lifting'
import { ColumnTabs } from './Phone'
import { toggled, useRemembered } from './remembered'
import type { Rules } from './rules'
import { NO_FILTERS, nextColumn } from './search'
import { type SetSearch, Toolbar } from './Toolbar'
import { isStatus } from './words'

const TaskDrawer = later(() => import('@/rooms/task/TaskDrawer'))
const NewTask = later(() => import('@/rooms/task/NewTask'))

const FROM = '/projects/$project/'
const NONE: ReadonlySet<string> = new Set()

export function BoardDesk({ board }: { board: Board }) {
  const project = board.project.id
  const search = useSearch({ from: FROM })
  const onSearch = useSearchChange()
  const me = useMe().name
  useSoon(TaskDrawer, NewTask, Chooser, Rendered)
  const may = useMay('operator')
  const narrow = useNarrow()
  const cards = useShownCards(project, board)
  const agents = useAgents()
  const actions = useActions(project)
  const rules = useMemo<Rules>(() => ({ board, cards, agents, me }), [board, cards, agents, me])
  const described = useDescribed(project, search.q)
  const shown = useMemo(
    () => [...cards.values()].filter(passing(search, me, described)),
    [cards, search, me, described],
  )
  const [closedColumns, toggleColumn] = useRemembered('ringfence.board.closed')
  const [closedLanes, setClosedLanes] = useState<ReadonlySet<string>>(NONE)
  const column = search.column ?? 'ready'
  const columns: readonly Status[] = narrow ? [column] : STATUSES
  const lanes = useMemo(() => {
    const alone = narrow && search.lanes !== undefined // lanes with nothing in the one column would only be in the way
    return lanesOf(alone ? shown.filter(({ status }) => status === column) : shown, search.lanes)
  }, [shown, search.lanes, narrow, column])
  const [asked, setAsked] = useState<{ question: Question; ids: string[] } | null>(null)
  const [menu, setMenu] = useState<{ place: Place; at: Point } | null>(null)
  const [making, setMaking] = useState<'backlog' | 'ready' | null>(null)
  const searchField = useRef<HTMLInputElement>(null)
  const sensors = useBoardSensors()

  const openLanes = lanes.filter(({ key }) => !closedLanes.has(key))
  const openColumns = narrow ? columns : columns.filter((status) => !closedColumns.has(status))
  const focus = useFocus(openLanes)
  const { chosen, chosenCards, choose, clear } = useChosen(lanes, shown)
  const together = useCallback((id: string) => (chosen.has(id) ? [...chosen] : [id]), [chosen])
  const cardsOf = (ids: string[]) => ids.flatMap((id) => cards.get(id) ?? [])

  const say = useToast()
  const move = (moving: Card[], to: Status) => {
    const coming = moving.filter(({ status }) => status !== to)
    if (to === 'blocked') setAsked({ question: 'block', ids: coming.map(({ id }) => id) })
    else void actions.move(coming, to)
  }
  const lifting = useLifting({
    rules,
    columns: STATUSES,
    together,
    drop: move,
    refuse: say.refused,
    onPutDown: focus.follow,
  })
  const current = focus.cursor !== null && cards.has(focus.cursor.id) ? focus.cursor : null
  const targets = () => (chosen.size > 0 ? [...chosen] : current === null ? [] : [current.id])
  const ask = (question: Question, ids = targets()) => {
    if (ids.length > 0) setAsked({ question, ids })
  }
  const open = (id: string) => onSearch({ task: id, tab: undefined }, true)
  const go = (to: Direction) => {
    const next = beside(openLanes, openColumns, current, to)
    if (next !== null) focus.give(next)
    else if (narrow && (to === 'left' || to === 'right'))
      onSearch({ column: nextColumn(column, to === 'left' ? -1 : 1) })
  }

  useBoardCommands({
    may,
    free: lifting.lift === null && asked === null && menu === null && making === null && search.task === undefined,
    current: current !== null,
    several: chosen.size > 0,
    go,
    open: () => current !== null && open(current.id),
    choose: () => current !== null && choose(current, false),
    lift: () => current !== null && lifting.liftByKey(current),
    menu: () => current !== null && setMenu({ place: current, at: pointOf(current.id) }),
    ask,
    clear,
    create: () => setMaking('backlog'),
    search: () => searchField.current?.focus(),
    clearFilters: () => onSearch(NO_FILTERS),
  })

  const desk = useSteady({
    project,
    may,
    movable: may && !narrow,
    open,
    choose,
    menu: (place, at) => setMenu({ place, at }),
    focused: focus.noticed,
    granted: focus.granted,
  })
  const hands = useMemo<Hands>(
    () => ({ chosen, cursor: focus.cursor, wish: focus.wish, lift: lifting.lift }),
    [chosen, focus.cursor, focus.wish, lifting.lift],
  )
  const counts = useMemo(() => countsOf(shown), [shown])
  const totals = useMemo(() => countsOf(cards.values()), [cards])
  const head = (status: Status): ColumnProps => ({
    project,
    status,
    rules,
    may,
    count: counts[status],
    total: totals[status],
    closed: !narrow && closedColumns.has(status),
    onToggle: narrow ? undefined : () => toggleColumn(status),
    onNew: setMaking,
  })
  const grid = template(columns, narrow ? NONE : closedColumns)
  const back = (ids: string[]) => (event: Event) => {
    event.preventDefault()
    const [id] = ids
    if (id !== undefined) focus.follow(current?.id ?? id)
  }
  const [lone] = lanes

  const columnsShown =
    search.lanes !== undefined ? (
      <Lanes
        kind={search.lanes}
        lanes={lanes}
        columns={columns}
        head={head}
        fates={lifting.fates}
        closed={closedLanes}
        onToggle={(lane) => setClosedLanes((before) => toggled(before, lane))}
        style={grid}
      />
    ) : (
      <div className={css.columns} style={grid}>
        {lone !== undefined &&
          columns.map((status) => <Column key={status} {...head(status)} lane={lone} fate={lifting.fates?.[status]} />)}
      </div>
    )

  return (
    <DeskContext value={desk}>
      <HandsContext value={hands}>
        <div className={css.board} data-lifting={lifting.lift?.by}>
          <Toolbar
            title={board.project.name}
            cards={cards}
            shown={shown.length}
            search={search}
            onSearch={onSearch}
            onNew={may ? () => setMaking('backlog') : undefined}
            searchRef={searchField}
          />
          {cards.size === 0 ? (
            <EmptyBoard agents={agents.size} onNew={may ? () => setMaking('backlog') : undefined} />
          ) : (
            <DndContext sensors={sensors} collisionDetection={byPointer} accessibility={QUIET} {...lifting.handlers}>
              {narrow ? (
                <ColumnTabs column={column} counts={counts} onColumn={(next) => onSearch({ column: next })}>
                  {columnsShown}
                </ColumnTabs>
              ) : (
                columnsShown
              )}
              <DragOverlay dropAnimation={null} className={css.overlay}>
                {lifting.lift?.by === 'pointer' && <Carried cards={lifting.cards} id={lifting.lift.place.id} />}
              </DragOverlay>
            </DndContext>
          )}
          {chosenCards.length > 0 && <BulkBar count={chosenCards.length} ask={ask} onClear={clear} />}
          <p id={HOW} hidden>
            Enter opens it, space lifts it, M moves it, X chooses it.
          </p>
          <p className="sr-only" aria-live="assertive" data-said>
            {lifting.said}
          </p>
        </div>
        {menu !== null && cards.has(menu.place.id) && (
          <CardMenu
            at={menu.at}
            cards={cardsOf(together(menu.place.id))}
            rules={rules}
            actions={actions}
            move={move}
            open={open}
            ask={(question) => ask(question, together(menu.place.id))}
            onClose={() => setMenu(null)}
            onFocusBack={back([menu.place.id])}
          />
        )}
        {asked !== null && cardsOf(asked.ids).length > 0 && (
          <Asking
            question={asked.question}
            cards={cardsOf(asked.ids)}
            rules={rules}
            actions={actions}
            move={move}
            onClose={() => {
              setAsked((now) => (now === asked ? null : now))
              focus.follow(current?.id ?? asked.ids[0]!)
            }}
            onFocusBack={back(asked.ids)}
          />
        )}
      </HandsContext>
      <Suspense fallback={<Coming />}>
        {search.task !== undefined && (
          <TaskDrawer
            key={search.task}
            project={project}
            task={search.task}
            tab={search.tab}
            onTab={(tab) => onSearch({ tab })}
            onClose={() => {
              onSearch({ task: undefined, tab: undefined })
              focus.follow(search.task ?? '')
            }}
          />
        )}
        {making !== null && <NewTask project={project} status={making} onClose={() => setMaking(null)} />}
      </Suspense>
    </DeskContext>
  )
}

// The board says what happens itself, also for what the keyboard lifts.
const QUIET = {
  announcements: {
    onDragStart: () => undefined,
    onDragOver: () => undefined,
    onDragEnd: () => undefined,
    onDragCancel: () => undefined,
  },
  screenReaderInstructions: { draggable: '' },
}

function Carried({ cards, id }: { cards: Card[]; id: string }) {
  const first = cards.find((one) => one.id === id) ?? cards[0]
  if (first === undefined) return null
  return (
    <div className={card.card} data-carried data-many={cards.length > 1 || undefined}>
      <CardFace card={first} title={<bdi className={card.link}>{first.title}</bdi>} />
      {cards.length > 1 && <span className={card.many}>{cards.length}</span>}
    </div>
  )
}

function countsOf(cards: Iterable<Card>): Record<Status, number> {
  const counts = { backlog: 0, ready: 0, in_progress: 0, in_review: 0, blocked: 0, done: 0 }
  for (const { status } of cards) if (isStatus(status)) counts[status]++
  return counts
}

function template(columns: readonly Status[], closed: ReadonlySet<string>): CSSProperties {
  const widths = columns.map((status) => (closed.has(status) ? '2.5rem' : 'var(--column)'))
  const tracks = columns.map((status) => (closed.has(status) ? '2.5rem' : 'minmax(var(--column), 1fr)'))
  const least = `calc(${widths.join(' + ')} + ${columns.length - 1} * 0.375rem + 2 * var(--s3))`
  return { '--columns': tracks.join(' '), '--least': least } as CSSProperties
}

function pointOf(id: string): Point {
  const box = document.querySelector(`[data-place="${CSS.escape(id)}"]`)?.getBoundingClientRect()
  return box === undefined ? { x: 200, y: 200 } : { x: box.left, y: box.bottom + 4 }
}

/** Filters take the address's place; what is opened is a step that back undoes. */
function useSearchChange(): (change: Parameters<SetSearch>[0], step?: boolean) => void {
  const navigate = useNavigate({ from: FROM })
  return useCallback(
    (change, step = false) =>
      void navigate({ search: (before) => ({ ...before, ...change }), replace: !step, resetScroll: false }),
    [navigate],
  )
}

/** Stays the same object; what it does is always the latest. */
function useSteady(given: Desk): Desk {
  const latest = useRef(given)
  latest.current = given
  const { project, may, movable } = given
  return useMemo(
    () => ({
      project,
      may,
      movable,
      open: (id) => latest.current.open(id),
      choose: (place, range) => latest.current.choose(place, range),
      menu: (place, at) => latest.current.menu(place, at),
      focused: (place) => latest.current.focused(place),
      granted: (wish) => latest.current.granted(wish),
    }),
    [project, may, movable],
  )
}

const NARROW = '(max-width: 640px)'

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches)
  useEffect(() => {
    const query = matchMedia(NARROW)
    const change = () => setNarrow(query.matches)
    query.addEventListener('change', change)
    return () => query.removeEventListener('change', change)
  }, [])
  return narrow
}

const DESCRIBED = 200 // tasks found by their description

/** The tasks whose description has the text: cards carry no descriptions, so the server is asked. */
function useDescribed(project: string, q: string | undefined): ReadonlySet<string> {
  const sought = q?.trim() ?? ''
  const key = ['described', project, sought]
  useRefresh(['described', project], ({ kind, data }) => kind.startsWith('task_c') && data.project === project, 1000)
  const { data } = useQuery({
    queryKey: key,
    queryFn: async () => {
      const params = { path: { project_id: project }, query: { q: sought, limit: DESCRIBED } }
      const { items } = await take(api.GET('/api/v1/projects/{project_id}/tasks', { params }))
      return new Set(items.map(({ id }) => id))
    },
    enabled: sought.length > 1,
  })
  return sought.length > 1 ? (data ?? NONE) : NONE
}

/** Which cards are chosen; those that are no longer shown are not. */
function useChosen(lanes: Lane[], shown: Card[]) {
  const [ids, setIds] = useState<ReadonlySet<string>>(NONE)
  const anchor = useRef<Place | null>(null)
  const chosenCards = useMemo(() => (ids.size === 0 ? [] : shown.filter(({ id }) => ids.has(id))), [ids, shown])
  const chosen = useMemo(
    () => (chosenCards.length === 0 ? NONE : new Set(chosenCards.map(({ id }) => id))),
    [chosenCards],
  )
  const choose = (place: Place, range: boolean) => {
    const from = anchor.current
    if (range && from !== null) setIds(new Set([...chosen, ...between(lanes, from, place)]))
    else setIds(toggled(chosen, place.id))
    anchor.current = place
  }
  const clear = () => setIds(NONE)
  return { chosen, chosenCards, choose, clear }
}

const WHILE = 1500 // milliseconds in which the focus goes with a card that was moved

/** Where the focus is, and where it is wished: it follows a card that one moves. */
function useFocus(lanes: Lane[]) {
  const [cursor, setCursor] = useState<Place | null>(null)
  const [wish, setWish] = useState<Hands['wish']>(null)
  const wishes = useRef(0)
  const pending = useRef<Hands['wish']>(null)
  const following = useRef<{ id: string; until: number } | null>(null)
  const give = useCallback((place: Place) => {
    pending.current = { number: ++wishes.current, place }
    setCursor(place)
    setWish(pending.current)
  }, [])
  const latest = useRef(lanes)
  latest.current = lanes
  const reach = useCallback(() => {
    const now = following.current
    if (now === null) return
    if (Date.now() > now.until) {
      following.current = null
      return
    }
    const focused = document.activeElement
    const free = focused === document.body || (focused instanceof HTMLElement && focused.dataset.place !== undefined)
    const place = free ? placeOf(latest.current, now.id) : null
    if (place !== null) give(place)
  }, [give])
  // biome-ignore lint/correctness/useExhaustiveDependencies: each time that cards have moved
  useEffect(reach, [lanes, reach])
  return {
    cursor,
    wish,
    give,
    follow: (id: string) => {
      following.current = { id, until: Date.now() + WHILE }
      setTimeout(reach)
    },
    noticed: (place: Place) => {
      // Who went on to another card is not taken back to the one that was moved.
      if (following.current?.id !== place.id) following.current = null
      if (pending.current?.place.id !== place.id) pending.current = null
      setCursor((before) => (before?.id === place.id && before.lane === place.lane ? before : place))
    },
    granted: (number: number) => {
      if (pending.current?.number !== number) return false
      pending.current = null
      return true
    },
  }
}
