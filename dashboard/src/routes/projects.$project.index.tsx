import { createFileRoute } from '@tanstack/react-router'
import { SquareKanban } from 'lucide-react'
import { Board } from '@/rooms/board/Board'
import { boardSearch } from '@/rooms/board/search'

export const Route = createFileRoute('/projects/$project/')({
  component: Board,
  validateSearch: boardSearch,
  staticData: { nav: { label: 'Board', icon: SquareKanban, order: 10, keys: 'g b', ofProject: true, exact: true } },
})
