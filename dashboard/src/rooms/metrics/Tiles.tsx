/** The figures that matter most, large. */

import type { ReactNode } from 'react'
import { Panel } from '@/ui/Page'
import { spanOf } from './CycleTimes'
import type { Metrics } from './metrics'
import css from './metrics.module.css'

type TilesProps = { metrics: Metrics; days: number; agent: string | undefined }

export function Tiles({ metrics, days, agent }: TilesProps) {
  const { completions, reworked, median_cycle_time_minutes: median, p85_cycle_time_minutes: p85 } = metrics
  const { blocked = 0, ready = 0 } = metrics.by_status
  const load = agent === undefined ? metrics.by_status : metrics.loads.find((each) => each.agent === agent)
  const { in_progress: progress = 0, in_review: review = 0 } = load ?? {}
  return (
    <div className={css.tiles}>
      <Tile name="Completed" about={`in ${days} days`}>
        {completions.toLocaleString()}
      </Tile>
      <Tile
        name="Median cycle time"
        about={p85 === null ? 'nothing completed yet' : `85 % took at most ${spanOf(p85)}`}
      >
        {median === null ? '–' : spanOf(median)}
      </Tile>
      <Tile
        name="Reworked"
        about={completions === 0 ? 'nothing completed yet' : `${reworked} of ${completions} went back from review`}
      >
        {completions === 0 ? '–' : `${Math.round((100 * reworked) / completions)} %`}
      </Tile>
      <Tile name="In work now" about={`${progress} in progress, ${review} in review`}>
        {(progress + review).toLocaleString()}
      </Tile>
      <Tile name="Blocked now" about={`of everybody; ${ready} ready to be claimed`} warn={blocked > 0}>
        {blocked.toLocaleString()}
      </Tile>
    </div>
  )
}

type TileProps = { name: string; about: string; warn?: boolean; children: ReactNode }

function Tile({ name, about, warn, children }: TileProps) {
  return (
    <Panel className={css.tile} data-tile={name}>
      <h2>{name}</h2>
      <p className={css.figure} data-warn={warn || undefined}>
        {children}
      </p>
      <p className={css.faint}>{about}</p>
    </Panel>
  )
}
