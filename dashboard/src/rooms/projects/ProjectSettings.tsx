import { Page } from '@/ui/Page'

export function ProjectSettings() {
  return <Page title="Project">…</Page>
}
