/** Oneself: who one is here, where one is signed in, and how the page looks. */

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Laptop, LogOut, Monitor, Moon, Smartphone, Sun } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { api, take } from '@/api/client'
import { type Role, useMe } from '@/shell/session'
import { setTheme, type Theme, useTheme } from '@/shell/theme'
import { Button } from '@/ui/Controls'
import { Copyable } from '@/ui/Copyable'
import { Avatar, Badge, Key, Name, Time, useNow } from '@/ui/Facts'
import { Confirm } from '@/ui/Overlays'
import { Page, Panel } from '@/ui/Page'
import { Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import { span } from '@/ui/time'
import { browserOf, MAY, revokeToken, stateOf, type Token, tokensKey, useProjectNames, useTokens } from './people'
import css from './people.module.css'
import { Revoke } from './TokensList'

export function Account() {
  return (
    <Page title="Account">
      <div className={css.account}>
        <WhoIAm />
        <Sessions />
        <PhoneLink />
        <Tokens />
        <Appearance />
      </div>
    </Page>
  )
}

function Head({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={css.panelHead}>
      <h2>{title}</h2>
      {children}
    </div>
  )
}

function WhoIAm() {
  const me = useMe()
  const names = useProjectNames()
  const signOut = async () => {
    await take(api.POST('/api/v1/signout', {}))
    location.assign('/app/')
  }
  return (
    <Panel>
      <div className={css.panelHead}>
        <div className={css.me}>
          <Avatar name={me.name} large />
          <div>
            <h2>
              <Name>{me.name}</Name> <Badge>{me.role ?? me.kind}</Badge>
            </h2>
            <p>
              {me.role !== null && MAY[me.role as Role]} <bdi>{names(me.projects)}</bdi>.
            </p>
          </div>
        </div>
        <Button onClick={() => void signOut()}>
          <LogOut size={16} aria-hidden="true" /> Sign out
        </Button>
      </div>
    </Panel>
  )
}

/** One's own of a kind that still work; an admin's list holds everybody's. */
function useMine(kind: Token['kind']) {
  const me = useMe()
  const now = useNow()
  const tokens = useTokens()
  const mine = tokens.data?.filter(
    (token) => token.kind === kind && token.subject === me.name && stateOf(token, now) === 'active',
  )
  return { ...tokens, mine }
}

function Sessions() {
  const me = useMe()
  const { mine, error, refetch } = useMine('session')
  const [ending, setEnding] = useState<Token | 'others'>()
  const queries = useQueryClient()
  const others = mine?.filter(({ id }) => id !== me.token) ?? []
  const sessions = mine === undefined ? [] : [...mine.filter(({ id }) => id === me.token), ...others]
  return (
    <Panel>
      <Head title="Where you are signed in">
        {others.length > 0 && (
          <Button small onClick={() => setEnding('others')}>
            Sign out all others
          </Button>
        )}
      </Head>
      {mine === undefined &&
        (error === null ? <Loading rows={2} /> : <Failure error={error} retry={() => void refetch()} />)}
      <ul className={css.rows} aria-label="Sessions">
        {sessions.map((session) => (
          <li key={session.id}>
            <span className={css.whose}>
              <span title={session.note}>
                {browserOf(session.note)} {session.id === me.token && <Badge tone="good">this browser</Badge>}
              </span>
              <small>
                Since <Time at={session.created_at} />
                {session.last_used_at !== null && (
                  <>
                    , last used <Time at={session.last_used_at} />
                  </>
                )}
              </small>
            </span>
            {session.id !== me.token && (
              <Button small look="quiet" onClick={() => setEnding(session)}>
                Sign out
              </Button>
            )}
          </li>
        ))}
      </ul>
      {ending === 'others' && (
        <Confirm
          open
          onOpenChange={(open) => !open && setEnding(undefined)}
          title={others.length === 1 ? 'Sign out the other browser?' : `Sign out the ${others.length} other browsers?`}
          about={<p>They are signed out at once. This one stays.</p>}
          action="Sign out all others"
          danger
          onConfirm={async () => {
            await Promise.all(others.map(({ id }) => revokeToken(id)))
            await queries.invalidateQueries({ queryKey: tokensKey })
          }}
        />
      )}
      {ending !== undefined && ending !== 'others' && <Revoke token={ending} onClose={() => setEnding(undefined)} />}
    </Panel>
  )
}

const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]'])

function PhoneLink() {
  const say = useToast()
  const make = useMutation({
    mutationFn: () => take(api.POST('/api/v1/signin-links', { body: {} })),
    onError: say.refused,
  })
  const local = make.data !== undefined && LOCAL.has(new URL(make.data.url).hostname)
  return (
    <Panel>
      <Head title="Sign in on your phone">
        <Button small onClick={() => make.mutate()} disabled={make.isPending}>
          <Smartphone size={14} aria-hidden="true" /> {make.data === undefined ? 'Make a link' : 'Make another'}
        </Button>
      </Head>
      <p className={css.quiet}>
        {make.data === undefined
          ? 'A link signs another device of yours in, once.'
          : `Open it there within ${span(make.data.expires_minutes * 60)}. It works once.`}
      </p>
      {make.data !== undefined && <Copyable label="Sign-in link" text={make.data.url} />}
      {local && (
        <p className={css.warn}>
          This address reaches only this machine. Open the dashboard by the machine's name or network address, and make
          the link there, or let an admin set <code>public_url</code>.
        </p>
      )}
    </Panel>
  )
}

function Tokens() {
  const { mine = [] } = useMine('api')
  const [revoking, setRevoking] = useState<Token>()
  return (
    <Panel>
      <Head title="Your tokens">
        <Link to="/people" search={{ tab: 'tokens', open: 'token' }}>
          New token
        </Link>
      </Head>
      {mine.length === 0 && <p className={css.quiet}>None. A token lets a script or the command act as you.</p>}
      <ul className={css.rows} aria-label="Tokens">
        {mine.map((token) => (
          <li key={token.id}>
            <span className={css.whose}>
              <span>
                <bdi>{token.note || 'Without a note'}</bdi> <Badge>{token.role}</Badge>
              </span>
              <small>
                {token.last_used_at === null ? (
                  'Never used'
                ) : (
                  <>
                    Last used <Time at={token.last_used_at} />
                  </>
                )}
                {token.expires_at !== null && (
                  <>
                    , ends <Time at={token.expires_at} />
                  </>
                )}
              </small>
            </span>
            <Button
              small
              look="quiet"
              onClick={() => setRevoking(token)}
              aria-label={`Revoke ${token.note || token.id}`}
            >
              Revoke
            </Button>
          </li>
        ))}
      </ul>
      {revoking !== undefined && <Revoke token={revoking} onClose={() => setRevoking(undefined)} />}
    </Panel>
  )
}

const THEMES: [Theme, string, typeof Sun][] = [
  ['light', 'Light', Sun],
  ['dark', 'Dark', Moon],
  ['system', 'As the system', Monitor],
]

function Appearance() {
  const chosen = useTheme()
  return (
    <Panel>
      <Head title="This browser" />
      <ul className={css.rows}>
        <li>
          <span>Theme</span>
          <div className={css.themes} role="radiogroup" aria-label="Theme">
            {THEMES.map(([theme, label, Icon]) => (
              <label key={theme}>
                <input
                  type="radio"
                  name="theme"
                  className="sr-only"
                  checked={chosen === theme}
                  onChange={() => setTheme(theme)}
                />
                <Icon size={15} aria-hidden="true" /> {label}
              </label>
            ))}
          </div>
        </li>
        <li>
          <span>
            <Laptop size={15} aria-hidden="true" /> Everything here can be done from the keyboard
          </span>
          <span>
            <Key>?</Key> <small>lists the keys</small>
          </span>
        </li>
      </ul>
    </Panel>
  )
}
