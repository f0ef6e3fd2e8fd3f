import { useMemo } from 'react'
import { Bar, BarChart, ReferenceLine, XAxis, YAxis } from 'recharts'
import { span } from '@/ui/time'
import { ChartPanel } from './ChartPanel'
import { exactly, GRID, HEIGHT, MARGIN, X_AXIS, Y_AXIS, Y_WIDTH } from './drawing'
import { type Bin, type Histogram, histogram, placeOf } from './histogram'
import type { Metrics } from './metrics'

export const spanOf = (minutes: number) => span(minutes * 60)

const QUANTILES = [
  { name: 'Median', share: '50 %', field: 'median_cycle_time_minutes', color: 'var(--series-1)' },
  { name: 'p85', share: '85 %', field: 'p85_cycle_time_minutes', color: 'var(--series-3)' },
  { name: 'p95', share: '95 %', field: 'p95_cycle_time_minutes', color: 'var(--series-4)' },
] as const

type Drawn = Bin & { middle: number }

/** How long tasks took from their first start to done: all of them, not only a mean. */
export function CycleTimes({ metrics }: { metrics: Metrics }) {
  const { cycle_times_minutes: times, p95_cycle_time_minutes: p95 } = metrics
  const found = useMemo(() => histogram(times, p95), [times, p95])
  const bars: Drawn[] = found.bins.map((bin) => ({ ...bin, middle: bin.from + found.step / 2 }))
  const quantiles = QUANTILES.flatMap((each) => {
    const minutes = metrics[each.field]
    return minutes === null ? [] : [{ ...each, minutes }]
  })
  return (
    <ChartPanel
      title="Cycle time"
      about="From the first start to done, how many took how long"
      legend={quantiles.map(({ name, color, minutes }) => ({ name, color, line: true, value: spanOf(minutes) }))}
      nothing={times.length === 0 ? 'Nothing that was started came to done in these days.' : undefined}
      chart={(width, name) => (
        <BarChart width={width} height={HEIGHT} data={bars} margin={{ ...MARGIN, top: 18 }} title={name}>
          {GRID}
          <XAxis {...X_AXIS} {...axisOf(found)} />
          <YAxis {...Y_AXIS} />
          {exactly<Drawn>((bin) => ({
            title: binName(bin),
            lines: [{ name: 'Tasks', color: 'var(--series-2)', value: bin.count }],
          }))}
          <Bar
            dataKey="count"
            fill="var(--series-2)"
            radius={[3, 3, 0, 0]}
            barSize={Math.max(2, (width - Y_WIDTH - MARGIN.right) / bars.length - 2)}
            isAnimationActive={false}
          />
          {quantiles.map(({ name, color, minutes }) => (
            <ReferenceLine
              key={name}
              x={placeOf(found, minutes)}
              stroke={color}
              strokeWidth={2}
              strokeDasharray="4 3"
              label={{ value: name, position: 'top', fill: color, fontSize: 11 }}
            />
          ))}
        </BarChart>
      )}
      table={
        <table>
          <thead>
            <tr>
              <th scope="col">Took</th>
              <th scope="col">Tasks</th>
            </tr>
          </thead>
          <tbody>
            {bars.map((bin) => (
              <tr key={bin.from}>
                <th scope="row">{binName(bin)}</th>
                <td>{bin.count}</td>
              </tr>
            ))}
            {quantiles.map(({ name, share, minutes }) => (
              <tr key={name}>
                <th scope="row">
                  {name}: {share} took at most
                </th>
                <td>{spanOf(minutes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      }
    />
  )
}

function binName({ from, to }: Bin): string {
  if (to === null) return `${spanOf(from)} and longer`
  return from === 0 ? `Less than ${spanOf(to)}` : `${spanOf(from)} to ${spanOf(to)}`
}

/** Marks between the bins, few enough to be read. */
function axisOf({ step, bins }: Histogram) {
  const every = Math.ceil(bins.length / 8)
  const ticks = bins.flatMap(({ from }, at) => (at % every === 0 ? [from] : []))
  return {
    dataKey: 'middle',
    type: 'number' as const,
    domain: [0, bins.length * step],
    ticks,
    interval: 0,
    tickFormatter: (minutes: number) => (minutes === 0 ? '0' : spanOf(minutes)),
  }
}
