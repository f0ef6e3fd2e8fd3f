import { createFileRoute } from '@tanstack/react-router'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/')({ component: page(() => import('@/rooms/home/Home'), 'Home') })
