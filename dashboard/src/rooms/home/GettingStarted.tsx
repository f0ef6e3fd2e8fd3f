/** From nothing to a task that moves on the board. Each step is done when the server sees it done, by whomever. */

import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowRight, FlaskConical } from 'lucide-react'
import { lastProject, useProjects } from '@/shell/projects'
import { useMay } from '@/shell/session'
import { Button } from '@/ui/Controls'
import { Page, Panel } from '@/ui/Page'
import { Empty, Failure, Loading } from '@/ui/States'
import { AgentStep } from './AgentStep'
import { useDemo, useMayDemo, useRemoveDemo, useStartDemo } from './demo'
import css from './home.module.css'
import { ProjectStep } from './ProjectStep'
import { TaskStep } from './TaskStep'

const route = getRouteApi('/start')

export function GettingStarted() {
  const may = useMay('operator')
  const projects = useProjects()
  const demo = useDemo()
  if (projects.data === undefined || demo.data === undefined) {
    const error = projects.error ?? demo.error
    return (
      <Page title="Getting started">
        {error === null ? (
          <Loading />
        ) : (
          <Failure error={error} retry={() => void Promise.all([projects.refetch(), demo.refetch()])} />
        )}
      </Page>
    )
  }
  if (!may) return <ForViewers any={projects.data.length > 0} />
  return (
    <Page
      title={projects.data.length === 0 ? 'Welcome to Ringfence' : 'Getting started'}
      about="Three steps to a task that moves on the board. They tick themselves off."
    >
      <div className={css.start}>
        <Steps />
        <DemoCard />
      </div>
    </Page>
  )
}

/** One's own project: the demo's is none to begin with. */
function useOwnProject() {
  const search = route.useSearch()
  const { data: projects = [] } = useProjects()
  const { data: demo } = useDemo()
  const own = projects.filter(({ id }) => id !== demo?.project)
  return own.find(({ id }) => id === search.project) ?? own.find(({ id }) => id === lastProject()) ?? own[0]
}

function Steps() {
  const project = useOwnProject()
  const navigate = route.useNavigate()
  return (
    <ol className={css.steps}>
      <ProjectStep project={project} onMade={(id) => void navigate({ search: { project: id }, replace: true })} />
      <TaskStep project={project?.id} />
      <AgentStep project={project?.id} />
    </ol>
  )
}

function DemoCard() {
  const { data: demo } = useDemo()
  const may = useMayDemo()
  const start = useStartDemo()
  const remove = useRemoveDemo()
  const navigate = route.useNavigate()
  const show = (project: string) => void navigate({ to: '/projects/$project', params: { project } })
  if (!may) return null
  return (
    <Panel className={css.demo ?? ''}>
      <FlaskConical size={22} strokeWidth={1.75} aria-hidden="true" />
      <h2>Or look first</h2>
      <p>
        A made-up project with five agents that claim, report, review and ask for approval by themselves. It keeps away
        from everything else, and one click removes it.
      </p>
      {demo?.project == null ? (
        <Button
          look="primary"
          disabled={start.isPending}
          onClick={() => start.mutate(undefined, { onSuccess: ({ project }) => project !== null && show(project) })}
        >
          Show me with demo data
        </Button>
      ) : (
        <>
          <Link to="/projects/$project" params={{ project: demo.project }} className={css.onward}>
            See its board <ArrowRight size={15} aria-hidden="true" />
          </Link>
          <Button disabled={remove.isPending} onClick={() => remove.mutate()}>
            Remove the demo
          </Button>
        </>
      )}
    </Panel>
  )
}

function ForViewers({ any }: { any: boolean }) {
  return (
    <Page title="Getting started">
      <Empty icon={FlaskConical} title={any ? 'You may look around' : 'There is no project yet'}>
        <p>
          {any
            ? 'Choose a project at the top: its board, its agents and all that happens is yours to see. Changing it takes the role operator.'
            : 'As soon as somebody makes a project that you may see, it appears here.'}
        </p>
      </Empty>
    </Page>
  )
}
