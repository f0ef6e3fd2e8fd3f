import { Navigate } from '@tanstack/react-router'
import { lastProject, useProjects } from '@/shell/projects'
import { Failure, Loading } from '@/ui/States'

/** Where one was last; a newcomer is led to their first task. */
export function Home() {
  const { data: projects, error, refetch } = useProjects()
  if (error !== null && projects === undefined) return <Failure error={error} retry={() => void refetch()} />
  if (projects === undefined) return <Loading />
  const project = projects.find(({ id }) => id === lastProject()) ?? projects[0]
  if (project !== undefined) return <Navigate to="/projects/$project" params={{ project: project.id }} replace />
  return <Navigate to="/start" replace />
}
