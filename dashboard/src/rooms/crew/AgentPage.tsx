/** Everything about one agent. */

import { getRouteApi, Link } from '@tanstack/react-router'
import { UserX } from 'lucide-react'
import { useState } from 'react'
import { Problem } from '@/api/client'
import { useCommands } from '@/shell/commands'
import { useMay } from '@/shell/session'
import { Button } from '@/ui/Controls'
import { Avatar, Time } from '@/ui/Facts'
import { Page } from '@/ui/Page'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import ui from '@/ui/ui.module.css'
import { AgentFacts } from './AgentFacts'
import { type AgentTask, Checkpoints, Events, Proposals, Revocations, Tasks } from './AgentHistory'
import { AgentMenu } from './AgentRow'
import css from './agent.module.css'
import { resuming, useAgent, useAgentChange } from './agents'
import { PresenceWord } from './PresenceMark'
import { LOOKS, since } from './presence'
import { type Act, SteeringDialog } from './Steering'
import { TABS, type Tab } from './tabs'

const route = getRouteApi('/crew/$agent')

export function AgentPage() {
  const { agent: name } = route.useParams()
  return <OneAgent key={name} name={name} />
}

type Detail = NonNullable<ReturnType<typeof useAgent>['data']>

function OneAgent({ name }: { name: string }) {
  const { data: agent, error, refetch } = useAgent(name)
  if (error instanceof Problem && (error.status === 404 || error.status === 422)) return <Gone name={name} />
  if (agent === undefined) {
    return (
      <Page title={name}>
        {error === null ? <Loading rows={5} /> : <Failure error={error} retry={() => void refetch()} />}
      </Page>
    )
  }
  return <Present agent={agent} />
}

function Present({ agent }: { agent: Detail }) {
  const { tab = 'tasks' } = route.useSearch()
  const [act, setAct] = useState<Act>()
  const may = useMay('operator')
  const change = useAgentChange()
  const say = useToast()
  const names = [agent.name]
  const resume = () =>
    change.mutate(resuming(names), { onSuccess: () => say.done(`${agent.name} resumed.`), onError: say.refused })
  useCommands(
    may
      ? [
          { id: 'agent-pause', label: `Pause ${agent.name}`, group: 'Agent', keys: 'p', run: () => setAct('pause') },
          { id: 'agent-resume', label: `Resume ${agent.name}`, group: 'Agent', keys: 'r', run: resume },
          {
            id: 'agent-revoke',
            label: `Revoke ${agent.name}`,
            group: 'Agent',
            keys: 'Shift+R',
            run: () => setAct('revoke'),
          },
        ]
      : [],
  )
  return (
    <Page
      title={agent.name}
      mark={<Avatar name={agent.name} large />}
      about={<Standing agent={agent} />}
      actions={
        may && (
          <>
            {agent.paused_at === null ? (
              <Button onClick={() => setAct('pause')}>Pause…</Button>
            ) : (
              <Button onClick={resume}>Resume</Button>
            )}
            <Button onClick={() => setAct('revoke')}>Revoke…</Button>
            <AgentMenu agent={agent} steer={setAct} resume={resume} />
          </>
        )
      }
    >
      <div className={css.columns}>
        <div className={css.history}>
          <Tabs tab={tab} tabs={TABS} name={agent.name} />
          <History name={agent.name} tab={tab} current={agent.current_task_id} />
        </div>
        <AgentFacts agent={agent} may={may} />
      </div>
      {act !== undefined && <SteeringDialog act={act} names={names} types={[]} onClose={() => setAct(undefined)} />}
    </Page>
  )
}

function Standing({ agent }: { agent: Detail }) {
  const at = since(agent)
  return (
    <span className={css.standing}>
      <PresenceWord status={agent.status} />
      {at !== null && (
        <span>
          since <Time at={at} />
        </span>
      )}
      <span>{LOOKS[agent.status].meaning}</span>
    </span>
  )
}

const LABELS: Record<Tab, string> = {
  tasks: 'Tasks',
  checkpoints: 'Checkpoints',
  revocations: 'Revocations',
  proposals: 'Proposals',
  events: 'Events',
}

function Tabs({ name, tab, tabs }: { name: string; tab: Tab; tabs: readonly Tab[] }) {
  return (
    <nav className={ui.tabs} aria-label="About this agent">
      {tabs.map((one) => (
        <Link
          key={one}
          to="/crew/$agent"
          params={{ agent: name }}
          search={{ tab: one }}
          className={css.tab}
          data-state={one === tab ? 'active' : undefined}
          aria-current={one === tab ? 'page' : undefined}
        >
          {LABELS[one]}
        </Link>
      ))}
    </nav>
  )
}

function History({ name, tab, current }: { name: string; tab: Tab; current: AgentTask }) {
  switch (tab) {
    case 'tasks':
      return <Tasks name={name} current={current} />
    case 'checkpoints':
      return <Checkpoints name={name} />
    case 'revocations':
      return <Revocations name={name} />
    case 'proposals':
      return <Proposals name={name} />
    case 'events':
      return <Events name={name} />
  }
}

const LEFT = ['checkpoints', 'revocations', 'events'] as const

/** Not on the roster: what it left behind is still here. */
function Gone({ name }: { name: string }) {
  const { tab = 'checkpoints' } = route.useSearch()
  const shown = LEFT.find((one) => one === tab) ?? 'checkpoints'
  return (
    <Page title={name} about="Not registered">
      <Empty icon={UserX} title="No agent of this name is registered">
        <p>
          It may have left, or been unregistered; what it did stays in the record below.{' '}
          <Link to="/crew">See who is here.</Link>
        </p>
      </Empty>
      <div className={css.history}>
        <Tabs tab={shown} tabs={LEFT} name={name} />
        <History name={name} tab={shown} current={null} />
      </div>
    </Page>
  )
}
