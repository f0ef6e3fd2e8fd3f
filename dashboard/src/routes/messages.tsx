import { createFileRoute } from '@tanstack/react-router'
import { MessagesSquare } from 'lucide-react'
import { messagesSearch } from '@/rooms/messages/address'
import { Messages } from '@/rooms/messages/Messages'

export const Route = createFileRoute('/messages')({
  component: Messages,
  validateSearch: messagesSearch,
  staticData: { nav: { label: 'Messages', icon: MessagesSquare, order: 60, keys: 'g t' } },
})
