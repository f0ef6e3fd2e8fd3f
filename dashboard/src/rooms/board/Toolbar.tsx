/** What is shown of the board: its search, its filters, its lanes; and how much they hide. */

import { Check, ListFilter, Plus, Rows3, Search, X } from 'lucide-react'
import { DropdownMenu } from 'radix-ui'
import { type ReactNode, type Ref, useEffect, useMemo, useRef, useState } from 'react'
import type { Card } from '@/api/client'
import { Button, Input } from '@/ui/Controls'
import { Avatar } from '@/ui/Facts'
import { Menu } from '@/ui/Overlays'
import ui from '@/ui/ui.module.css'
import css from './board.module.css'
import { LabelDot, PriorityMark } from './Marks'
import { holderOf } from './rules'
import {
  type BoardSearch,
  type Filters,
  isFiltered,
  LANES,
  type LaneKind,
  NO_FILTERS,
  NOBODY,
  ONLY,
  ONLY_NAMES,
} from './search'
import { counted, isPriority, PRIORITIES, PRIORITY_NAMES } from './words'

export type SetSearch = (change: Partial<{ [name in keyof BoardSearch]: BoardSearch[name] | undefined }>) => void

type ToolbarProps = {
  title: string
  cards: ReadonlyMap<string, Card>
  shown: number
  search: BoardSearch
  onSearch: SetSearch
  onNew: (() => void) | undefined
  searchRef: Ref<HTMLInputElement>
}

export function Toolbar({ title, cards, shown, search, onSearch, onNew, searchRef }: ToolbarProps) {
  const hidden = cards.size - shown
  return (
    <div className={css.bars}>
      <div className={css.bar}>
        <h1 className={css.title}>
          <bdi>{title}</bdi>
        </h1>
        <SearchField q={search.q} onSearch={onSearch} inputRef={searchRef} />
        <FilterMenu cards={cards} search={search} onSearch={onSearch} />
        <LanesMenu lanes={search.lanes} onSearch={onSearch} />
        {onNew !== undefined && (
          <Button look="primary" className={css.newTask} onClick={onNew} aria-label="New task">
            <Plus size={16} aria-hidden="true" /> <span>New task</span>
          </Button>
        )}
      </div>
      {isFiltered(search) && (
        <div className={css.chips}>
          <Chips search={search} onSearch={onSearch} />
          <span className={css.hidden} role="status">
            {hidden === 0 ? 'Nothing is hidden' : `${counted(hidden, 'task')} hidden`}
          </span>
          <Button small look="quiet" onClick={() => onSearch(NO_FILTERS)}>
            Clear all
          </Button>
        </div>
      )}
    </div>
  )
}

type SearchFieldProps = { q: string | undefined; onSearch: SetSearch; inputRef: Ref<HTMLInputElement> }

function SearchField({ q, onSearch, inputRef }: SearchFieldProps) {
  const [text, setText] = useState(q ?? '')
  const told = useRef(q ?? '')
  useEffect(() => {
    if ((q ?? '') === told.current) return
    told.current = q ?? ''
    setText(q ?? '') // changed elsewhere: cleared, or gone back
  }, [q])
  const change = (next: string) => {
    setText(next)
    told.current = next
    onSearch({ q: next === '' ? undefined : next })
  }
  return (
    <div className={css.search}>
      <Search size={14} aria-hidden="true" />
      <Input
        ref={inputRef}
        type="search"
        maxLength={200}
        aria-label="Search this board"
        placeholder="Search"
        value={text}
        onChange={(event) => change(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return
          if (text === '') event.currentTarget.blur()
          else change('')
        }}
      />
    </div>
  )
}

type Facet = { name: 'agent' | 'priority' | 'label' | 'capability'; label: string; mark: (value: string) => ReactNode }

const FACETS: Facet[] = [
  { name: 'agent', label: 'Assignee', mark: (name) => (name === NOBODY ? null : <Avatar name={name} />) },
  { name: 'priority', label: 'Priority', mark: (priority) => <PriorityMark priority={priority} /> },
  { name: 'label', label: 'Label', mark: (label) => <LabelDot label={label} /> },
  { name: 'capability', label: 'Capability', mark: () => null },
]

function worded(facet: Facet['name'], value: string): string {
  if (facet === 'agent' && value === NOBODY) return 'Unassigned'
  return facet === 'priority' && isPriority(value) ? `${value} ${PRIORITY_NAMES[value]}` : value
}

function without<T>(all: T[] | undefined, one: T): T[] | undefined {
  const rest = all?.filter((other) => other !== one)
  return rest === undefined || rest.length === 0 ? undefined : rest
}

/** With one more value, or, where it is there, without it. */
function switched(search: Filters, facet: Facet['name'], value: string): Parameters<SetSearch>[0] {
  if (facet === 'priority') {
    if (!isPriority(value)) return {}
    const on = search.priority?.includes(value)
    return { priority: on ? without(search.priority, value) : [...(search.priority ?? []), value] }
  }
  const before = search[facet]
  return { [facet]: before?.includes(value) ? without(before, value) : [...(before ?? []), value] }
}

function Chips({ search, onSearch }: { search: BoardSearch; onSearch: SetSearch }) {
  return (
    <>
      {search.q !== undefined && <Chip label="Text" value={search.q} onDrop={() => onSearch({ q: undefined })} />}
      {FACETS.flatMap(({ name, label, mark }) =>
        (search[name] ?? []).map((value) => (
          <Chip
            key={`${name} ${value}`}
            label={label}
            value={worded(name, value)}
            mark={mark(value)}
            onDrop={() => onSearch(switched(search, name, value))}
          />
        )),
      )}
      {(search.only ?? []).map((only) => (
        <Chip
          key={only}
          label="Only"
          value={ONLY_NAMES[only]}
          onDrop={() => onSearch({ only: without(search.only, only) })}
        />
      ))}
    </>
  )
}

type ChipProps = { label: string; value: string; mark?: ReactNode; onDrop: () => void }

function Chip({ label, value, mark, onDrop }: ChipProps) {
  return (
    <span className={css.chip}>
      <span className={css.chipLabel}>{label}</span>
      {mark}
      <bdi>{value}</bdi>
      <button type="button" aria-label={`Without ${label}: ${value}`} onClick={onDrop}>
        <X size={12} aria-hidden="true" />
      </button>
    </span>
  )
}

type FilterMenuProps = { cards: ReadonlyMap<string, Card>; search: BoardSearch; onSearch: SetSearch }

function FilterMenu({ cards, search, onSearch }: FilterMenuProps) {
  const counts = useMemo(() => countsOf(cards), [cards])
  return (
    <Menu
      align="start"
      trigger={
        <Button aria-label="Filter">
          <ListFilter size={15} aria-hidden="true" /> <span className={css.wideOnly}>Filter</span>
        </Button>
      }
    >
      {FACETS.map(({ name, label, mark }) => (
        <DropdownMenu.Sub key={name}>
          <DropdownMenu.SubTrigger className={ui.item} disabled={counts[name].length === 0}>
            {label}
            <small>{search[name]?.length ?? ''}</small>
          </DropdownMenu.SubTrigger>
          <DropdownMenu.Portal>
            <DropdownMenu.SubContent className={ui.menu} collisionPadding={8} sideOffset={2}>
              {counts[name].map(([value, count]) => (
                <Tick
                  key={value}
                  on={search[name]?.some((one) => one === value) ?? false}
                  onTick={() => onSearch(switched(search, name, value))}
                >
                  {mark(value)} <bdi className={css.clip}>{worded(name, value)}</bdi> <small>{count}</small>
                </Tick>
              ))}
            </DropdownMenu.SubContent>
          </DropdownMenu.Portal>
        </DropdownMenu.Sub>
      ))}
      <DropdownMenu.Separator className={ui.separator} />
      {ONLY.map((only) => (
        <Tick
          key={only}
          on={search.only?.includes(only) ?? false}
          onTick={() =>
            onSearch({
              only: search.only?.includes(only) ? without(search.only, only) : [...(search.only ?? []), only],
            })
          }
        >
          {ONLY_NAMES[only]}
        </Tick>
      ))}
    </Menu>
  )
}

function Tick({ on, onTick, children }: { on: boolean; onTick: () => void; children: ReactNode }) {
  return (
    <DropdownMenu.CheckboxItem
      className={ui.item}
      checked={on}
      onCheckedChange={onTick}
      onSelect={(event) => event.preventDefault()}
    >
      <span className={css.tick}>{on && <Check size={13} aria-hidden="true" />}</span>
      {children}
    </DropdownMenu.CheckboxItem>
  )
}

function countsOf(cards: ReadonlyMap<string, Card>): Record<Facet['name'], [value: string, count: number][]> {
  const counts = { agent: new Map(), priority: new Map(), label: new Map(), capability: new Map() } satisfies Record<
    Facet['name'],
    Map<string, number>
  >
  const add = (facet: Map<string, number>, value: string) => facet.set(value, (facet.get(value) ?? 0) + 1)
  for (const priority of PRIORITIES) counts.priority.set(priority, 0)
  for (const card of cards.values()) {
    add(counts.agent, holderOf(card) ?? NOBODY)
    add(counts.priority, card.priority)
    for (const label of card.labels) add(counts.label, label)
    for (const tag of card.required_capabilities) add(counts.capability, tag)
  }
  const sorted = (facet: Map<string, number>) => [...facet].sort(([one], [other]) => (one < other ? -1 : 1))
  return {
    agent: sorted(counts.agent),
    priority: sorted(counts.priority),
    label: sorted(counts.label),
    capability: sorted(counts.capability),
  }
}

const LANE_NAMES: Record<LaneKind, string> = { agent: 'By agent', priority: 'By priority', label: 'By label' }

function LanesMenu({ lanes, onSearch }: { lanes: LaneKind | undefined; onSearch: SetSearch }) {
  return (
    <Menu
      align="start"
      trigger={
        <Button aria-label={lanes === undefined ? 'Lanes' : `Lanes: ${LANE_NAMES[lanes].toLowerCase()}`}>
          <Rows3 size={15} aria-hidden="true" />
          <span className={css.wideOnly}>{lanes === undefined ? 'Lanes' : LANE_NAMES[lanes]}</span>
        </Button>
      }
    >
      <DropdownMenu.RadioGroup
        value={lanes ?? ''}
        onValueChange={(value) => onSearch({ lanes: LANES.find((lane) => lane === value) })}
      >
        {[undefined, ...LANES].map((lane) => (
          <DropdownMenu.RadioItem key={lane ?? ''} value={lane ?? ''} className={ui.item}>
            <span className={css.tick}>{lane === lanes && <Check size={13} aria-hidden="true" />}</span>
            {lane === undefined ? 'No lanes' : LANE_NAMES[lane]}
          </DropdownMenu.RadioItem>
        ))}
      </DropdownMenu.RadioGroup>
    </Menu>
  )
}
