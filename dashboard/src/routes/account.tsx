import { createFileRoute } from '@tanstack/react-router'
import { Account } from '@/rooms/people/Account'

export const Route = createFileRoute('/account')({ component: Account })
