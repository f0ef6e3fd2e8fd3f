/** The document's title: what waits for a person, where they are, and whose page it is. */

import { createContext, useContext } from 'react'

export const TitleContext = createContext<(title: string) => void>(() => undefined)

export function useTitle(): (title: string) => void {
  return useContext(TitleContext)
}

export function documentTitle(page: string, waiting: number): string {
  return `${waiting > 0 ? `(${waiting}) ` : ''}${page === '' ? '' : `${page} · `}Ringfence`
}
