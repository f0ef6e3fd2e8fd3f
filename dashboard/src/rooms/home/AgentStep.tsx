/** The lines that bring the first agent in, and what becomes of them. */

import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowRight, Check, LoaderCircle } from 'lucide-react'
import { Tabs } from 'radix-ui'
import type { ReactNode } from 'react'
import { api, take } from '@/api/client'
import { useMe } from '@/shell/session'
import { Button } from '@/ui/Controls'
import { Copyable } from '@/ui/Copyable'
import uiCss from '@/ui/ui.module.css'
import css from './home.module.css'
import { movedBy, useFirstTasks, useOwnAgents } from './progress'
import { Step } from './Step'

export function AgentStep({ project }: { project: string | undefined }) {
  const tasks = useFirstTasks(project)
  const agents = useOwnAgents()
  const moved = movedBy(agents, tasks)
  const { projects } = useMe()
  const enrol = useMutation({
    mutationFn: () =>
      take(api.POST('/api/v1/enrolments', { body: { uses: 1, days: 1, note: 'the first agent', projects } })),
  })
  const token = enrol.data?.token
  const ready = project !== undefined && tasks.length > 0
  return (
    <Step number={3} title="Let an agent do it" done={moved !== undefined} open={ready}>
      {moved === undefined && (
        <p>
          Any program that speaks HTTP can be an agent: it registers with a token that works once, claims a task, and
          says how it goes.
        </p>
      )}
      {moved === undefined && token === undefined && (
        <Button
          look={agents.length === 0 ? 'primary' : 'plain'}
          onClick={() => enrol.mutate()}
          disabled={enrol.isPending}
        >
          {agents.length === 0 ? 'Make a token for it' : 'Make a token for another'}
        </Button>
      )}
      {enrol.error !== null && (
        <p className={uiCss.wrong} role="alert">
          {enrol.error.message}
        </p>
      )}
      {moved === undefined && token !== undefined && project !== undefined && <Lines token={token} project={project} />}
      {(token !== undefined || agents.length > 0) && (
        <ul className={css.waits} aria-live="polite">
          <Waits done={agents.length > 0}>
            {agents.length === 0 ? (
              'Waiting for your agent…'
            ) : (
              <>
                <bdi>
                  {agents
                    .map(({ name }) => name)
                    .slice(0, 3)
                    .join(', ')}
                </bdi>
                {agents.length > 3
                  ? ` and ${agents.length - 3} more are here`
                  : agents.length > 1
                    ? ' are here'
                    : ' is here'}
              </>
            )}
          </Waits>
          <Waits done={moved !== undefined}>
            {moved === undefined ? (
              'Waiting for a task to move…'
            ) : (
              <>
                <bdi>{moved.assigned_to}</bdi> works on “<bdi>{moved.title}</bdi>”
              </>
            )}
          </Waits>
        </ul>
      )}
      {moved !== undefined && project !== undefined && (
        <Link to="/projects/$project" params={{ project }} className={css.onward}>
          See it on the board <ArrowRight size={15} aria-hidden="true" />
        </Link>
      )}
    </Step>
  )
}

function Waits({ done, children }: { done: boolean; children: ReactNode }) {
  return (
    <li data-done={done || undefined}>
      {done ? <Check size={15} strokeWidth={2.5} aria-hidden="true" /> : <LoaderCircle size={15} aria-hidden="true" />}
      <span>{children}</span>
    </li>
  )
}

function Lines({ token, project }: { token: string; project: string }) {
  return (
    <Tabs.Root defaultValue="shell">
      <Tabs.List className={uiCss.tabs} aria-label="How the agent connects">
        <Tabs.Trigger className={uiCss.tab} value="shell">
          Terminal
        </Tabs.Trigger>
        <Tabs.Trigger className={uiCss.tab} value="python">
          Python
        </Tabs.Trigger>
      </Tabs.List>
      <Tabs.Content value="shell" className={css.lines}>
        <Copyable label="Paste this where it can reach this server" text={shellLines(token, project)} />
      </Tabs.Content>
      <Tabs.Content value="python" className={css.lines}>
        <Copyable label="With the client: pip install ringfence" text={pythonLines(token, project)} />
      </Tabs.Content>
    </Tabs.Root>
  )
}

function shellLines(token: string, project: string): string {
  return [
    `SERVER=${location.origin}`,
    `TOKEN=$(curl -s $SERVER/agents/register -H "Authorization: Bearer ${token}" \\`,
    `  -d '{"name": "my-agent"}' | grep -o 'rfag_[A-Za-z0-9_-]*')`,
    `TASK=$(curl -s $SERVER/api/v1/projects/${project}/claim-next \\`,
    `  -H "Authorization: Bearer $TOKEN" -d '{}' | grep -o 'tsk_[a-z0-9]*' | head -1)`,
    `curl -s -X PATCH $SERVER/api/v1/projects/${project}/tasks/$TASK \\`,
    `  -H "Authorization: Bearer $TOKEN" -d '{"status": "in_progress"}'`,
  ].join('\n')
}

function pythonLines(token: string, project: string): string {
  return [
    'from ringfence import AgentClient',
    '',
    `agent = AgentClient("${location.origin}", "my-agent", enrolment="${token}")`,
    'agent.register()',
    `task = agent.claim_next("${project}")`,
    `agent.transition_task("${project}", task["id"], "in_progress")`,
  ].join('\n')
}
