/** Who looks at the page, and what they may do. A control that the server would refuse is not shown. */

import { createContext, useContext } from 'react'
import type { Me } from '@/api/client'

export type Role = 'viewer' | 'operator' | 'admin'
const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 }

export const SessionContext = createContext<Me | null>(null)

export function useMe(): Me {
  const me = useContext(SessionContext)
  if (me === null) throw new Error('nobody is signed in here')
  return me
}

/** Whether who looks has this role or a higher one. */
export function useMay(role: Role): boolean {
  const me = useMe()
  return me.role !== null && me.role !== undefined && RANK[me.role as Role] >= RANK[role]
}
