import { createFileRoute } from '@tanstack/react-router'
import { Home } from '@/rooms/home/Home'

export const Route = createFileRoute('/')({ component: Home })
