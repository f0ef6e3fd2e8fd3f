/** People and tokens, current to the last event. When somebody last used a token makes no event: that is asked for. */

import { useQuery } from '@tanstack/react-query'
import { all, api, type Schemas, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useProjects } from '@/shell/projects'
import { type Role, useMay, useMe } from '@/shell/session'

export type Person = Schemas['PersonView']
export type Token = Schemas['TokenView']
export const KINDS = ['api', 'session', 'agent', 'enrolment', 'signin'] as const
export type Kind = (typeof KINDS)[number]

export const peopleKey = ['people']
export const tokensKey = ['tokens']
const USES = 30_000

export const ROLES: readonly Role[] = ['viewer', 'operator', 'admin']
export const MAY: Record<Role, string> = {
  viewer: 'Sees everything, changes nothing.',
  operator: 'Writes and moves tasks, decides proposals, steers agents and lets new ones in.',
  admin: 'Also invites people, sees and revokes all tokens, and reads the settings.',
}

export const KIND_WORDS: Record<Kind, { one: string; about: string }> = {
  api: { one: 'Token', about: 'of a person or a script' },
  session: { one: 'Session', about: 'a browser that is signed in' },
  agent: { one: 'Agent', about: 'one agent, which acts as itself' },
  enrolment: { one: 'Enrolment', about: 'lets new agents in' },
  signin: { one: 'Sign-in link', about: 'signs one browser in, once' },
}

export function usePeople() {
  useRefresh(peopleKey, ({ kind }) => kind.startsWith('person_'))
  return useQuery({
    queryKey: peopleKey,
    queryFn: async () => (await take(api.GET('/api/v1/people'))).items,
  })
}

/** Everybody's for an admin, one's own for others; newest first. */
export function useTokens() {
  useRefresh(
    tokensKey,
    ({ kind }) => kind.startsWith('token_') || kind.startsWith('person_') || kind === 'agent_registered',
  )
  return useQuery({
    queryKey: tokensKey,
    queryFn: async () => {
      const found = await all<Token>((cursor) =>
        take(api.GET('/api/v1/tokens', { params: { query: { limit: 1000, cursor } } })),
      )
      return found.reverse()
    },
    refetchInterval: USES,
  })
}

export function revokeToken(id: string): Promise<Token> {
  return take(api.DELETE('/api/v1/tokens/{token_id}', { params: { path: { token_id: id } } }))
}

export type TokenState = 'active' | 'revoked' | 'expired' | 'used up'

export function stateOf(token: Token, now: number): TokenState {
  if (token.revoked_at !== null) return 'revoked'
  if (token.uses_left === 0) return 'used up'
  return token.expires_at !== null && Date.parse(token.expires_at) <= now ? 'expired' : 'active'
}

/** `operator:ada` as people say it. */
export function byWhom(actor: string): string {
  return actor === 'system' ? 'Ringfence itself' : actor.replace(/^\w+:/, '')
}

/** The browser and system of a session, as far as it tells them. */
export function browserOf(agent: string): string {
  const browser = /(Edg|OPR|Firefox|Chrome|Safari)[\w]*\//.exec(agent)?.[1]
  const system = /(Android|iPhone|iPad|Windows|Mac OS X|Linux)/.exec(agent)?.[1]
  const names: Record<string, string> = { Edg: 'Edge', OPR: 'Opera', 'Mac OS X': 'macOS' }
  const said = [browser, system].map((part) => (part === undefined ? undefined : (names[part] ?? part)))
  if (said[0] === undefined) return agent.slice(0, 60) || 'A browser'
  return said[1] === undefined ? said[0] : `${said[0]} on ${said[1]}`
}

/** The roles that one may give: nobody gives more than they have. */
export function useGivableRoles(): Role[] {
  const me = useMe()
  const highest = ROLES.indexOf(me.role as Role)
  return ROLES.filter((_, rank) => rank <= highest)
}

export function useProjectNames(): (ids: string[] | null) => string {
  const { data: projects = [] } = useProjects()
  return (ids) => {
    if (ids === null) return 'All projects'
    if (ids.length === 0) return 'No project'
    return ids.map((id) => projects.find((project) => project.id === id)?.name ?? id).join(', ')
  }
}

/** Whether who looks decides about people. */
export function useAdministers(): boolean {
  return useMay('admin')
}
