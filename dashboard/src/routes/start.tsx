import { createFileRoute } from '@tanstack/react-router'
import { GettingStarted } from '@/rooms/home/GettingStarted'

type StartSearch = { project?: string | undefined }

export const Route = createFileRoute('/start')({
  component: GettingStarted,
  validateSearch: ({ project }: Record<string, unknown>): StartSearch => ({
    project: typeof project === 'string' ? project : undefined,
  }),
})
