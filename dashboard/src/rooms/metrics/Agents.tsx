/** What each agent did in these days, and what it holds now. */

import { Link } from '@tanstack/react-router'
import { Panel } from '@/ui/Page'
import ui from '@/ui/ui.module.css'
import { spanOf } from './CycleTimes'
import type { Metrics } from './metrics'
import css from './metrics.module.css'

type Row = {
  agent: string | null
  done: Metrics['agents'][number] | undefined
  load: Metrics['loads'][number] | undefined
}

export function Agents({ metrics }: { metrics: Metrics }) {
  const rows = rowsOf(metrics)
  if (rows.length === 0) return null
  const most = Math.max(1, ...rows.flatMap(({ done }) => done?.daily ?? []))
  return (
    <Panel className={css.wide} data-chart="Agents">
      <div className={css.caption}>
        <h2 id="by-agent">By agent</h2>
        <p>What each completed in these days, and what it has in work</p>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <section className={ui.scroll} tabIndex={0} aria-label="By agent, as a table">
        <table className={css.agents} aria-labelledby="by-agent">
          <thead>
            <tr>
              <th scope="col">Agent</th>
              <th scope="col">Completed</th>
              <th scope="col">Day by day</th>
              <th scope="col">Median</th>
              <th scope="col">Mean</th>
              <th scope="col">Reworked</th>
              <th scope="col">In progress</th>
              <th scope="col">In review</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <AgentRow key={row.agent ?? ''} row={row} most={most} />
            ))}
          </tbody>
        </table>
      </section>
    </Panel>
  )
}

function AgentRow({ row: { agent, done, load }, most }: { row: Row; most: number }) {
  return (
    <tr>
      <th scope="row">
        {agent === null ? (
          <span className={css.faint}>Nobody’s</span>
        ) : (
          <Link
            from="/projects/$project/metrics"
            search={(before) => ({ ...before, agent })}
            resetScroll={false}
            title={`Only what ${agent} did`}
          >
            <bdi>{agent}</bdi>
          </Link>
        )}
      </th>
      <td>{done?.completed ?? 0}</td>
      <td>{done !== undefined && <Sparkline daily={done.daily} most={most} />}</td>
      <td>{done === undefined ? '–' : spanOf(done.median_cycle_time_minutes)}</td>
      <td>{done === undefined ? '–' : spanOf(done.avg_cycle_time_minutes)}</td>
      <td>{done?.reworked ?? 0}</td>
      <td>
        {load === undefined ? (
          0
        ) : (
          <Held now={load.in_progress} most={load.in_progress_most} limit={load.in_progress_limit} />
        )}
      </td>
      <td>
        {load === undefined ? 0 : <Held now={load.in_review} most={load.in_review_most} limit={load.in_review_limit} />}
      </td>
    </tr>
  )
}

function Held({ now, most, limit }: { now: number; most: number; limit: number | null }) {
  return (
    <span title={`${most} at most at one time in these days; ${limit === null ? 'no limit' : `the limit is ${limit}`}`}>
      {now}
      <span className={css.faint}>
        {limit !== null && ` of ${limit}`} · {most} at most
      </span>
    </span>
  )
}

const TALL = 18

/** The days as bars, all agents in one scale; the figures are in the cell before it and on the agent's own page. */
function Sparkline({ daily, most }: { daily: readonly number[]; most: number }) {
  const wide = Math.max(1, Math.min(4, 120 / daily.length))
  return (
    <svg className={css.spark} width={120} height={TALL} aria-hidden="true">
      {daily.map((count, day) => {
        const high = (count / most) * TALL
        // biome-ignore lint/suspicious/noArrayIndexKey: a day is its place
        return <rect key={day} x={(day * 120) / daily.length} y={TALL - high} width={wide * 0.8} height={high} />
      })}
    </svg>
  )
}

function rowsOf({ agents, loads }: Metrics): Row[] {
  const names = new Set([...agents.map(({ agent }) => agent), ...loads.map(({ agent }) => agent)])
  return [...names]
    .map((agent) => ({
      agent,
      done: agents.find((each) => each.agent === agent),
      load: loads.find((each) => each.agent === agent),
    }))
    .sort((one, other) => (other.done?.completed ?? 0) - (one.done?.completed ?? 0))
}
