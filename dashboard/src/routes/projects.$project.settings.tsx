import { createFileRoute } from '@tanstack/react-router'
import { FolderCog } from 'lucide-react'
import { page } from '@/ui/parts'

export const Route = createFileRoute('/projects/$project/settings')({
  component: page(() => import('@/rooms/projects/ProjectSettings'), 'ProjectSettings'),
  staticData: { nav: { label: 'Project', icon: FolderCog, order: 30, keys: 'g p', ofProject: true } },
})
