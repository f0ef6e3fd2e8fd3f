/** What can be done with all the cards that are chosen. */

import { ArrowRightLeft, SignalHigh, Tag, Trash2, UserRound, X } from 'lucide-react'
import { Button } from '@/ui/Controls'
import type { Question } from './Asking'
import css from './board.module.css'
import { counted } from './words'

type BulkBarProps = { count: number; ask: (question: Question) => void; onClear: () => void }

const DOINGS = [
  { question: 'move', label: 'Move', Icon: ArrowRightLeft },
  { question: 'assign', label: 'Assign', Icon: UserRound },
  { question: 'priority', label: 'Priority', Icon: SignalHigh },
  { question: 'labels', label: 'Labels', Icon: Tag },
  { question: 'delete', label: 'Delete', Icon: Trash2 },
] as const

export function BulkBar({ count, ask, onClear }: BulkBarProps) {
  return (
    <div className={css.bulk} role="toolbar" aria-label="The chosen tasks">
      <strong role="status">{counted(count, 'task')} chosen</strong>
      {DOINGS.map(({ question, label, Icon }) => (
        <Button key={question} small look="quiet" aria-label={label} onClick={() => ask(question)}>
          <Icon size={15} aria-hidden="true" /> <span className={css.wideOnly}>{label}</span>
        </Button>
      ))}
      <Button small look="quiet" icon aria-label="Choose none" onClick={onClear}>
        <X size={15} />
      </Button>
    </div>
  )
}
