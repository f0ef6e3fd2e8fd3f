/** How a project is doing: what gets done, how long it takes, and where it waits. */

import { Link, useParams } from '@tanstack/react-router'
import { ChartColumn, ChartNoAxesColumn, Table2 } from 'lucide-react'
import { useProjects } from '@/shell/projects'
import { Button, Select } from '@/ui/Controls'
import { Page } from '@/ui/Page'
import { Empty, Failure } from '@/ui/States'
import ui from '@/ui/ui.module.css'
import { Agents } from './Agents'
import { CycleTimes } from './CycleTimes'
import { Flow } from './Flow'
import { Latest } from './Latest'
import { type Metrics as Figures, useMetrics } from './metrics'
import css from './metrics.module.css'
import { SPANS, USUAL, useMetricsSearch } from './search'
import { Throughput } from './Throughput'
import { Tiles } from './Tiles'
import { Wip } from './Wip'

export function Metrics() {
  const { project } = useParams({ from: '/projects/$project/metrics' })
  const [{ days = USUAL, agent }] = useMetricsSearch()
  const { data: metrics, error, refetch, isPlaceholderData } = useMetrics(project, days, agent)
  const name = useProjects().data?.find(({ id }) => id === project)?.name
  return (
    <Page
      title="Metrics"
      about={
        <>
          {name !== undefined && <bdi>{name}</bdi>}
          {agent !== undefined && (
            <>
              , only <bdi>{agent}</bdi>
            </>
          )}{' '}
          · days of UTC
        </>
      }
      actions={<Choices metrics={metrics} />}
    >
      {metrics !== undefined ? (
        <div className={css.figures} data-stale={isPlaceholderData || undefined} aria-busy={isPlaceholderData}>
          <Content project={project} metrics={metrics} days={days} agent={agent} />
        </div>
      ) : error === null ? (
        <Bones />
      ) : (
        <Failure error={error} retry={() => void refetch()} />
      )}
    </Page>
  )
}

type ContentProps = { project: string; metrics: Figures; days: number; agent: string | undefined }

function Content({ project, metrics, days, agent }: ContentProps) {
  if (metrics.total_tasks === 0 && metrics.completions === 0) {
    return (
      <Empty icon={ChartNoAxesColumn} title="Nothing to measure yet">
        <p>Once tasks move on the board, how many get done, how long they take and where they wait is shown here.</p>
        <Link to="/projects/$project" params={{ project }}>
          To the board
        </Link>
      </Empty>
    )
  }
  return (
    <>
      <Tiles metrics={metrics} days={days} agent={agent} />
      <div className={css.charts}>
        <Throughput metrics={metrics} />
        <CycleTimes metrics={metrics} />
        <Flow metrics={metrics} />
        <Wip metrics={metrics} column="in_progress" agent={agent} />
        <Wip metrics={metrics} column="in_review" agent={agent} />
        <Agents metrics={metrics} />
        <Latest project={project} metrics={metrics} />
      </div>
    </>
  )
}

function Choices({ metrics }: { metrics: Figures | undefined }) {
  const [{ days = USUAL, agent = '', view }, setSearch] = useMetricsSearch()
  const agents = new Set([...(metrics?.agents ?? []), ...(metrics?.loads ?? [])].flatMap((each) => each.agent ?? []))
  if (agent !== '') agents.add(agent)
  const spans = [...new Set([...SPANS, days])].sort((one, other) => one - other)
  return (
    <>
      <Select
        aria-label="Agent"
        className={css.choice}
        value={agent}
        onChange={({ target }) => setSearch({ agent: target.value || undefined })}
      >
        <option value="">All agents</option>
        {[...agents].sort().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </Select>
      <Select
        aria-label="Days"
        value={days}
        onChange={({ target }) =>
          setSearch({ days: Number(target.value) === USUAL ? undefined : Number(target.value) })
        }
      >
        {spans.map((span) => (
          <option key={span} value={span}>
            {span === 365 ? 'A year' : `${span} days`}
          </option>
        ))}
      </Select>
      <fieldset className={css.views}>
        <legend className="sr-only">Show as</legend>
        <Button aria-pressed={view === undefined} onClick={() => setSearch({ view: undefined })}>
          <ChartColumn size={15} aria-hidden="true" /> Charts
        </Button>
        <Button aria-pressed={view === 'tables'} onClick={() => setSearch({ view: 'tables' })}>
          <Table2 size={15} aria-hidden="true" /> Tables
        </Button>
      </fieldset>
    </>
  )
}

/** Grey shapes where the figures will be. */
function Bones() {
  return (
    <div className={css.figures} role="status" aria-label="Loading">
      <div className={css.tiles}>
        {['completed', 'cycle', 'rework', 'work', 'blocked'].map((tile) => (
          <div key={tile} className={ui.bone} style={{ height: '6.5rem' }} />
        ))}
      </div>
      <div className={css.charts}>
        {['throughput', 'cycle'].map((chart) => (
          <div key={chart} className={ui.bone} style={{ height: '19rem' }} />
        ))}
        <div className={`${ui.bone} ${css.wide}`} style={{ height: '22rem' }} />
      </div>
    </div>
  )
}
