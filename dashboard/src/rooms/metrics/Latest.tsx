/** The newest completions, one by one. */

import { TaskName } from '@/rooms/words/Words'
import { Badge, Time } from '@/ui/Facts'
import { Panel } from '@/ui/Page'
import ui from '@/ui/ui.module.css'
import { spanOf } from './CycleTimes'
import type { Metrics } from './metrics'
import css from './metrics.module.css'

const SHOWN = 10

export function Latest({ project, metrics: { latest } }: { project: string; metrics: Metrics }) {
  if (latest.length === 0) return null
  return (
    <Panel className={css.wide} data-chart="Latest">
      <div className={css.caption}>
        <h2 id="latest">Completed last</h2>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <section className={ui.scroll} tabIndex={0} aria-label="Completed last, as a table">
        <table className={css.agents} aria-labelledby="latest">
          <thead>
            <tr>
              <th scope="col">Task</th>
              <th scope="col">Agent</th>
              <th scope="col">Cycle time</th>
              <th scope="col">Completed</th>
            </tr>
          </thead>
          <tbody>
            {latest
              .slice(-SHOWN)
              .toReversed()
              .map((done) => (
                <tr key={`${done.task_id} ${done.completed_at}`}>
                  <th scope="row" className={css.task}>
                    <TaskName project={project} task={done.task_id} title={done.title} />{' '}
                    {done.reworked && <Badge tone="warn">reworked</Badge>}
                  </th>
                  <td>{done.agent === null ? '–' : <bdi>{done.agent}</bdi>}</td>
                  <td>{done.cycle_minutes === null ? '–' : spanOf(done.cycle_minutes)}</td>
                  <td>
                    <Time at={done.completed_at} />
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      </section>
    </Panel>
  )
}
