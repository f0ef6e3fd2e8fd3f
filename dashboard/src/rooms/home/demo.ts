/** The demo data: whether it is there, and making and removing it. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, type Schemas, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { projectsKey } from '@/shell/projects'
import { useMay, useMe } from '@/shell/session'
import { useToast } from '@/ui/Toasts'

export type Demo = Schemas['DemoView']
const demoKey = ['demo']

export function useDemo() {
  useRefresh(demoKey, ({ kind }) => kind.startsWith('demo_') || kind === 'project_deleted')
  return useQuery({ queryKey: demoKey, queryFn: () => take(api.GET('/api/v1/demo')) })
}

/** It makes agents, which belong to no project: who sees some projects only does not decide about it. */
export function useMayDemo(): boolean {
  const me = useMe()
  return useMay('operator') && me.projects === null
}

export function useStartDemo() {
  const queries = useQueryClient()
  const say = useToast()
  return useMutation({
    mutationFn: () => take(api.POST('/api/v1/demo', {})),
    onSuccess: async (demo) => {
      queries.setQueryData<Demo>(demoKey, demo)
      await queries.invalidateQueries({ queryKey: projectsKey })
    },
    onError: say.refused,
  })
}

export function useRemoveDemo() {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const say = useToast()
  return useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/demo')),
    onSuccess: async () => {
      await navigate({ to: '/start' })
      await Promise.all([demoKey, projectsKey].map((queryKey) => queries.invalidateQueries({ queryKey })))
      say.done('The demo is gone. Only its events stay in the record.')
    },
    onError: say.refused,
  })
}
