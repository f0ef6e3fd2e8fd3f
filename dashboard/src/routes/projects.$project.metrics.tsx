import { createFileRoute } from '@tanstack/react-router'
import { ChartColumn } from 'lucide-react'
import { Metrics } from '@/rooms/metrics/Metrics'
import { metricsSearch } from '@/rooms/metrics/search'

export const Route = createFileRoute('/projects/$project/metrics')({
  component: Metrics,
  validateSearch: metricsSearch,
  staticData: { nav: { label: 'Metrics', icon: ChartColumn, order: 20, keys: 'g m', ofProject: true } },
})
