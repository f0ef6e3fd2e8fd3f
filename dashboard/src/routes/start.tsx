import { createFileRoute } from '@tanstack/react-router'
import { page } from '@/ui/parts'

type StartSearch = { project?: string | undefined }

export const Route = createFileRoute('/start')({
  component: page(() => import('@/rooms/home/GettingStarted'), 'GettingStarted'),
  validateSearch: ({ project }: Record<string, unknown>): StartSearch => ({
    project: typeof project === 'string' ? project : undefined,
  }),
})
