import { createFileRoute } from '@tanstack/react-router'
import { Activity as ActivityIcon } from 'lucide-react'
import { Activity } from '@/rooms/activity/Activity'
import { activitySearch } from '@/rooms/activity/search'

export const Route = createFileRoute('/activity')({
  component: Activity,
  validateSearch: activitySearch,
  staticData: { nav: { label: 'Activity', icon: ActivityIcon, order: 70, keys: 'g a' } },
})
