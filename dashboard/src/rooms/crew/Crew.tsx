import { Page } from '@/ui/Page'

export function Crew() {
  return <Page title="Crew">…</Page>
}
