import { createFileRoute } from '@tanstack/react-router'
import { Activity as ActivityIcon } from 'lucide-react'
import { activitySearch } from '@/rooms/activity/search'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/activity')({
  component: page(() => import('@/rooms/activity/Activity'), 'Activity'),
  validateSearch: activitySearch,
  staticData: { nav: { label: 'Activity', icon: ActivityIcon, order: 70, keys: 'g a' } },
})
