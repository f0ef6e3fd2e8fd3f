/** What proves who somebody is: tokens, sessions, links. Never their values. */

import { useQueryClient } from '@tanstack/react-query'
import { ChevronLeft, ChevronRight, KeyRound } from 'lucide-react'
import { useEffect, useState } from 'react'
import { useMe } from '@/shell/session'
import { Button, Input, Row, Select } from '@/ui/Controls'
import { Badge, Name, Time, type Tone, useNow } from '@/ui/Facts'
import { Confirm } from '@/ui/Overlays'
import { Empty, Failure, Loading } from '@/ui/States'
import {
  browserOf,
  byWhom,
  KIND_WORDS,
  KINDS,
  type Kind,
  revokeToken,
  stateOf,
  type Token,
  type TokenState,
  tokensKey,
  useAdministers,
  useProjectNames,
  useTokens,
} from './people'
import css from './people.module.css'
import type { PeopleSearch } from './search'

const ON_A_PAGE = 50
const TYPED = 200 // milliseconds after the last letter

type ListProps = { search: PeopleSearch; onSearch: (change: PeopleSearch) => void }

export function TokensList({ search, onSearch }: ListProps) {
  const tokens = useTokens()
  const now = useNow()
  const [revoking, setRevoking] = useState<Token>()
  if (tokens.data === undefined) {
    return tokens.error === null ? <Loading /> : <Failure error={tokens.error} retry={() => void tokens.refetch()} />
  }
  const found = tokens.data.filter((token) => fits(token, search, now))
  const pages = Math.max(1, Math.ceil(found.length / ON_A_PAGE))
  const page = Math.min(search.page ?? 1, pages)
  return (
    <div className={css.list}>
      <Filters search={search} onSearch={onSearch} count={found.length} />
      {found.length === 0 ? (
        <NoTokens search={search} any={tokens.data.length > 0} onSearch={onSearch} />
      ) : (
        <TokensTable tokens={found.slice((page - 1) * ON_A_PAGE, page * ON_A_PAGE)} onRevoke={setRevoking} />
      )}
      {pages > 1 && <Pages page={page} pages={pages} onSearch={onSearch} />}
      {revoking !== undefined && <Revoke token={revoking} onClose={() => setRevoking(undefined)} />}
    </div>
  )
}

function fits(token: Token, { kind, all, q = '' }: PeopleSearch, now: number): boolean {
  if (kind !== undefined && token.kind !== kind) return false
  if (all !== true && stateOf(token, now) !== 'active') return false
  const text = `${token.subject} ${token.note} ${token.role ?? ''} ${token.id} ${token.created_by}`.toLowerCase()
  return text.includes(q.toLowerCase())
}

function Filters({ search, onSearch, count }: ListProps & { count: number }) {
  const [text, setText] = useState(search.q ?? '')
  useEffect(() => setText(search.q ?? ''), [search.q])
  useEffect(() => {
    if (text === (search.q ?? '')) return
    const timer = setTimeout(() => onSearch({ q: text === '' ? undefined : text, page: undefined }), TYPED)
    return () => clearTimeout(timer)
  }, [text, search.q, onSearch])
  return (
    <Row className={css.filters}>
      <Input
        type="search"
        aria-label="Filter by name or note"
        placeholder="Filter by name or note"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <Select
        aria-label="Kind"
        value={search.kind ?? ''}
        onChange={(event) => onSearch({ kind: (event.target.value || undefined) as Kind | undefined, page: undefined })}
      >
        <option value="">All kinds</option>
        {KINDS.map((kind) => (
          <option key={kind} value={kind}>
            {KIND_WORDS[kind].one}
          </option>
        ))}
      </Select>
      <Select
        aria-label="State"
        value={search.all === true ? 'all' : 'active'}
        onChange={(event) => onSearch({ all: event.target.value === 'all' ? true : undefined, page: undefined })}
      >
        <option value="active">Active</option>
        <option value="all">Active and ended</option>
      </Select>
      <span className={css.quiet} role="status">
        {count === 1 ? '1 found' : `${count} found`}
      </span>
    </Row>
  )
}

function NoTokens({ search, any, onSearch }: ListProps & { any: boolean }) {
  const filtered = search.kind !== undefined || search.q !== undefined
  return (
    <Empty icon={KeyRound} title={filtered || any ? 'None of these' : 'No tokens'}>
      <p>
        {filtered || any
          ? 'No token or session fits what you filter by.'
          : 'Tokens let scripts and agents in. Make one, and it stands here.'}
      </p>
      {filtered && (
        <Button onClick={() => onSearch({ kind: undefined, q: undefined, page: undefined })}>Show all</Button>
      )}
    </Empty>
  )
}

function TokensTable({ tokens, onRevoke }: { tokens: Token[]; onRevoke: (token: Token) => void }) {
  return (
    <table className={css.table}>
      <caption className="sr-only">Tokens and sessions</caption>
      <thead>
        <tr>
          <th scope="col">Whose</th>
          <th scope="col">Kind</th>
          <th scope="col">May</th>
          <th scope="col">Created</th>
          <th scope="col">Last used</th>
          <th scope="col">Ends</th>
          <th scope="col">
            <span className="sr-only">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {tokens.map((token) => (
          <TokenRow key={token.id} token={token} onRevoke={onRevoke} />
        ))}
      </tbody>
    </table>
  )
}

const TONES: Record<TokenState, Tone> = { active: 'good', revoked: 'bad', expired: 'plain', 'used up': 'plain' }

export function TokenRow({ token, onRevoke }: { token: Token; onRevoke: (token: Token) => void }) {
  const me = useMe()
  const state = stateOf(token, useNow())
  const note = token.kind === 'session' ? browserOf(token.note) : token.note
  return (
    <tr data-off={state !== 'active' || undefined}>
      <th scope="row">
        <span className={css.whose}>
          <span>
            {token.subject === '' ? 'New agents' : <Name>{token.subject}</Name>}{' '}
            {token.id === me.token && <Badge tone="info">this browser</Badge>}
          </span>
          {note !== '' && (
            <small title={token.note}>
              <bdi>{note}</bdi>
            </small>
          )}
        </span>
      </th>
      <td data-label="Kind">
        <span title={KIND_WORDS[token.kind as Kind].about}>{KIND_WORDS[token.kind as Kind].one}</span>
      </td>
      <td data-label="May">
        <Allowed token={token} />
      </td>
      <td data-label="Created">
        <span>
          <Time at={token.created_at} /> <span className={css.quiet}>by</span> <Name>{byWhom(token.created_by)}</Name>
        </span>
      </td>
      <td data-label="Last used">
        {token.last_used_at === null ? <span className={css.quiet}>never</span> : <Time at={token.last_used_at} />}
      </td>
      <td data-label="Ends">
        <Ends token={token} state={state} />
      </td>
      <td className={css.act}>
        {state === 'active' && (
          <Button small look="quiet" onClick={() => onRevoke(token)} aria-label={`Revoke ${labelOf(token)}`}>
            Revoke
          </Button>
        )}
      </td>
    </tr>
  )
}

function labelOf(token: Token): string {
  const kind = KIND_WORDS[token.kind as Kind].one.toLowerCase()
  return token.subject === '' ? `${kind} token` : `${kind} of ${token.subject}`
}

function Allowed({ token }: { token: Token }) {
  const names = useProjectNames()
  const said = [
    token.role ?? (token.kind === 'enrolment' ? 'register' : 'act as itself'),
    ...token.scopes,
    ...(token.uses_left !== null && token.kind === 'enrolment' ? [`${token.uses_left} left`] : []),
  ]
  return (
    <span className={css.whose}>
      <span>{said.join(', ')}</span>
      {token.projects !== null && (
        <small>
          <bdi className={css.clip}>{names(token.projects)}</bdi>
        </small>
      )}
    </span>
  )
}

function Ends({ token, state }: { token: Token; state: TokenState }) {
  if (state !== 'active') {
    return (
      <span>
        <Badge tone={TONES[state]}>{state}</Badge> {token.revoked_at !== null && <Time at={token.revoked_at} />}
      </span>
    )
  }
  return token.expires_at === null ? <span className={css.quiet}>never</span> : <Time at={token.expires_at} />
}

function Pages({ page, pages, onSearch }: { page: number; pages: number; onSearch: ListProps['onSearch'] }) {
  const go = (to: number) => onSearch({ page: to > 1 ? to : undefined })
  return (
    <nav className={css.pages} aria-label="Pages of tokens">
      <Button small icon aria-label="Newer" disabled={page === 1} onClick={() => go(page - 1)}>
        <ChevronLeft size={16} />
      </Button>
      <span>
        {page} of {pages}
      </span>
      <Button small icon aria-label="Older" disabled={page === pages} onClick={() => go(page + 1)}>
        <ChevronRight size={16} />
      </Button>
    </nav>
  )
}

export function Revoke({ token, onClose }: { token: Token; onClose: () => void }) {
  const me = useMe()
  const administers = useAdministers()
  const queries = useQueryClient()
  return (
    <Confirm
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Revoke the ${labelOf(token)}?`}
      about={
        <p>
          {token.id === me.token
            ? 'This is the session you are in: you are signed out here at once.'
            : 'Whoever uses it is refused from now on. It cannot be made valid again.'}
          {token.kind === 'agent' && administers && ' The agent itself stays registered.'}
        </p>
      }
      action="Revoke"
      danger
      onConfirm={async () => {
        await revokeToken(token.id)
        await queries.invalidateQueries({ queryKey: tokensKey })
      }}
    />
  )
}
