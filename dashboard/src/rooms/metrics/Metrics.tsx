import { Page } from '@/ui/Page'

export function Metrics() {
  return <Page title="Metrics">…</Page>
}
