/** What a person does to cards: shown at once, sent, and told of once, with the server's sentence where it refuses. */

import { useMemo } from 'react'
import { api, type Card, type Schemas, take } from '@/api/client'
import { useMe } from '@/shell/session'
import { useToast } from '@/ui/Toasts'
import { Refusals, type Shown, type Status, useCardChange } from './cards'
import { moved } from './rules'
import { counted, type Priority, STATUS_NAMES } from './words'

type Doing = { cards: Card[]; shown: Shown; send: (card: Card) => Promise<unknown>; told: string }

export type Actions = ReturnType<typeof useActions>

/** `told` is what was done to them: “moved to Ready”. */
export function useActions(project: string) {
  const { mutateAsync } = useCardChange(project)
  const say = useToast()
  const me = useMe().name
  return useMemo(() => {
    const run = async ({ cards, shown, send, told }: Doing): Promise<void> => {
      const named = new Map(cards.map((card) => [card.id, card]))
      try {
        await mutateAsync({ ids: [...named.keys()], shown, send: (id) => send(named.get(id)!) })
        if (cards.length > 1) say.done(`${counted(cards.length, 'task')} ${told}.`)
      } catch (error) {
        say.refused(error instanceof Refusals && error.asked > 1 ? summed(error, told) : error)
      }
    }
    const at = (card: Card) => ({ path: { project_id: project, task_id: card.id } })
    const change = (card: Card, body: Partial<Schemas['TaskChange']>) =>
      take(
        api.PATCH('/api/v1/projects/{project_id}/tasks/{task_id}', {
          params: at(card),
          body: body as Schemas['TaskChange'],
        }),
      )
    return {
      move: (cards: Card[], to: Status, reason?: string) =>
        run({
          cards,
          shown: (card) => moved(card, to, me, reason),
          send: (card) => change(card, { status: to, ...(reason === undefined ? {} : { blocked_reason: reason }) }),
          told: `moved to ${STATUS_NAMES[to]}`,
        }),
      assign: (cards: Card[], agent: string) =>
        run({
          cards,
          shown: ({ claimed_by }) => ({
            status: 'ready',
            assigned_to: agent,
            claimed_by: claimed_by === agent ? claimed_by : null,
            blocked_reason: null,
          }),
          send: (card) =>
            take(
              api.POST('/api/v1/projects/{project_id}/tasks/{task_id}/assign', { params: at(card), body: { agent } }),
            ),
          told: `assigned to ${agent}`,
        }),
      unassign: (cards: Card[]) =>
        run({
          cards,
          shown: (card) => ({ ...moved(card, 'backlog', me), assigned_to: null, claimed_by: null }),
          send: (card) =>
            take(api.POST('/api/v1/projects/{project_id}/tasks/{task_id}/unassign', { params: at(card) })),
          told: 'returned to the backlog, unassigned',
        }),
      release: (cards: Card[]) =>
        run({
          cards,
          shown: (card) => moved(card, 'ready', me),
          send: (card) =>
            take(api.POST('/api/v1/projects/{project_id}/tasks/{task_id}/release', { params: at(card), body: {} })),
          told: 'given back to the queue',
        }),
      sign: (cards: Card[]) =>
        run({
          cards,
          shown: ({ reviewers }) => ({ reviewers: [...new Set([...reviewers, me])] }),
          send: (card) =>
            take(
              api.POST('/api/v1/projects/{project_id}/tasks/{task_id}/reviewers/{name}', {
                params: { path: { ...at(card).path, name: me } },
              }),
            ),
          told: 'signed',
        }),
      unsign: (cards: Card[]) =>
        run({
          cards,
          shown: ({ reviewers }) => ({ reviewers: reviewers.filter((name) => name !== me) }),
          send: (card) =>
            take(
              api.DELETE('/api/v1/projects/{project_id}/tasks/{task_id}/reviewers/{name}', {
                params: { path: { ...at(card).path, name: me } },
              }),
            ),
          told: 'no longer signed',
        }),
      prioritise: (cards: Card[], priority: Priority) =>
        run({ cards, shown: { priority }, send: (card) => change(card, { priority }), told: `made ${priority}` }),
      label: (cards: Card[], label: string, on: boolean) => {
        const after = ({ labels }: Card) => [...labels.filter((one) => one !== label), ...(on ? [label] : [])]
        return run({
          cards,
          shown: (card) => ({ labels: after(card) }),
          send: (card) => change(card, { labels: after(card) }),
          told: on ? `labelled “${label}”` : `no longer labelled “${label}”`,
        })
      },
      remove: (cards: Card[]) =>
        run({
          cards,
          shown: () => null,
          send: (card) => take(api.DELETE('/api/v1/projects/{project_id}/tasks/{task_id}', { params: at(card) })),
          told: 'deleted',
        }),
    }
  }, [mutateAsync, say, project, me])
}

/** “14 of 15 moved to Ready; 1 was refused: …”, each reason once. */
function summed({ reasons, asked }: Refusals, told: string): string {
  const whys = [...new Set(reasons.map(({ message }) => message))]
  const more = whys.length > 2 ? ` (and ${counted(whys.length - 2, 'other reason')})` : ''
  const were = reasons.length === 1 ? '1 was' : `${reasons.length} were`
  return `${asked - reasons.length} of ${asked} ${told}; ${were} refused: ${whys.slice(0, 2).join(' · ')}${more}`
}
