import type { ReactNode } from 'react'

/** Text as it stands, in a box that scrolls: by keyboard, too. */
export function Pre({ className, children }: { className?: string | undefined; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached
    <pre className={className} tabIndex={0}>
      {children}
    </pre>
  )
}
