import { createFileRoute } from '@tanstack/react-router'
import { Bot } from 'lucide-react'
import { crewSearch } from '@/rooms/crew/filter'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/crew/')({
  component: page(() => import('@/rooms/crew/Crew'), 'Crew'),
  validateSearch: crewSearch,
  staticData: { nav: { label: 'Crew', icon: Bot, order: 50, keys: 'g c' } },
})
