import { createFileRoute } from '@tanstack/react-router'
import { FolderCog } from 'lucide-react'
import { ProjectSettings } from '@/rooms/projects/ProjectSettings'

export const Route = createFileRoute('/projects/$project/settings')({
  component: ProjectSettings,
  staticData: { nav: { label: 'Project', icon: FolderCog, order: 30, keys: 'g p', ofProject: true } },
})
