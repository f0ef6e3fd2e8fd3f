/** Above every page of the demo project: that it is one, and the way to be rid of it. */

import { FlaskConical } from 'lucide-react'
import { useEffect, useState } from 'react'
import { Button } from '@/ui/Controls'
import { useDemo, useMayDemo, useRemoveDemo, useStartDemo } from './demo'
import css from './home.module.css'

export function DemoBanner({ project }: { project: string }) {
  const { data: demo } = useDemo()
  const may = useMayDemo()
  const start = useStartDemo()
  const remove = useRemoveDemo()
  const rests = useRests(demo?.lives_until ?? null)
  if (demo?.project !== project) return null
  return (
    <aside className={css.banner} aria-label="Demo data">
      <FlaskConical size={16} aria-hidden="true" />
      <p>
        <strong>This is demo data.</strong>{' '}
        {rests ? 'Its agents rest now.' : 'Its agents work by themselves, and rest after a quarter of an hour.'}
      </p>
      {may && rests && (
        <Button small onClick={() => start.mutate()} disabled={start.isPending}>
          Let it go on
        </Button>
      )}
      {may && (
        <Button small onClick={() => remove.mutate()} disabled={remove.isPending}>
          Remove
        </Button>
      )}
    </aside>
  )
}

/** Whether that moment is past; looked at again when it comes. */
function useRests(until: string | null): boolean {
  const end = until === null ? 0 : Date.parse(until)
  const [rests, setRests] = useState(() => end <= Date.now())
  useEffect(() => {
    setRests(end <= Date.now())
    const timer = setTimeout(() => setRests(true), Math.max(0, end - Date.now()))
    return () => clearTimeout(timer)
  }, [end])
  return rests
}
