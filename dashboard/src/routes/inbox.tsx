import { createFileRoute } from '@tanstack/react-router'
import { Inbox as InboxIcon } from 'lucide-react'
import { inboxSearch } from '@/rooms/inbox/search'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/inbox')({
  component: page(() => import('@/rooms/inbox/Inbox'), 'Inbox'),
  validateSearch: inboxSearch,
  staticData: { nav: { label: 'Inbox', icon: InboxIcon, order: 40, keys: 'g i', counts: 'waiting' } },
})
