import { createFileRoute } from '@tanstack/react-router'
import { MessagesSquare } from 'lucide-react'
import { messagesSearch } from '@/rooms/messages/address'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/messages')({
  component: page(() => import('@/rooms/messages/Messages'), 'Messages'),
  validateSearch: messagesSearch,
  staticData: { nav: { label: 'Messages', icon: MessagesSquare, order: 60, keys: 'g t' } },
})
