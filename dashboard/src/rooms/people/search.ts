/** What stands in the address of the people's page. */

import { KINDS, type Kind } from './people'

const OPEN = ['invite', 'token', 'enrolment'] as const

export type PeopleSearch = {
  tab?: 'tokens' | undefined
  kind?: Kind | undefined
  all?: true | undefined
  q?: string | undefined
  page?: number | undefined
  open?: (typeof OPEN)[number] | undefined
}

export function peopleSearch(given: Record<string, unknown>): PeopleSearch {
  const page = Number(given.page)
  return {
    tab: given.tab === 'tokens' ? 'tokens' : undefined,
    kind: KINDS.find((kind) => kind === given.kind),
    all: given.all === true ? true : undefined,
    q: given.q === undefined || given.q === '' ? undefined : String(given.q).slice(0, 100),
    page: Number.isInteger(page) && page > 1 ? page : undefined,
    open: OPEN.find((what) => what === given.open),
  }
}
