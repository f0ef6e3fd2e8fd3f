import { Page } from '@/ui/Page'

export function People() {
  return <Page title="People">…</Page>
}
