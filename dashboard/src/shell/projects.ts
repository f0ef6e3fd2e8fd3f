/** The projects, and the one that was looked at last. */

import { useQuery } from '@tanstack/react-query'
import { all, api, type Project, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'

const KEY = 'ringfence.project'

export const projectsKey = ['projects']

export function useProjects() {
  useRefresh(projectsKey, (event) => event.kind.startsWith('project_') || event.kind.endsWith('ed_project'))
  return useQuery({
    queryKey: projectsKey,
    queryFn: () =>
      all<Project>((cursor) => take(api.GET('/api/v1/projects', { params: { query: { limit: 1000, cursor } } }))),
  })
}

export function rememberProject(id: string): void {
  try {
    localStorage.setItem(KEY, id)
  } catch {
    // Not remembered, then.
  }
}

export function lastProject(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}
