import { api, take } from '@/api/client'
import { Files } from '@/rooms/files/Files'
import { Failure, Loading } from '@/ui/States'
import { attachmentsKey, pathOf, useAttachments, type Where } from './task'

export function Attachments({ where, may }: { where: Where; may: boolean }) {
  const { data: files, error, refetch } = useAttachments(where)
  if (files === undefined) {
    return error === null ? <Loading rows={2} height="2rem" /> : <Failure error={error} retry={() => void refetch()} />
  }
  const remove = (filename: string) =>
    take(
      api.DELETE('/api/v1/projects/{project_id}/tasks/{task_id}/attachments/{filename}', {
        params: { path: { ...pathOf(where).path, filename } },
      }),
    )
  return (
    <Files
      path={`/api/v1/projects/${encodeURIComponent(where.project)}/tasks/${encodeURIComponent(where.task)}/attachments`}
      queryKey={attachmentsKey(where)}
      files={files}
      may={may}
      none="Nothing is attached."
      onDelete={remove}
    />
  )
}
