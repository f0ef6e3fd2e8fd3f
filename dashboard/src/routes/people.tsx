import { createFileRoute } from '@tanstack/react-router'
import { Users } from 'lucide-react'
import { People } from '@/rooms/people/People'
import { peopleSearch } from '@/rooms/people/search'

export const Route = createFileRoute('/people')({
  component: People,
  validateSearch: peopleSearch,
  staticData: { nav: { label: 'People', icon: Users, order: 80, keys: 'g u' } },
})
