import { createFileRoute } from '@tanstack/react-router'
import { Bot } from 'lucide-react'
import { Crew } from '@/rooms/crew/Crew'
import { crewSearch } from '@/rooms/crew/filter'

export const Route = createFileRoute('/crew/')({
  component: Crew,
  validateSearch: crewSearch,
  staticData: { nav: { label: 'Crew', icon: Bot, order: 50, keys: 'g c' } },
})
