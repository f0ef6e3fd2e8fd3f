import { Page } from '@/ui/Page'

export function Messages() {
  return <Page title="Messages">…</Page>
}
