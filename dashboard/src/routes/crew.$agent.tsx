import { createFileRoute } from '@tanstack/react-router'
import { AgentPage } from '@/rooms/crew/AgentPage'
import { agentSearch } from '@/rooms/crew/tabs'

export const Route = createFileRoute('/crew/$agent')({ component: AgentPage, validateSearch: agentSearch })
