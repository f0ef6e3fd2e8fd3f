/** What is pressed and filled in. */

import type { ComponentProps, ReactNode } from 'react'
import { useId } from 'react'
import css from './ui.module.css'

export function classes(...names: (string | false | undefined)[]): string {
  return names.filter(Boolean).join(' ')
}

type Look = 'plain' | 'primary' | 'danger' | 'quiet'

export type ButtonProps = ComponentProps<'button'> & { look?: Look; icon?: boolean; small?: boolean }

/** A button with an icon alone needs an `aria-label`. */
export function Button({ look = 'plain', icon, small, className, type = 'button', ...more }: ButtonProps) {
  return (
    <button
      type={type}
      className={classes(css.button, look !== 'plain' && css[look], icon && css.icon, small && css.small, className)}
      {...more}
    />
  )
}

export function Input({ className, ...more }: ComponentProps<'input'>) {
  return <input className={classes(css.input, className)} {...more} />
}

export function TextArea({ className, ...more }: ComponentProps<'textarea'>) {
  return <textarea className={classes(css.input, className)} {...more} />
}

/** The browser's own: best on phones, with a keyboard, and for screen readers. */
export function Select({ className, ...more }: ComponentProps<'select'>) {
  return <select className={classes(css.input, className)} {...more} />
}

type FieldProps = {
  label: string
  hint?: ReactNode
  wrong?: string | undefined
  children: (props: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: boolean }) => ReactNode
}

/** A labelled control with its hint, and with what is wrong with it. */
export function Field({ label, hint, wrong, children }: FieldProps) {
  const id = useId()
  const about = hint || wrong ? `${id}-about` : undefined
  return (
    <div className={css.field}>
      <label className={css.label} htmlFor={id}>
        {label}
      </label>
      {children({ id, ...(about ? { 'aria-describedby': about } : {}), ...(wrong ? { 'aria-invalid': true } : {}) })}
      {about !== undefined && (
        <div id={about} className={wrong ? css.wrong : css.hint}>
          {wrong ?? hint}
        </div>
      )}
    </div>
  )
}

export function Row({ className, spread, ...more }: ComponentProps<'div'> & { spread?: boolean }) {
  return <div className={classes(css.row, spread && css.spread, className)} {...more} />
}

export function Stack({ className, ...more }: ComponentProps<'div'>) {
  return <div className={classes(css.stack, className)} {...more} />
}
