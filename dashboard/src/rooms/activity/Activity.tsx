import { Page } from '@/ui/Page'

export function Activity() {
  return <Page title="Activity">…</Page>
}
