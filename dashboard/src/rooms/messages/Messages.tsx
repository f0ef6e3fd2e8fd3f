/** What agents and people say to each other: conversations, and the picture of who talks with whom. */

import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft, MessagesSquare, PenLine, SearchX } from 'lucide-react'
import { Suspense, useMemo, useRef } from 'react'
import { useMessageGraph } from '@/rooms/crew/mail'
import { useCommands } from '@/shell/commands'
import { useMay, useMe } from '@/shell/session'
import { Button, classes, Input } from '@/ui/Controls'
import { useNow } from '@/ui/Facts'
import { Page } from '@/ui/Page'
import { later } from '@/ui/parts'
import { Empty, Failure, Loading } from '@/ui/States'
import { type MessagesSearch, opened } from './address'
import { NewMessage } from './Composer'
import { ConversationList } from './ConversationList'
import { ConversationView } from './ConversationView'
import { conversations, wanted } from './conversations'
import { useRecent, useThreads, useUnread } from './mail'
import css from './messages.module.css'

const GraphView = later(() => import('./GraphView'))
const CountsView = later(() => import('./CountsView'))
const route = getRouteApi('/messages')

export function Messages() {
  const { view, to } = route.useSearch()
  const navigate = useNavigate()
  const may = useMay('operator')
  const set = (change: MessagesSearch) =>
    void navigate({ from: '/messages', to: '/messages', search: (before) => ({ ...before, ...change }) })
  const write = () => set({ to: '' })
  useCommands(may ? [{ id: 'new-message', label: 'New message', group: 'Messages', keys: 'n', run: write }] : [])
  return (
    <Page
      title="Messages"
      wide
      actions={
        <>
          <Views view={view} />
          {may && (
            <Button look="primary" onClick={write} aria-label="New message">
              <PenLine size={16} aria-hidden="true" /> <span className={css.roomy}>New message</span>
            </Button>
          )}
        </>
      }
    >
      <Suspense fallback={<Loading rows={1} height="24rem" />}>
        {view === 'graph' ? <GraphView /> : view === 'counts' ? <CountsView /> : <Conversations />}
      </Suspense>
      {may && to !== undefined && <NewMessage key={to} to={to} onClose={() => set({ to: undefined })} />}
    </Page>
  )
}

const VIEWS = [
  { view: undefined, label: 'Conversations' },
  { view: 'graph', label: 'Graph' },
  { view: 'counts', label: 'Table' },
] as const

function Views({ view }: { view: MessagesSearch['view'] }) {
  return (
    <nav className={css.views} aria-label="View">
      {VIEWS.map((one) => (
        <Link
          key={one.label}
          from="/messages"
          to="/messages"
          search={(before) => ({ ...before, view: one.view })}
          data-state={one.view === view ? 'active' : undefined}
          aria-current={one.view === view ? 'page' : undefined}
        >
          {one.label}
        </Link>
      ))}
    </nav>
  )
}

function Conversations() {
  const search = route.useSearch()
  const recent = useRecent()
  const { data: threads } = useThreads()
  const { data: unread } = useUnread()
  const { data: graph } = useMessageGraph()
  const me = useMe().name
  const now = useNow()
  const may = useMay('operator')
  const all = useMemo(
    () =>
      conversations({
        recent: recent.messages ?? [],
        threads: threads ?? [],
        edges: graph?.edges ?? [],
        unread: unread ?? [],
        me,
        now,
      }),
    [recent.messages, threads, graph, unread, me, now],
  )
  const shown = useMemo(() => wanted(all, search), [all, search])
  const what = opened(search.open)
  if (recent.messages === undefined) {
    return recent.error === null ? (
      <Loading rows={6} />
    ) : (
      <Failure error={recent.error} retry={() => void recent.refetch()} />
    )
  }
  if (all.length === 0 && what === undefined) return <Silence may={may} />
  return (
    <div className={css.panes} data-open={what !== undefined || undefined}>
      <div className={css.left}>
        <Filters />
        {shown.length === 0 ? (
          <Empty icon={SearchX} title="No conversation is like that" />
        ) : (
          <ConversationList conversations={shown} open={search.open} />
        )}
        {recent.hasNextPage && (
          <Button look="quiet" disabled={recent.isFetchingNextPage} onClick={() => void recent.fetchNextPage()}>
            Look further back
          </Button>
        )}
      </div>
      <div className={css.right}>
        {what === undefined || search.open === undefined ? (
          <Empty icon={MessagesSquare} title="Choose a conversation">
            <p>Keys j and k go through them.</p>
          </Empty>
        ) : (
          <>
            <Link
              from="/messages"
              to="/messages"
              search={(before) => ({ ...before, open: undefined })}
              className={classes(css.back, css.act)}
            >
              <ArrowLeft size={16} aria-hidden="true" /> All conversations
            </Link>
            <ConversationView key={search.open} what={what} open={search.open} />
          </>
        )}
      </div>
    </div>
  )
}

function Silence({ may }: { may: boolean }) {
  return (
    <Empty icon={MessagesSquare} title="Nobody has said anything yet">
      <p>
        Agents write to each other, to you, and to everybody; it all shows here as it is said.
        {may && ' You may begin: press n.'}
      </p>
    </Empty>
  )
}

function Filters() {
  const search = route.useSearch()
  const navigate = useNavigate()
  const field = useRef<HTMLInputElement>(null)
  const set = (change: MessagesSearch, replace = false) =>
    void navigate({ from: '/messages', to: '/messages', search: (before) => ({ ...before, ...change }), replace })
  useCommands([
    { id: 'find', label: 'Find a conversation', group: 'Messages', keys: '/', run: () => field.current?.focus() },
  ])
  return (
    <div className={css.filters}>
      <Input
        ref={field}
        type="search"
        aria-label="Find a conversation"
        placeholder="Name, thread, words…"
        value={search.q ?? ''}
        onChange={(event) => set({ q: event.target.value || undefined }, true)}
        onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
      />
      <Button
        aria-pressed={search.waiting ?? false}
        onClick={() => set({ waiting: search.waiting ? undefined : true })}
      >
        Unacknowledged
      </Button>
      {search.agent !== undefined && (
        <Button onClick={() => set({ agent: undefined })} aria-label={`Not only ${search.agent}`}>
          <bdi>{search.agent}</bdi> ×
        </Button>
      )}
    </div>
  )
}
