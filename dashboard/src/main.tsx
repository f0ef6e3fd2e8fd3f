import '@/ui/tokens.css'
import '@/ui/page.css'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createRouter, RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { Problem } from '@/api/client'
import { NothingHere } from '@/shell/NothingHere'
import { ComingPage } from '@/ui/Coming'
import { Failure } from '@/ui/States'
import { routeTree } from './routeTree.gen'

const nonce = document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content
if (nonce !== undefined) setNonce(nonce)

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 0,
      gcTime: 5 * 60_000,
      refetchOnWindowFocus: false, // the event stream tells what changed
      retryDelay: (count) => 300 * 2 ** count, // 2 s in all; when the server is back everything is asked for anew
      retry: (count, error) => count < 3 && error instanceof Problem && (error.status === 0 || error.status >= 500),
    },
    mutations: { retry: false },
  },
})

const router = createRouter({
  routeTree,
  basepath: '/app',
  context: { queries },
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  scrollRestoration: true,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  defaultPendingComponent: ComingPage,
  defaultNotFoundComponent: NothingHere,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
)
