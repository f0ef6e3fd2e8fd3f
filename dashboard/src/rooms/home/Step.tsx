import { Check } from 'lucide-react'
import type { ReactNode } from 'react'
import css from './home.module.css'

type StepProps = { number: number; title: ReactNode; done: boolean; open: boolean; children: ReactNode }

/** One step; what was done folds up to its title, what cannot be done yet is only named. */
export function Step({ number, title, done, open, children }: StepProps) {
  return (
    <li className={css.step} data-done={done || undefined} data-open={open || undefined}>
      <span className={css.mark} aria-hidden="true">
        {done ? <Check size={14} strokeWidth={3} /> : number}
      </span>
      <div className={css.body}>
        <h2>
          {title} <span className="sr-only">{done ? '(done)' : open ? '(now)' : '(later)'}</span>
        </h2>
        {open && children}
      </div>
    </li>
  )
}
