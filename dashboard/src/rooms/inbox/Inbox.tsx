/** What agents ask, and what people answered. */

import { useQuery } from '@tanstack/react-query'
import { Tabs } from 'radix-ui'
import { type Agent, all, api, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useProjects } from '@/shell/projects'
import { Row, Select } from '@/ui/Controls'
import { Page } from '@/ui/Page'
import ui from '@/ui/ui.module.css'
import { History } from './History'
import css from './inbox.module.css'
import { ANSWERED, type Answered, useInboxSearch } from './search'
import { WaitingList } from './WaitingList'
import { useWaiting } from './waiting'

export function Inbox() {
  const [{ tab = 'waiting' }, setSearch] = useInboxSearch()
  const waiting = useWaiting()
  return (
    <Page title="Inbox">
      <Tabs.Root
        value={tab}
        onValueChange={(value) => setSearch({ tab: value === 'history' ? value : undefined, state: undefined })}
      >
        <div className={css.bar}>
          <Tabs.List className={ui.tabs} aria-label="Inbox">
            <Tabs.Trigger className={ui.tab} value="waiting">
              Waiting {waiting > 0 && <span className={css.count}>{waiting}</span>}
            </Tabs.Trigger>
            <Tabs.Trigger className={ui.tab} value="history">
              History
            </Tabs.Trigger>
          </Tabs.List>
          <Filters />
        </div>
        <Tabs.Content value="waiting" tabIndex={-1} className={css.tab}>
          <WaitingList />
        </Tabs.Content>
        <Tabs.Content value="history" tabIndex={-1} className={css.tab}>
          <History />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  )
}

function useAgents(): string[] {
  const key = ['crew', 'names']
  useRefresh(key, ({ kind }) => kind === 'agent_registered' || kind === 'agent_unregistered', 2000)
  const { data } = useQuery({
    queryKey: key,
    queryFn: () =>
      all<Agent>((cursor) => take(api.GET('/api/v1/crew', { params: { query: { limit: 1000, cursor } } }))),
    select: (agents) => agents.map(({ name }) => name),
  })
  return data ?? []
}

function Filters() {
  const [{ tab, state = '', agent = '', project = '' }, setSearch] = useInboxSearch()
  const { data: projects = [] } = useProjects()
  const agents = useAgents()
  return (
    <Row className={css.filters}>
      {tab === 'history' && (
        <Select
          aria-label="State"
          value={state}
          onChange={({ target }) => setSearch({ state: ANSWERED.find((known: Answered) => known === target.value) })}
        >
          <option value="">Any answer</option>
          {ANSWERED.map((each) => (
            <option key={each} value={each}>
              {each[0]!.toUpperCase() + each.slice(1)}
            </option>
          ))}
        </Select>
      )}
      <Select
        aria-label="Agent"
        value={agent}
        onChange={({ target }) => setSearch({ agent: target.value || undefined })}
      >
        <option value="">All agents</option>
        {[...new Set(agent === '' ? agents : [...agents, agent])].map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </Select>
      <Select
        aria-label="Of project"
        value={project}
        onChange={({ target }) => setSearch({ project: target.value || undefined })}
      >
        <option value="">All projects</option>
        {projects.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </Select>
    </Row>
  )
}
