/** People, and what proves who somebody is. */

import { getRouteApi } from '@tanstack/react-router'
import { KeyRound, TicketPlus, UserPlus } from 'lucide-react'
import { Tabs } from 'radix-ui'
import { useCommands } from '@/shell/commands'
import { useMay } from '@/shell/session'
import { Button } from '@/ui/Controls'
import { Page } from '@/ui/Page'
import uiCss from '@/ui/ui.module.css'
import { NewEnrolment, NewToken } from './NewToken'
import { PeopleList } from './PeopleList'
import { Invite } from './PersonDialogs'
import type { PeopleSearch } from './search'
import { TokensList } from './TokensList'

const route = getRouteApi('/people')

export function People() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const steers = useMay('operator')
  const administers = useMay('admin')
  const tab = search.tab ?? 'people'
  const show = (change: PeopleSearch) =>
    void navigate({ search: (before: PeopleSearch) => ({ ...before, ...change }), replace: true })
  const open = (what: PeopleSearch['open']) =>
    void navigate({ search: (before: PeopleSearch) => ({ ...before, open: what }) })
  const close = () => show({ open: undefined })
  useCommands([
    ...(administers
      ? [{ id: 'invite', label: 'Invite a person', group: 'People', keys: 'i', run: () => open('invite') }]
      : []),
    { id: 'new-token', label: 'New token', group: 'People', run: () => open('token') },
    ...(steers
      ? [{ id: 'new-enrolment', label: 'Let an agent in', group: 'People', run: () => open('enrolment') }]
      : []),
  ])
  const actions =
    tab === 'people' ? (
      administers && (
        <Button look="primary" onClick={() => open('invite')}>
          <UserPlus size={16} aria-hidden="true" /> Invite
        </Button>
      )
    ) : (
      <>
        {steers && (
          <Button onClick={() => open('enrolment')}>
            <TicketPlus size={16} aria-hidden="true" /> Let an agent in
          </Button>
        )}
        <Button look="primary" onClick={() => open('token')}>
          <KeyRound size={16} aria-hidden="true" /> New token
        </Button>
      </>
    )
  return (
    <Page title="People" actions={actions}>
      <Tabs.Root
        value={tab}
        onValueChange={(next) => void navigate({ search: next === 'tokens' ? { tab: 'tokens' } : {} })}
      >
        <Tabs.List className={uiCss.tabs} aria-label="People and tokens">
          <Tabs.Trigger className={uiCss.tab} value="people">
            People
          </Tabs.Trigger>
          <Tabs.Trigger className={uiCss.tab} value="tokens">
            {administers ? 'Tokens and sessions' : 'My tokens and sessions'}
          </Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="people">
          <PeopleList onTokensOf={(name) => void navigate({ search: { tab: 'tokens', q: name } })} />
        </Tabs.Content>
        <Tabs.Content value="tokens">
          <TokensList search={search} onSearch={show} />
        </Tabs.Content>
      </Tabs.Root>
      {search.open === 'invite' && administers && <Invite onClose={close} />}
      {search.open === 'token' && <NewToken onClose={close} />}
      {search.open === 'enrolment' && steers && <NewEnrolment onClose={close} />}
    </Page>
  )
}
