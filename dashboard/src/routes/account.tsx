import { createFileRoute } from '@tanstack/react-router'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/account')({ component: page(() => import('@/rooms/people/Account'), 'Account') })
