/** A page's frame: its title, what can be done there, its content. The title is the document's, too. */

import { type ReactNode, useEffect } from 'react'
import { classes, Row } from './Controls'
import { useTitle } from './title'
import css from './ui.module.css'

type PageProps = {
  title: string
  /** A picture before the title. */
  mark?: ReactNode
  about?: ReactNode
  actions?: ReactNode
  wide?: boolean
  children: ReactNode
}

export function Page({ title, mark, about, actions, wide, children }: PageProps) {
  const setTitle = useTitle()
  useEffect(() => setTitle(title), [setTitle, title])
  return (
    <div className={classes(css.page, wide && css.wide)}>
      <Row spread>
        <div className={css.title}>
          {mark}
          <div>
            <h1>
              <bdi>{title}</bdi>
            </h1>
            {about !== undefined && <p className={css.hint}>{about}</p>}
          </div>
        </div>
        {actions !== undefined && <Row>{actions}</Row>}
      </Row>
      {children}
    </div>
  )
}

export function Panel({
  className,
  ...more
}: { className?: string; children: ReactNode } & Record<`data-${string}`, string>) {
  return <section className={classes(css.panel, className)} {...more} />
}
