import { Bar, BarChart, XAxis, YAxis } from 'recharts'
import { ChartPanel } from './ChartPanel'
import { exactly, GRID, HEIGHT, MARGIN, X_AXIS, Y_AXIS } from './drawing'
import type { Metrics } from './metrics'
import { byWeek, shortDay, stretchName } from './weeks'

const LEGIBLE = 92 // days that have a bar of their own

/** How many tasks came to done. */
export function Throughput({ metrics }: { metrics: Metrics }) {
  const { throughput, completions } = metrics
  const weekly = throughput.length > LEGIBLE
  const bars = weekly
    ? byWeek(throughput, (week) => ({ completed: week.reduce((sum, { completed }) => sum + completed, 0) }))
    : throughput.map(({ day, completed }) => ({ from: day, to: day, completed }))
  return (
    <ChartPanel
      title="Throughput"
      about={`Tasks completed each ${weekly ? 'week' : 'day'}`}
      legend={[{ name: 'Completed', color: 'var(--c-done)', value: completions.toLocaleString() }]}
      nothing={completions === 0 ? 'Nothing was completed in these days.' : undefined}
      chart={(width, name) => (
        <BarChart width={width} height={HEIGHT} data={bars} margin={{ ...MARGIN, top: 18 }} title={name}>
          {GRID}
          <XAxis {...X_AXIS} dataKey="from" tickFormatter={shortDay} />
          <YAxis {...Y_AXIS} />
          {exactly<(typeof bars)[number]>((bar) => ({
            title: stretchName(bar),
            lines: [{ name: 'Completed', color: 'var(--c-done)', value: bar.completed }],
          }))}
          <Bar
            dataKey="completed"
            fill="var(--c-done)"
            radius={[3, 3, 0, 0]}
            maxBarSize={28}
            isAnimationActive={false}
          />
        </BarChart>
      )}
      table={
        <table>
          <thead>
            <tr>
              <th scope="col">{weekly ? 'Week' : 'Day'}</th>
              <th scope="col">Completed</th>
            </tr>
          </thead>
          <tbody>
            {bars.toReversed().map((bar) => (
              <tr key={bar.from}>
                <th scope="row">{stretchName(bar)}</th>
                <td>{bar.completed}</td>
              </tr>
            ))}
          </tbody>
        </table>
      }
    />
  )
}
