/** Several chosen values as chips in a field, or one (`most={1}`), with what else can be chosen offered while one types. */

import { X } from 'lucide-react'
import { useRef } from 'react'
import { type Choice, Combobox } from './Combobox'
import { classes } from './Controls'
import css from './choose.module.css'
import { Dot } from './Facts'

type ChipsProps = {
  values: readonly string[]
  onChange: (values: string[]) => void
  choices: readonly Choice[]
  /** Values that are not offered may be typed, too. */
  free?: boolean
  most?: number
  id?: string
  'aria-label'?: string
  'aria-describedby'?: string
  'aria-invalid'?: boolean
  placeholder?: string
  autoFocus?: boolean
  /** Without the edge of a field, until it is used. */
  quiet?: boolean
}

export function Chips({ values, onChange, choices, most = 100, quiet, placeholder, ...field }: ChipsProps) {
  const input = useRef<HTMLInputElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const known = new Map(choices.map((choice) => [choice.value, choice]))
  const remove = (value: string) => {
    onChange(values.filter((one) => one !== value))
    requestAnimationFrame(() => box.current?.querySelector('input')?.focus())
  }
  const add = (value: string) => {
    if (!values.includes(value)) onChange([...values, value])
    if (values.length + 1 >= most) requestAnimationFrame(() => box.current?.querySelector('button')?.focus())
  }
  const full = values.length >= most
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/noStaticElementInteractions: a click beside the text leads to the text
    <div ref={box} className={classes(css.chips, quiet && css.quiet)} onClick={() => input.current?.focus()}>
      {values.map((value) => (
        <Chip key={value} value={value} choice={known.get(value)} onRemove={() => remove(value)} />
      ))}
      {!full && (
        <Combobox
          {...field}
          ref={input}
          className={css.inChips}
          choices={choices.filter(({ value }) => !values.includes(value))}
          placeholder={values.length === 0 ? placeholder : undefined}
          onPick={add}
          onKey={(event, text) => {
            const last = values.at(-1)
            if (event.key === 'Backspace' && text === '' && last !== undefined) remove(last)
          }}
        />
      )}
    </div>
  )
}

function Chip({ value, choice, onRemove }: { value: string; choice: Choice | undefined; onRemove: () => void }) {
  const label = choice?.label ?? value
  return (
    <span className={css.chip}>
      {choice?.dot !== undefined && <Dot color={choice.dot} />}
      <bdi className={css.line}>{label}</bdi>
      <button
        type="button"
        className={css.remove}
        aria-label={`Remove ${label.slice(0, 80)}`}
        onClick={(event) => {
          event.stopPropagation()
          onRemove()
        }}
      >
        <X size={12} aria-hidden="true" />
      </button>
    </span>
  )
}
