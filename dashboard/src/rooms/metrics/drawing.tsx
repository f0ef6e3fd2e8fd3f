/** What all charts have in common: axes, grid, and the exact figures under the pointer. */

import type { ReactNode } from 'react'
import { CartesianGrid, Tooltip, type TooltipContentProps, type XAxisProps, type YAxisProps } from 'recharts'
import { Dot } from '@/ui/Facts'
import css from './metrics.module.css'
import { shortDay } from './weeks'

export const HEIGHT = 240
export const MARGIN = { top: 8, right: 8, bottom: 0, left: 0 }
export const Y_WIDTH = 36

const TICK = { fill: 'var(--ink-3)', fontSize: 11 }

export const X_AXIS: XAxisProps = {
  tick: TICK,
  tickLine: false,
  axisLine: { stroke: 'var(--line)' },
  minTickGap: 28,
  tickMargin: 6,
}
export const Y_AXIS: YAxisProps = {
  tick: TICK,
  tickLine: false,
  axisLine: false,
  width: Y_WIDTH,
  allowDecimals: false,
}
export const DAYS: XAxisProps = { ...X_AXIS, dataKey: 'day', tickFormatter: shortDay }

export const GRID = <CartesianGrid vertical={false} stroke="var(--line)" />

export type Exact = { name: string; color: string; value: ReactNode }

/** `exact` says what stands at one place: its name, and a line for each figure. */
export function exactly<T>(exact: (point: T) => { title: string; lines: Exact[] }) {
  const content = ({ active, payload }: TooltipContentProps) => {
    const point = payload?.[0]?.payload as T | undefined
    if (!active || point === undefined) return null
    const { title, lines } = exact(point)
    return (
      <div className={css.exact}>
        <strong>{title}</strong>
        <dl>
          {lines.map(({ name, color, value }) => (
            <div key={name}>
              <dt>
                <Dot color={color} /> {name}
              </dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </div>
    )
  }
  return (
    <Tooltip
      content={content}
      isAnimationActive={false}
      cursor={{ fill: 'var(--hover)', stroke: 'var(--line-strong)', fillOpacity: 0.6 }}
      wrapperStyle={{ zIndex: 5 }}
    />
  )
}
