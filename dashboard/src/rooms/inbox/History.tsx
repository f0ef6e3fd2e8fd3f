/** What was answered, by whom, and what came of it. */

import { useInfiniteQuery } from '@tanstack/react-query'
import { Ban, Check, History as HistoryIcon, TriangleAlert, Undo2 } from 'lucide-react'
import { api, type Proposal, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useTasksOf } from '@/rooms/words/tasks'
import { ActorName, ProjectName } from '@/rooms/words/Words'
import { Button } from '@/ui/Controls'
import { Badge, Time, type Tone } from '@/ui/Facts'
import { Empty, Failure, Loading } from '@/ui/States'
import css from './inbox.module.css'
import { ProposalDetails } from './ProposalDetails'
import { proposalItem, proposals } from './proposals'
import { type Answered, useInboxSearch } from './search'

const PAGE = 50

export const STATES: Record<Answered, { tone: Tone; icon: typeof Check; word: string }> = {
  approved: { tone: 'good', icon: Check, word: 'Approved' },
  denied: { tone: 'plain', icon: Ban, word: 'Denied' },
  withdrawn: { tone: 'plain', icon: Undo2, word: 'Withdrawn' },
  failed: { tone: 'bad', icon: TriangleAlert, word: 'Failed' },
}

export function History() {
  const [{ state, agent, project }] = useInboxSearch()
  const key = ['proposals', 'history', { state, agent, project }]
  useRefresh(key, ({ kind }) => kind.startsWith('proposal_') && kind !== 'proposal_created', 1000)
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) =>
      take(
        api.GET('/api/v1/proposals', { params: { query: { state, agent, project, limit: PAGE, cursor: pageParam } } }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  })
  if (error !== null && data === undefined) return <Failure error={error} retry={() => void refetch()} />
  if (data === undefined) return <Loading rows={6} />
  const answered = data.pages.flatMap(({ items }) => items.filter((each) => each.state !== 'pending'))
  return (
    <>
      {answered.length === 0 && !hasNextPage && (
        <Empty icon={HistoryIcon} title="Nothing was answered yet">
          <p>
            {state === undefined && agent === undefined && project === undefined
              ? 'What people approve or deny is kept here, with who did and why.'
              : 'Nothing that was answered matches what you chose above.'}
          </p>
        </Empty>
      )}
      <Answers answered={answered} />
      {hasNextPage && (
        <Button className={css.more} disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Looking further back…' : 'Show older'}
        </Button>
      )}
    </>
  )
}

function Answers({ answered }: { answered: Proposal[] }) {
  const tasks = useTasksOf(answered)
  const [{ open }, setSearch] = useInboxSearch()
  return (
    <ul className={css.list}>
      {answered.map((proposal) => {
        const item = proposalItem(proposal)
        const isOpen = open === proposal.id
        return (
          <li key={proposal.id} className={css.row} data-open={isOpen || undefined}>
            <StateBadge state={proposal.state as Answered} />
            <div className={css.body}>
              <p className={css.sentence}>
                <proposals.Sentence item={item} tasks={tasks} />
              </p>
              <p className={css.meta}>
                <span>
                  {proposal.decided_by !== null && (
                    <>
                      by <ActorName actor={proposal.decided_by} />{' '}
                    </>
                  )}
                  {proposal.decided_at !== null && <Time at={proposal.decided_at} />}
                </span>
                {proposal.project !== null && <ProjectName project={proposal.project} />}
              </p>
              {proposal.note !== '' && <p className={css.said}>{proposal.note}</p>}
              {proposal.state === 'failed' && !isOpen && (
                <p className={css.failed}>{String(proposal.result?.error ?? '')}</p>
              )}
              {isOpen && <ProposalDetails item={item} tasks={tasks} />}
            </div>
            <Button
              small
              look="quiet"
              aria-expanded={isOpen}
              onClick={() => setSearch({ open: isOpen ? undefined : proposal.id })}
            >
              {isOpen ? 'Less' : 'More'}
            </Button>
          </li>
        )
      })}
    </ul>
  )
}

export function StateBadge({ state }: { state: Answered }) {
  const { tone, icon: Icon, word } = STATES[state]
  return (
    <Badge tone={tone}>
      <span className={css.state}>
        <Icon size={12} aria-hidden="true" /> {word}
      </span>
    </Badge>
  )
}
