/** A chart with its title and its legend; the same figures as a table, for whoever asked for tables. */

import { type ReactNode, useId, useLayoutEffect, useRef, useState } from 'react'
import { Dot } from '@/ui/Facts'
import { Panel } from '@/ui/Page'
import css from './metrics.module.css'
import { useMetricsSearch } from './search'

export type LegendEntry = { name: string; color: string; line?: boolean; value?: ReactNode }

type ChartPanelProps = {
  title: string
  about: ReactNode
  legend?: LegendEntry[]
  /** What to say instead when there is nothing to draw. */
  nothing?: ReactNode
  chart: (width: number, name: string) => ReactNode
  table: ReactNode
  wide?: boolean
}

export function ChartPanel({ title, about, legend = [], nothing, chart, table, wide }: ChartPanelProps) {
  const [{ view }] = useMetricsSearch()
  const name = useId()
  return (
    <Panel className={wide ? css.wide : ''} data-chart={title}>
      <figure aria-labelledby={name}>
        <figcaption className={css.caption}>
          <h2 id={name}>{title}</h2>
          <p>{about}</p>
        </figcaption>
        {nothing !== undefined ? (
          <p className={css.nothing}>{nothing}</p>
        ) : view === 'tables' ? (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
          <section className={css.table} tabIndex={0} aria-label={`${title}, as a table`}>
            {table}
          </section>
        ) : (
          <>
            {legend.length > 0 && <Legend entries={legend} />}
            <Drawing draw={(width) => chart(width, title)} />
          </>
        )}
      </figure>
    </Panel>
  )
}

function Legend({ entries }: { entries: LegendEntry[] }) {
  return (
    <ul className={css.legend}>
      {entries.map(({ name, color, line, value }) => (
        <li key={name}>
          {line ? (
            <span className={css.stroke} style={{ borderColor: color }} aria-hidden="true" />
          ) : (
            <Dot color={color} />
          )}
          {name}
          {value !== undefined && <strong>{value}</strong>}
        </li>
      ))}
    </ul>
  )
}

/** As wide as there is room. */
function Drawing({ draw }: { draw: (width: number) => ReactNode }) {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  useLayoutEffect(() => {
    const measure = () => setWidth(box.current?.clientWidth ?? 0)
    measure()
    const watched = new ResizeObserver(measure)
    watched.observe(box.current!)
    return () => watched.disconnect()
  }, [])
  return (
    <div ref={box} className={css.drawing}>
      {width > 0 && draw(width)}
    </div>
  )
}
