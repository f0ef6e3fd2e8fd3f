import { createFileRoute } from '@tanstack/react-router'
import { MessagesSquare } from 'lucide-react'
import { Messages } from '@/rooms/messages/Messages'

export const Route = createFileRoute('/messages')({
  component: Messages,
  staticData: { nav: { label: 'Messages', icon: MessagesSquare, order: 60, keys: 'g t' } },
})
