import { createFileRoute } from '@tanstack/react-router'
import { agentSearch } from '@/rooms/crew/tabs'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/crew/$agent')({
  component: page(() => import('@/rooms/crew/AgentPage'), 'AgentPage'),
  validateSearch: agentSearch,
})
