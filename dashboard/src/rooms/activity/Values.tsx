/** What was recorded, as people read it; whatever it is, it is shown as text. */

import { ArrowRight } from 'lucide-react'
import { useState } from 'react'
import { ColumnName, TaskName } from '@/rooms/words/Words'
import { Button } from '@/ui/Controls'
import { Badge } from '@/ui/Facts'
import { Pre } from '@/ui/Pre'
import { type Change, fieldName } from './changes'
import css from './event.module.css'

const LONG = 600
const MANY = 50
const COLUMNS = new Set(['status', 'old_status', 'new_status'])
const TASKS = new Set(['depends_on', 'blocked_by', 'parent_task_id'])

type ValueProps = { field: string; value: unknown; project?: string | null }

export function Value({ field, value, project = null }: ValueProps) {
  if (value === undefined) return <span className={css.faint}>not recorded</span>
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) {
    return <span className={css.faint}>nothing</span>
  }
  if (typeof value === 'string') {
    if (COLUMNS.has(field)) return <ColumnName status={value} />
    if (TASKS.has(field)) return <TaskName project={project} task={value} />
    return <Text text={value} />
  }
  if (typeof value === 'number') return <>{Number.isInteger(value) ? value.toLocaleString() : value}</>
  if (typeof value === 'boolean') return <>{value ? 'yes' : 'no'}</>
  if (Array.isArray(value) && value.length <= MANY && value.every((one) => typeof one !== 'object')) {
    return (
      <span className={css.members}>
        {value.map((one, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the same may stand there twice
          <Badge key={place}>
            <bdi>{String(one).slice(0, 200)}</bdi>
          </Badge>
        ))}
      </span>
    )
  }
  return <Text text={JSON.stringify(value, null, 2)} code />
}

function Text({ text, code }: { text: string; code?: boolean }) {
  const [whole, setWhole] = useState(false)
  const shown = whole || text.length <= LONG ? text : `${text.slice(0, LONG)}…`
  return (
    <>
      {code ? (
        <Pre className={css.code}>{shown}</Pre>
      ) : (
        <span className={css.text} dir="auto">
          {shown}
        </span>
      )}
      {text.length > LONG && (
        <Button small look="quiet" onClick={() => setWhole(!whole)}>
          {whole ? 'Show less' : `Show all ${text.length.toLocaleString()} characters`}
        </Button>
      )}
    </>
  )
}

export function Changes({ changes }: { changes: Change[] }) {
  return (
    <section>
      <h3>What changed</h3>
      <dl className={css.changes}>
        {changes.map(({ field, before, after }) => (
          <div key={field}>
            <dt>{fieldName(field)}</dt>
            <dd>
              {before !== undefined && (
                <>
                  <del>
                    <Value field={field} value={before} />
                  </del>
                  <ArrowRight size={14} role="img" aria-label="became" />
                </>
              )}
              <ins>
                <Value field={field} value={after} />
              </ins>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  )
}
