/** One project as its page shows it, current to the last event. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { all, api, type Schemas, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useToast } from '@/ui/Toasts'

export type Whole = Schemas['ProjectView']

const projectKey = (project: string) => ['project', project]
export const filesKey = (project: string) => ['project', project, 'files']
export const inProject = (project: string) => ({ path: { project_id: project } })

export function useProject(project: string) {
  const key = [...projectKey(project), 'facts']
  useRefresh(key, ({ kind, data }) => {
    const about = kind.startsWith('project_') || kind.endsWith('ed_project') || kind === 'wip_limit_changed'
    return about && (data.project === project || data.id === project)
  })
  return useQuery({
    queryKey: key,
    queryFn: () => take(api.GET('/api/v1/projects/{project_id}', { params: inProject(project) })),
  })
}

export function useFiles(project: string) {
  useRefresh(
    filesKey(project),
    ({ kind, data }) => kind.startsWith('file_') && data.project === project && data.task_id === undefined,
  )
  return useQuery({
    queryKey: filesKey(project),
    queryFn: () =>
      all<Schemas['FileView']>((cursor) =>
        take(
          api.GET('/api/v1/projects/{project_id}/files', {
            params: { ...inProject(project), query: { limit: 1000, cursor } },
          }),
        ),
      ),
  })
}

/** Does something to the project; what it changed is asked for, also when no event can tell. */
export function useProjectAct(project: string) {
  const queries = useQueryClient()
  const say = useToast()
  return useMutation({
    mutationFn: (act: () => Promise<unknown>) => act(),
    onSettled: () => queries.invalidateQueries({ queryKey: projectKey(project) }),
    onError: say.refused,
  })
}
