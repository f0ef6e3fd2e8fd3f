import { Link } from '@tanstack/react-router'
import { Bot, Plus, SquareKanban } from 'lucide-react'
import { Button } from '@/ui/Controls'
import { Empty } from '@/ui/States'
import ui from '@/ui/ui.module.css'
import css from './board.module.css'

/** A board without a single task: what comes first, and what comes then. */
export function EmptyBoard({ agents, onNew }: { agents: number; onNew: (() => void) | undefined }) {
  return (
    <div className={css.empty}>
      <Empty icon={SquareKanban} title="No tasks yet">
        <p>
          Write down what is to be done. A task in Ready is claimed by an agent that can do it, and moves across the
          board as it is worked on and reviewed.
        </p>
        {onNew !== undefined && (
          <div className={css.steps}>
            <Button look="primary" onClick={onNew}>
              <Plus size={16} aria-hidden="true" /> Write the first task
            </Button>
            {agents === 0 && (
              <Link to="/crew" className={ui.button}>
                <Bot size={16} aria-hidden="true" /> Register an agent
              </Link>
            )}
          </div>
        )}
      </Empty>
    </div>
  )
}
