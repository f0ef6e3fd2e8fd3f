import { MessageSquare, Trash2 } from 'lucide-react'
import { type FormEvent, type KeyboardEvent, type Ref, useState } from 'react'
import { api, take } from '@/api/client'
import { Button, Row, TextArea } from '@/ui/Controls'
import { Avatar, Key, Name, Time } from '@/ui/Facts'
import { Markdown } from '@/ui/Markdown'
import { Confirm } from '@/ui/Overlays'
import { Failure, Loading } from '@/ui/States'
import { useUnsent } from './drafts'
import { type Comment, pathOf, useComments, useTaskAct, type Where } from './task'
import css from './task.module.css'

const SHOWN = 40 // the newest; earlier ones on demand

type CommentsProps = { where: Where; may: boolean; field: Ref<HTMLTextAreaElement> }

export function Comments({ where, may, field }: CommentsProps) {
  const { data: comments, error, refetch } = useComments(where)
  const [shown, setShown] = useState(SHOWN)
  if (comments === undefined) {
    return error === null ? <Loading rows={2} /> : <Failure error={error} retry={() => void refetch()} />
  }
  const earlier = Math.max(0, comments.length - shown)
  return (
    <>
      {earlier > 0 && (
        <Button small look="quiet" onClick={() => setShown(shown + SHOWN)}>
          Show {Math.min(SHOWN, earlier)} earlier of {earlier}
        </Button>
      )}
      {comments.length === 0 && (
        <p className={css.nothing}>
          <MessageSquare size={16} aria-hidden="true" /> Nobody has said anything yet.
        </p>
      )}
      <ol className={css.comments} aria-label="Comments" aria-live="polite" aria-relevant="additions">
        {comments.slice(earlier).map((comment) => (
          <Said key={comment.id} where={where} comment={comment} may={may} />
        ))}
      </ol>
      {may && <Write where={where} field={field} />}
    </>
  )
}

function Said({ where, comment, may }: { where: Where; comment: Comment; may: boolean }) {
  const [deleting, setDeleting] = useState(false)
  const params = { path: { ...pathOf(where).path, comment_id: comment.id } }
  const act = useTaskAct(where)
  const remove = () =>
    act.mutateAsync(() =>
      take(api.DELETE('/api/v1/projects/{project_id}/tasks/{task_id}/comments/{comment_id}', { params })),
    )
  return (
    <li className={css.comment}>
      <Avatar name={comment.author} />
      <div>
        <div className={css.commentHead}>
          <b className={css.clip}>
            <Name>{comment.author}</Name>
          </b>
          <span className={css.faint}>
            <Time at={comment.created_at} />
          </span>
          {may && (
            <Button
              look="quiet"
              icon
              small
              aria-label={`Delete the comment of ${comment.author}`}
              onClick={() => setDeleting(true)}
            >
              <Trash2 size={13} />
            </Button>
          )}
        </div>
        <Markdown text={comment.body} />
      </div>
      <Confirm
        open={deleting}
        onOpenChange={setDeleting}
        title="Delete this comment?"
        about="It is gone for everybody. That it was there stays in the audit log."
        action="Delete"
        danger
        onConfirm={remove}
      />
    </li>
  )
}

function Write({ where, field }: { where: Where; field: Ref<HTMLTextAreaElement> }) {
  const [text, setText] = useState('')
  const act = useTaskAct(where)
  useUnsent(text.trim() !== '')
  const send = () => {
    if (text.trim() === '' || act.isPending) return
    const call = () =>
      take(
        api.POST('/api/v1/projects/{project_id}/tasks/{task_id}/comments', {
          params: pathOf(where),
          body: { body: text },
        }),
      )
    act.mutate(call, { onSuccess: () => setText('') })
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    send()
  }
  const press = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send()
    else if (event.key === 'Escape') event.currentTarget.blur()
  }
  return (
    <form onSubmit={submit} className={css.write}>
      <TextArea
        ref={field}
        data-escape
        aria-label="Write a comment"
        placeholder="Write a comment, as Markdown"
        rows={2}
        maxLength={100_000}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={press}
      />
      <Row spread>
        <span className={css.faint}>
          <Key>Ctrl+Enter</Key> sends
        </span>
        <Button type="submit" small look="primary" disabled={text.trim() === '' || act.isPending}>
          Comment
        </Button>
      </Row>
    </form>
  )
}
