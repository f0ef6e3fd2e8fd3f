import { Area, ComposedChart, Line, XAxis, YAxis } from 'recharts'
import { columnName } from '@/rooms/words/Words'
import { ChartPanel } from './ChartPanel'
import { DAYS, exactly, GRID, HEIGHT, MARGIN, Y_AXIS } from './drawing'
import type { Metrics, WipDay } from './metrics'
import { wholeDay } from './weeks'

type Column = 'in_progress' | 'in_review'
type WipProps = { metrics: Metrics; column: Column; agent: string | undefined }

/** The most that was in work at one time on each day, and the limit that held at its end. */
export function Wip({ metrics: { wip }, column, agent }: WipProps) {
  const color = `var(--c-${column})`
  const limit = `${column}_limit` as const
  const limited = wip.some((day) => day[limit] !== null)
  const now = wip.at(-1)
  const name = columnName(column)
  const over = wip.filter((day) => day[limit] !== null && day[column] > day[limit]!).length
  return (
    <ChartPanel
      title={`Work ${name}`}
      about={aboutOf(agent, limited, over)}
      legend={[
        { name: 'At most that day', color, value: now?.[column] },
        ...(limited
          ? [
              {
                name: agent === undefined ? 'Limit of the column' : 'Their limit',
                color: 'var(--bad)',
                line: true,
                value: now?.[limit] ?? 'none',
              },
            ]
          : []),
      ]}
      nothing={wip.every((day) => day[column] === 0) ? `Nothing was ${name} in these days.` : undefined}
      chart={(width, title) => (
        <ComposedChart width={width} height={HEIGHT} data={wip} margin={MARGIN} title={title}>
          {GRID}
          <XAxis {...DAYS} />
          <YAxis {...Y_AXIS} />
          {exactly<WipDay>((day) => ({
            title: wholeDay(day.day),
            lines: [
              { name: 'At most', color, value: day[column] },
              { name: 'Limit', color: 'var(--bad)', value: day[limit] ?? 'none' },
            ],
          }))}
          <Area
            dataKey={column}
            type="step"
            stroke={color}
            strokeWidth={1.5}
            fill={color}
            fillOpacity={0.25}
            isAnimationActive={false}
          />
          {limited && (
            <Line
              dataKey={limit}
              type="step"
              stroke="var(--bad)"
              strokeWidth={1.5}
              strokeDasharray="5 4"
              dot={false}
              connectNulls={false}
              isAnimationActive={false}
            />
          )}
        </ComposedChart>
      )}
      table={
        <table>
          <thead>
            <tr>
              <th scope="col">Day</th>
              <th scope="col">At most</th>
              <th scope="col">Limit</th>
            </tr>
          </thead>
          <tbody>
            {wip.toReversed().map((day) => (
              <tr key={day.day}>
                <th scope="row">{wholeDay(day.day)}</th>
                <td>{day[column]}</td>
                <td>{day[limit] ?? 'none'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      }
    />
  )
}

function aboutOf(agent: string | undefined, limited: boolean, over: number): string {
  if (!limited) return agent === undefined ? 'The column as a whole has no limit' : 'Nothing limits them here'
  if (over === 0) return 'Never above the limit'
  return over === 1 ? 'Above the limit on one day' : `Above the limit on ${over} days`
}
