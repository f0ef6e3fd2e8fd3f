import { Page } from '@/ui/Page'

export function Inbox() {
  return <Page title="Inbox">…</Page>
}
