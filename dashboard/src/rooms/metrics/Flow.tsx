import { Area, AreaChart, XAxis, YAxis } from 'recharts'
import { columnName } from '@/rooms/words/Words'
import { ChartPanel } from './ChartPanel'
import { DAYS, exactly, GRID, HEIGHT, MARGIN, Y_AXIS } from './drawing'
import { COLUMNS, type FlowDay, type Metrics } from './metrics'
import { wholeDay } from './weeks'

// What is done lies at the bottom and only grows; what comes to the board lies on top.
const UPWARDS = COLUMNS.toReversed()
const color = (column: string) => `var(--c-${column})`
const named = (column: string) => {
  const name = columnName(column)
  return name.charAt(0).toUpperCase() + name.slice(1)
}

/** How many tasks stood in each column at the end of each day. */
export function Flow({ metrics: { flow, total_tasks } }: { metrics: Metrics }) {
  const last = flow.at(-1)
  return (
    <ChartPanel
      wide
      title="Cumulative flow"
      about="Tasks in each column at the end of each day"
      legend={COLUMNS.map((column) => ({ name: named(column), color: color(column), value: last?.[column] }))}
      nothing={total_tasks === 0 ? 'There are no tasks yet.' : undefined}
      chart={(width, name) => (
        <AreaChart width={width} height={HEIGHT + 40} data={flow} margin={MARGIN} title={name}>
          {GRID}
          <XAxis {...DAYS} />
          <YAxis {...Y_AXIS} />
          {exactly<FlowDay>((day) => ({
            title: wholeDay(day.day),
            lines: COLUMNS.map((column) => ({ name: named(column), color: color(column), value: day[column] })),
          }))}
          {UPWARDS.map((column) => (
            <Area
              key={column}
              dataKey={column}
              stackId="board"
              type="linear"
              stroke={color(column)}
              strokeWidth={1.5}
              fill={color(column)}
              fillOpacity={0.45}
              isAnimationActive={false}
            />
          ))}
        </AreaChart>
      )}
      table={
        <table>
          <thead>
            <tr>
              <th scope="col">Day</th>
              {COLUMNS.map((column) => (
                <th key={column} scope="col">
                  {named(column)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {flow.toReversed().map((day) => (
              <tr key={day.day}>
                <th scope="row">{wholeDay(day.day)}</th>
                {COLUMNS.map((column) => (
                  <td key={column}>{day[column]}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      }
    />
  )
}
