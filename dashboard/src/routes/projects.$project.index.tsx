import { createFileRoute } from '@tanstack/react-router'
import { SquareKanban } from 'lucide-react'
import { boardSearch } from '@/rooms/board/search'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/projects/$project/')({
  component: page(() => import('@/rooms/board/Board'), 'Board'),
  validateSearch: boardSearch,
  staticData: { nav: { label: 'Board', icon: SquareKanban, order: 10, keys: 'g b', ofProject: true, exact: true } },
})
