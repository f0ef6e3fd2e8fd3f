import { classes } from '@/ui/Controls'
import ui from '@/ui/ui.module.css'
import css from './board.module.css'
import { STATUSES } from './cards'

const CARDS = [4, 3, 2, 2, 1, 4]

/** The board's own shape, grey, until its cards are there. */
export function Skeleton() {
  return (
    <div className={css.board} role="status" aria-label="Loading the board">
      <div className={css.bar}>
        <div className={classes(ui.bone, css.boneTitle)} />
      </div>
      <div className={css.bones}>
        {STATUSES.map((status, place) => (
          <div key={status} className={css.boneColumn}>
            {Array.from({ length: CARDS[place]! }, (_, card) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
              <div key={card} className={classes(ui.bone, css.boneCard)} />
            ))}
          </div>
        ))}
      </div>
    </div>
  )
}
