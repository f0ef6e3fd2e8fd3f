/** Lists that are shown page after page, current to the last event. */

import { type QueryKey, useInfiniteQuery } from '@tanstack/react-query'
import { useRefresh } from '@/live/refresh'
import type { LiveEvent } from '@/live/stream'

type Page<T> = { items: T[]; next: string | null }

export function usePages<T>(
  key: QueryKey,
  page: (cursor: string | undefined) => Promise<Page<T>>,
  concerns: (event: LiveEvent) => boolean,
) {
  useRefresh(key, concerns, 800)
  const { data, ...query } = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => page(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next ?? undefined,
  })
  return { ...query, items: data?.pages.flatMap(({ items }) => items) }
}
