import { createFileRoute } from '@tanstack/react-router'
import { Inbox as InboxIcon } from 'lucide-react'
import { Inbox } from '@/rooms/inbox/Inbox'
import { inboxSearch } from '@/rooms/inbox/search'

export const Route = createFileRoute('/inbox')({
  component: Inbox,
  validateSearch: inboxSearch,
  staticData: { nav: { label: 'Inbox', icon: InboxIcon, order: 40, keys: 'g i', counts: 'waiting' } },
})
