/** What waits: one card each, answered with the pointer, the thumb or the keyboard. */

import { Inbox as InboxIcon } from 'lucide-react'
import { useCallback, useEffect, useRef, useState } from 'react'
import { Problem } from '@/api/client'
import { useTasksOf } from '@/rooms/words/tasks'
import { useCommands } from '@/shell/commands'
import { useMay } from '@/shell/session'
import { Button, Field, Row, TextArea } from '@/ui/Controls'
import { Key } from '@/ui/Facts'
import { Confirm } from '@/ui/Overlays'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import { type Outcome, useAnswering } from './answering'
import { GoneCard, ItemCard } from './ItemCard'
import css from './inbox.module.css'
import { useWaitingItems } from './items'
import { type Answer, type Item, KINDS } from './kinds'
import { useInboxSearch } from './search'

const FIRST = 60 // cards at first; more on request
const AT_ONCE = 4 // answers on their way together

type Asked = { items: Item[]; how: Answer<Item> }

export function WaitingList() {
  const { items, error, refetch } = useWaitingItems()
  if (error !== null && items === undefined) return <Failure error={error} retry={() => void refetch()} />
  if (items === undefined) return <Loading rows={4} height="7rem" />
  return <Cards all={items} />
}

function Cards({ all }: { all: Item[] }) {
  const [{ agent, project, open }, setSearch] = useInboxSearch()
  const may = useMay('operator')
  const say = useToast()
  const { shown, outcomes, answer, putAway } = useAnswering(all)
  const listed = shown.filter(
    (item) => (agent === undefined || item.agent === agent) && (project === undefined || item.project === project),
  )
  const [many, setMany] = useState(FIRST)
  const visible = listed.slice(0, many)
  const tasks = useTasksOf(visible)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [noting, setNoting] = useState<{ id: string; how: Answer<Item> }>()
  const [asked, setAsked] = useState<Asked>()
  const [told, setTold] = useState('')
  const place = usePlace(visible)
  const selected = listed.filter(({ id }) => chosen.has(id) && !outcomes.has(id))

  const send = async (item: Item, how: Answer<Item>, note: string) => {
    setNoting(undefined)
    place.leave(item.id)
    try {
      await answer(item, how, note)
      setTold(`${how.done}.`)
    } catch (problem) {
      if (!(problem instanceof Problem && problem.code === 'proposal_failed')) say.refused(problem) // else its card says
    }
  }
  const begin = (item: Item, how: Answer<Item>, noted = how.noted) => {
    if (how.asks(item, tasks) !== null) setAsked({ items: [item], how })
    else if (noted) setNoting({ id: item.id, how })
    else void send(item, how, '')
  }
  const sendAll = async ({ items, how }: Asked, note: string) => {
    const refused = await inTurn(items, (item) => answer(item, how, note))
    setChosen(new Set())
    const done = items.length - refused.length
    if (done > 0) say.done(`${how.done}: ${done}.`)
    if (refused.length > 0) say.refused(new Error(`${refused.length} could not be done: ${refused[0]!.message}`))
    place.focus()
  }
  const toggle = (id: string) =>
    setChosen((before) => (before.has(id) ? new Set([...before].filter((one) => one !== id)) : new Set(before).add(id)))
  const toggleOpen = (id: string) => setSearch({ open: open === id ? undefined : id })

  const current = visible.find(({ id }) => id === place.current && !outcomes.has(id))
  const answers = may && current !== undefined ? KINDS[current.kind].answers : []
  useCommands([
    { id: 'inbox-next', label: 'Next', group: 'Inbox', keys: 'j', run: () => place.step(1) },
    { id: 'inbox-previous', label: 'Previous', group: 'Inbox', keys: 'k', run: () => place.step(-1) },
    {
      id: 'inbox-open',
      label: 'Open or close (also Enter)',
      group: 'Inbox',
      keys: 'o',
      run: () => current !== undefined && toggleOpen(current.id),
    },
    ...answers.map((how) => ({
      id: `inbox-${how.name}`,
      label: how.noted ? `${how.label}, with a note` : how.label,
      group: 'Inbox',
      keys: how.key,
      run: () => current !== undefined && begin(current, how),
    })),
    ...answers
      .filter(({ noted }) => !noted)
      .map((how) => ({
        id: `inbox-${how.name}-noted`,
        label: `${how.label}, with a note`,
        group: 'Inbox',
        keys: `Shift+${how.key.toUpperCase()}`,
        run: () => current !== undefined && begin(current, how, true),
      })),
    ...(answers.length > 0
      ? [
          {
            id: 'inbox-select',
            label: 'Select',
            group: 'Inbox',
            keys: 'x',
            run: () => current !== undefined && toggle(current.id),
          },
        ]
      : []),
  ])

  if (listed.length === 0) return <Nothing filtered={all.length > 0} />
  return (
    <div>
      <p role="status" className="sr-only">
        {told} {elsewhere(outcomes)} {all.length} {all.length === 1 ? 'waits' : 'wait'}.
      </p>
      {may && (
        <Bulk
          listed={listed.filter(({ id }) => !outcomes.has(id))}
          selected={selected}
          choose={(ids) => setChosen(new Set(ids))}
          ask={(how) => setAsked({ items: selected, how })}
        />
      )}
      <ul
        className={css.cards}
        onKeyDown={(event) => {
          const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
          const on = event.target instanceof HTMLElement && event.target.dataset.item !== undefined
          if (!on || event.defaultPrevented) return
          if (step !== 0) place.step(step)
          else if (event.key === 'Enter' && current !== undefined) toggleOpen(current.id)
          else return
          event.preventDefault()
        }}
      >
        {visible.map((item) => (
          <li key={item.id}>
            {outcomes.has(item.id) ? (
              <GoneCard
                outcome={outcomes.get(item.id)!}
                onPutAway={() => {
                  place.leave(item.id)
                  putAway(item.id)
                }}
              />
            ) : (
              <ItemCard
                item={item}
                tasks={tasks}
                current={item.id === place.current}
                open={open === item.id}
                selected={chosen.has(item.id)}
                may={may}
                noting={noting?.id === item.id ? noting.how : undefined}
                onFocus={() => place.set(item.id)}
                onOpen={() => toggleOpen(item.id)}
                onSelect={() => toggle(item.id)}
                onAnswer={(how, noted) => begin(item, how, noted)}
                onNote={(how, note) => void send(item, how, note)}
                onCancel={() => {
                  setNoting(undefined)
                  place.focus()
                }}
              />
            )}
          </li>
        ))}
      </ul>
      {listed.length > many && (
        <Button className={css.more} onClick={() => setMany(many + FIRST)}>
          Show {Math.min(FIRST, listed.length - many)} more of {listed.length - many}
        </Button>
      )}
      {may && <Hints />}
      {asked !== undefined && (
        <Ask
          key={asked.items.map(({ id }) => id).join()}
          asked={asked}
          about={asked.items.length === 1 ? asked.how.asks(asked.items[0]!, tasks) : null}
          close={() => setAsked(undefined)}
          send={async (note) => {
            const [item] = asked.items
            if (asked.items.length > 1 || item === undefined) await sendAll(asked, note)
            else await send(item, asked.how, note)
          }}
        />
      )}
    </div>
  )
}

function Nothing({ filtered }: { filtered: boolean }) {
  return (
    <Empty icon={InboxIcon} title={filtered ? 'Nothing here waits for you' : 'Nothing waits for you'}>
      <p>
        {filtered
          ? 'What waits is of another agent or project than you chose above.'
          : 'When an agent in advisory mode wants to change something, it asks here first. The number in the page’s title tells you from any tab.'}
      </p>
    </Empty>
  )
}

type BulkProps = {
  listed: Item[]
  selected: Item[]
  choose: (ids: string[]) => void
  ask: (how: Answer<Item>) => void
}

function Bulk({ listed, selected, choose, ask }: BulkProps) {
  const all = selected.length === listed.length && listed.length > 0
  const answers = selected.length > 0 ? KINDS[selected[0]!.kind].answers : []
  return (
    <Row className={css.bulk} data-active={selected.length > 0 || undefined}>
      <label className={css.check}>
        <input
          type="checkbox"
          checked={all}
          ref={(box) => {
            if (box !== null) box.indeterminate = selected.length > 0 && !all
          }}
          onChange={() => choose(all ? [] : listed.map(({ id }) => id))}
        />
        <span>{selected.length === 0 ? 'Select all' : `${selected.length} of ${listed.length} selected`}</span>
      </label>
      {answers.map((how) => (
        <Button key={how.name} small look={how.look} onClick={() => ask(how)}>
          {how.label} {selected.length}
        </Button>
      ))}
      {selected.length > 0 && (
        <Button small look="quiet" onClick={() => choose([])}>
          Clear
        </Button>
      )}
    </Row>
  )
}

type AskProps = {
  asked: Asked
  about: { title: string; about: string; action: string } | null
  close: () => void
  send: (note: string) => Promise<void>
}

/** Before what is not undone, and before many at once. */
function Ask({ asked: { items, how }, about, close, send }: AskProps) {
  const [note, setNote] = useState('')
  const agents = [...new Set(items.map(({ agent }) => agent))]
  const deletes = items.filter((item) => how.asks(item, new Map()) !== null).length
  return (
    <Confirm
      open
      onOpenChange={(open) => !open && close()}
      title={about?.title ?? `${how.label} ${items.length} at once?`}
      about={
        about?.about ?? (
          <>
            They are of <bdi>{agents.slice(0, 3).join(', ')}</bdi>
            {agents.length > 3 && ` and ${agents.length - 3} more`}, and are answered one after the other.
            {deletes > 0 &&
              ` ${deletes} of them ${deletes === 1 ? 'deletes a task' : 'delete tasks'}: what is gone cannot be brought back.`}
          </>
        )
      }
      action={about?.action ?? `${how.label} ${items.length}`}
      danger={deletes > 0}
      onConfirm={() => send(note)}
    >
      <Field label="Note" hint="Told to the agent, and kept.">
        {(field) => (
          <TextArea
            {...field}
            rows={2}
            maxLength={2000}
            value={note}
            onChange={({ target }) => setNote(target.value)}
          />
        )}
      </Field>
    </Confirm>
  )
}

function Hints() {
  return (
    <p className={css.hints} aria-hidden="true">
      <span>
        <Key>j</Key> <Key>k</Key> next, previous
      </span>
      <span>
        <Key>a</Key> approve
      </span>
      <span>
        <Key>d</Key> deny
      </span>
      <span>
        <Key>Enter</Key> open
      </span>
      <span>
        <Key>x</Key> select
      </span>
    </p>
  )
}

/** Which card the keys mean. When it leaves, the one after it is next, and has the focus if the leaving one had it. */
function usePlace(visible: Item[]) {
  const [current, setCurrent] = useState<string | undefined>()
  const order = useRef<string[]>([])
  const wanted = useRef<string | undefined>(undefined)
  const ids = visible.map(({ id }) => id)
  const here = current !== undefined && ids.includes(current) ? current : ids[0]

  const focusOn = useCallback((id: string | undefined) => {
    const card = id === undefined ? null : document.querySelector<HTMLElement>(`[data-item="${CSS.escape(id)}"]`)
    card?.focus()
    card?.scrollIntoView({ block: 'nearest' })
  }, [])
  useEffect(() => {
    order.current = ids
    if (wanted.current === undefined) return
    focusOn(wanted.current)
    wanted.current = undefined
  })
  return {
    current: here,
    set: setCurrent,
    focus: () => requestAnimationFrame(() => focusOn(order.current.includes(here ?? '') ? here : order.current[0])),
    step(by: number) {
      const at = here === undefined ? -1 : ids.indexOf(here)
      const began = document.activeElement instanceof HTMLElement && document.activeElement.dataset.item !== undefined
      const next = ids[Math.min(Math.max(began ? at + by : at, 0), ids.length - 1)]
      setCurrent(next)
      wanted.current = next
      if (next === here) focusOn(next)
    },
    leave(id: string) {
      const at = ids.indexOf(id)
      const next = ids[at + 1] ?? ids[at - 1]
      setCurrent(next)
      wanted.current = next
    },
  }
}

/** What others answered meanwhile, for those who do not see it. */
function elsewhere(outcomes: ReadonlyMap<string, Outcome>): string {
  const last = [...outcomes.values()].at(-1)
  return last === undefined ? '' : `${last.item.agent}: ${last.state}${last.note === '' ? '' : `, ${last.note}`}.`
}

async function inTurn(items: Item[], work: (item: Item) => Promise<unknown>): Promise<Error[]> {
  const refused: Error[] = []
  const rest = [...items]
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) {
      await work(item).catch((error) => refused.push(error instanceof Error ? error : new Error(String(error))))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return refused
}
