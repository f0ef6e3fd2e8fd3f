import { ArrowRight } from 'lucide-react'
import { useState } from 'react'
import { Button } from '@/ui/Controls'
import { Name, Time } from '@/ui/Facts'
import { Failure, Loading } from '@/ui/States'
import { StatusBadge } from './Moving'
import { useHistory, type Where } from './task'
import css from './task.module.css'

const SHOWN = 30

/** Every move, the newest first. */
export function History({ where }: { where: Where }) {
  const { data: moves, error, refetch } = useHistory(where)
  const [shown, setShown] = useState(SHOWN)
  if (moves === undefined) {
    return error === null ? <Loading rows={3} height="2rem" /> : <Failure error={error} retry={() => void refetch()} />
  }
  const earlier = Math.max(0, moves.length - shown)
  return (
    <>
      <ol className={css.history} aria-label="History, the newest first">
        {moves
          .slice(earlier)
          .reverse()
          .map((move) => (
            <li key={move.id}>
              <div className={css.moved}>
                {move.from !== null && (
                  <>
                    <StatusBadge status={move.from} />
                    <ArrowRight size={13} role="img" aria-label="to" />
                  </>
                )}
                <StatusBadge status={move.to} />
                <span className={css.by}>
                  <Name>{move.by}</Name> · <Time at={move.at} />
                </span>
              </div>
              {move.note !== '' && (
                <p className={css.note}>
                  <bdi>{move.note}</bdi>
                </p>
              )}
            </li>
          ))}
      </ol>
      {earlier > 0 && (
        <Button small look="quiet" onClick={() => setShown(shown + SHOWN)}>
          Show {Math.min(SHOWN, earlier)} earlier of {earlier}
        </Button>
      )}
    </>
  )
}
