/** A field that offers what one may mean while one types: the ARIA combobox with a list. */

import { Popover as P } from 'radix-ui'
import { type ChangeEvent, type KeyboardEvent, type ReactNode, type Ref, useId, useMemo, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { Input } from './Controls'
import css from './choose.module.css'
import { Dot } from './Facts'
import ui from './ui.module.css'

/** What can be chosen. `dot` is a token: `var(--good)`; `about` stands at the end of its line. */
export type Choice = { value: string; label: string; about?: ReactNode; dot?: string }

const MOST = 50 // lines that are offered at a time

export type ComboboxProps = {
  choices: readonly Choice[]
  onPick: (value: string) => void
  /** What was typed counts too, whether or not it is offered. */
  free?: boolean
  id?: string
  'aria-label'?: string
  'aria-describedby'?: string
  'aria-invalid'?: boolean
  placeholder?: string
  autoFocus?: boolean
  className?: string
  ref?: Ref<HTMLInputElement>
  /** A key that the field itself has no use for. */
  onKey?: (event: KeyboardEvent<HTMLInputElement>, text: string) => void
}

export function Combobox({ choices, onPick, free = false, className, onKey, ...field }: ComboboxProps) {
  const [text, setText] = useState('')
  const [open, setOpen] = useState(false)
  const [active, setActive] = useState(0)
  const anchor = useRef<HTMLDivElement>(null)
  const list = useId()
  const offered = useMemo(() => (open ? found(choices, text, free) : []), [choices, text, free, open])
  const current = Math.min(active, offered.length - 1)
  const pick = (value: string) => {
    setText('')
    setOpen(false)
    onPick(value)
  }
  const show = () => {
    setOpen(true)
    setActive(0)
  }
  const write = ({ target }: ChangeEvent<HTMLInputElement>) => {
    const [first = '', ...rest] = free ? target.value.split(',') : [target.value]
    if (rest.length > 0 && first.trim() !== '') return pick(first.trim())
    setText(target.value)
    show()
  }
  const leave = () => {
    if (free && text.trim() !== '') pick(text.trim())
    else setText('')
    setOpen(false)
  }
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.nativeEvent.isComposing) return
    const written = text.trim()
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      if (free && written !== '') flushSync(() => pick(written)) // before whoever submits reads what was chosen
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      const by = event.key === 'ArrowDown' ? 1 : -1
      if (open) setActive((current + by + offered.length) % Math.max(1, offered.length))
      else show()
    } else if (event.key === 'Enter' && (open || written !== '')) {
      event.preventDefault()
      const choice = offered[current]
      if (choice !== undefined) pick(choice.value)
      else if (free && written !== '') pick(written)
    } else {
      onKey?.(event, text)
    }
  }
  return (
    <P.Root open={open} onOpenChange={setOpen}>
      <P.Anchor asChild>
        <div ref={anchor} className={className ?? css.anchor}>
          <Input
            {...field}
            role="combobox"
            aria-expanded={open}
            aria-controls={list}
            aria-autocomplete="list"
            aria-activedescendant={open && current >= 0 ? `${list}-${current}` : undefined}
            autoComplete="off"
            spellCheck={false}
            value={text}
            onChange={write}
            onClick={show}
            onKeyDown={press}
            onBlur={leave}
          />
        </div>
      </P.Anchor>
      <P.Portal>
        <P.Content
          role="listbox"
          id={list}
          aria-label={field['aria-label'] ?? 'What can be chosen'}
          className={ui.menu}
          style={{ minWidth: 'max(12rem, var(--radix-popover-trigger-width))' }}
          align="start"
          sideOffset={4}
          collisionPadding={8}
          onOpenAutoFocus={(event) => event.preventDefault()}
          onCloseAutoFocus={(event) => event.preventDefault()}
          onInteractOutside={(event) => {
            if (event.target instanceof Node && anchor.current?.contains(event.target)) event.preventDefault()
          }}
        >
          {offered.map((choice, place) => (
            // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the field, which names the active line
            // biome-ignore lint/a11y/useKeyWithClickEvents: the field takes the keys
            <div
              key={choice.value}
              role="option"
              id={`${list}-${place}`}
              aria-selected={place === current}
              data-highlighted={place === current || undefined}
              className={ui.item}
              ref={place === current ? intoView : undefined}
              onPointerMove={() => setActive(place)}
              onPointerDown={(event) => event.preventDefault()}
              onClick={() => pick(choice.value)}
            >
              {choice.dot !== undefined && <Dot color={choice.dot} />}
              <bdi className={css.line}>{choice.label}</bdi>
              {choice.about !== undefined && <small className={css.about}>{choice.about}</small>}
            </div>
          ))}
          {offered.length === 0 && (
            <div role="option" aria-selected={false} aria-disabled="true" tabIndex={-1} className={css.none}>
              {text.trim() === '' ? 'Nothing to choose yet.' : 'Nothing is called that.'}
            </div>
          )}
        </P.Content>
      </P.Portal>
    </P.Root>
  )
}

function intoView(line: HTMLElement | null): void {
  line?.scrollIntoView({ block: 'nearest' })
}

/** What the text may mean: what begins with it first. */
function found(choices: readonly Choice[], text: string, free: boolean): Choice[] {
  const sought = text.trim().toLowerCase()
  if (sought === '') return choices.slice(0, MOST)
  const begin: Choice[] = []
  const hold: Choice[] = []
  for (const choice of choices) {
    const label = choice.label.toLowerCase()
    if (label.startsWith(sought) || choice.value.toLowerCase() === sought) begin.push(choice)
    else if (label.includes(sought)) hold.push(choice)
  }
  const all = [...begin, ...hold].slice(0, MOST)
  const known = all.some(({ value }) => value.toLowerCase() === sought)
  return free && !known ? [...all, { value: text.trim(), label: text.trim(), about: 'new' }] : all
}
