import { createFileRoute } from '@tanstack/react-router'
import { AgentPage } from '@/rooms/crew/AgentPage'

export const Route = createFileRoute('/crew/$agent')({ component: AgentPage })
