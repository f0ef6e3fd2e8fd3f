import { Page } from '@/ui/Page'

export function Board() {
  return <Page title="Board">…</Page>
}
