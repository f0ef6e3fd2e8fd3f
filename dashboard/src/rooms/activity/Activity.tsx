/** The feed and the record behind it: what happens, and everything that ever happened. */

import { ArrowUp, Download, Pause, Play, ScrollText, SearchX } from 'lucide-react'
import { Suspense, useEffect, useState } from 'react'
import { useStreamState } from '@/live/refresh'
import { useCommands } from '@/shell/commands'
import { Button } from '@/ui/Controls'
import { Menu, MenuItem } from '@/ui/Overlays'
import { Page } from '@/ui/Page'
import { later, useSoon } from '@/ui/parts'
import { Empty, Failure, Loading } from '@/ui/States'
import css from './activity.module.css'
import { EventList } from './EventList'
import { WAITING } from './feed'
import { download, NO_FILTERS, useActivitySearch } from './search'
import { isNarrowed, Toolbar } from './Toolbar'
import { useFeed } from './useFeed'
import { Verification } from './Verification'

const EventDrawer = later(() => import('./EventDrawer'))

export function Activity() {
  const [search, setSearch] = useActivitySearch()
  const { feed, state } = useFeed(search)
  const [paused, setPaused] = useState(false)
  useSoon(EventDrawer)
  const top = useAtTop()
  useEffect(() => {
    feed.following = top && !paused
    if (feed.following) void feed.reveal()
  }, [feed, top, paused])
  useCommands([
    {
      id: 'pause-feed',
      label: paused ? 'Follow the events' : 'Hold the events',
      group: 'Activity',
      keys: 'p',
      run: () => setPaused(!paused),
    },
  ])
  const { events } = state
  return (
    <Page title="Activity" actions={<Actions paused={paused} onPause={() => setPaused(!paused)} />}>
      <Verification />
      <div className={css.bar}>
        <Toolbar />
        <Waiting
          count={state.flooded ? WAITING : state.waiting.length}
          more={state.flooded}
          onShow={() => {
            void feed.reveal()
            window.scrollTo({ top: 0 })
          }}
        />
      </div>
      {events === undefined ? (
        state.error === null ? (
          <Loading rows={12} height="2rem" />
        ) : (
          <Failure error={state.error} retry={() => void feed.begin(undefined)} />
        )
      ) : events.length === 0 && !state.more ? (
        <Nothing narrowed={isNarrowed(search)} onClear={() => setSearch(NO_FILTERS)} />
      ) : (
        <EventList feed={feed} state={state} events={events} placed={search.project === undefined} />
      )}
      <Suspense>
        {search.event !== undefined && (
          <EventDrawer
            seq={search.event}
            events={events ?? []}
            onOpen={(event) => setSearch({ event })}
            onClose={() => setSearch({ event: undefined })}
          />
        )}
      </Suspense>
    </Page>
  )
}

function Actions({ paused, onPause }: { paused: boolean; onPause: () => void }) {
  const [search] = useActivitySearch()
  const live = useStreamState().name === 'live'
  return (
    <>
      <Button aria-pressed={paused} onClick={onPause}>
        {paused ? (
          <>
            <Play size={15} aria-hidden="true" /> Held
          </>
        ) : (
          <>
            <span className={css.live} data-live={live || undefined} aria-hidden="true" /> {live ? 'Live' : 'Not live'}
            <Pause size={13} aria-hidden="true" />
          </>
        )}
      </Button>
      <Menu
        trigger={
          <Button>
            <Download size={15} aria-hidden="true" /> Export
          </Button>
        }
      >
        <MenuItem asChild>
          <a href={download(search, 'ndjson')} download>
            As lines of JSON <small>.ndjson</small>
          </a>
        </MenuItem>
        <MenuItem asChild>
          <a href={download(search, 'csv')} download>
            As a table <small>.csv</small>
          </a>
        </MenuItem>
      </Menu>
    </>
  )
}

function Waiting({ count, more, onShow }: { count: number; more: boolean; onShow: () => void }) {
  return (
    <div className={css.waiting} aria-live="polite">
      {count > 0 && (
        <Button look="primary" small onClick={onShow}>
          <ArrowUp size={13} aria-hidden="true" />{' '}
          {more ? `More than ${count.toLocaleString()}` : count.toLocaleString()} new {count === 1 ? 'event' : 'events'}
        </Button>
      )}
    </div>
  )
}

function Nothing({ narrowed, onClear }: { narrowed: boolean; onClear: () => void }) {
  if (!narrowed) {
    return (
      <Empty icon={ScrollText} title="Nothing happened yet">
        <p>Every change and every refusal comes here, as it happens, and stays.</p>
      </Empty>
    )
  }
  return (
    <Empty icon={SearchX} title="Nothing of that kind happened">
      <p>No event matches what you chose above. What happens from now on is shown at once.</p>
      <Button onClick={onClear}>Show everything</Button>
    </Empty>
  )
}

/** Whether the newest events are in view: then more may come above them. */
function useAtTop(): boolean {
  const [top, setTop] = useState(true)
  useEffect(() => {
    const look = () => setTop(window.scrollY < 8)
    look()
    window.addEventListener('scroll', look, { passive: true })
    return () => window.removeEventListener('scroll', look)
  }, [])
  return top
}
