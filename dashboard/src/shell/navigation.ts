/** A page that wants to be in the navigation says so itself, in its route's `staticData`. */

import type { LucideIcon } from 'lucide-react'

export type NavEntry = {
  to: string
  label: string
  icon: LucideIcon
  order: number
  keys?: string
  ofProject?: boolean
  exact?: boolean
  counts?: 'waiting'
}

declare module '@tanstack/react-router' {
  interface StaticDataRouteOption {
    nav?: Omit<NavEntry, 'to'>
  }
}

type Routes = Record<string, { fullPath: string; options: { staticData?: { nav?: Omit<NavEntry, 'to'> } } }>

export function navigation(routes: object): NavEntry[] {
  return Object.values(routes as Routes)
    .flatMap((route) => {
      const nav = route.options.staticData?.nav
      return nav === undefined ? [] : [{ ...nav, to: route.fullPath.replace(/(.)\/$/, '$1') }]
    })
    .sort((one, other) => one.order - other.order)
}
