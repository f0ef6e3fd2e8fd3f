import { createFileRoute } from '@tanstack/react-router'
import { ChartColumn } from 'lucide-react'
import { metricsSearch } from '@/rooms/metrics/search'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/projects/$project/metrics')({
  component: page(() => import('@/rooms/metrics/Metrics'), 'Metrics'),
  validateSearch: metricsSearch,
  staticData: { nav: { label: 'Metrics', icon: ChartColumn, order: 20, keys: 'g m', ofProject: true } },
})
