import { useParams } from '@tanstack/react-router'
import { useEffect } from 'react'
import { Problem } from '@/api/client'
import { Failure } from '@/ui/States'
import { useTitle } from '@/ui/title'
import { BoardDesk } from './BoardDesk'
import { useBoard } from './cards'
import { Skeleton } from './Skeleton'

export function Board() {
  const { project } = useParams({ from: '/projects/$project/' })
  const { data: board, error, refetch } = useBoard(project)
  const setTitle = useTitle()
  const name = board?.project.name ?? 'Board'
  useEffect(() => setTitle(name), [setTitle, name])
  const gone = error instanceof Problem && (error.status === 404 || error.status === 403)
  if (error !== null && (board === undefined || gone)) return <Failure error={error} retry={() => void refetch()} />
  if (board === undefined) return <Skeleton />
  return <BoardDesk key={project} board={board} />
}
