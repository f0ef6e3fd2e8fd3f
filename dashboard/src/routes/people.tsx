import { createFileRoute } from '@tanstack/react-router'
import { Users } from 'lucide-react'
import { peopleSearch } from '@/rooms/people/search'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/people')({
  component: page(() => import('@/rooms/people/People'), 'People'),
  validateSearch: peopleSearch,
  staticData: { nav: { label: 'People', icon: Users, order: 80, keys: 'g u' } },
})
