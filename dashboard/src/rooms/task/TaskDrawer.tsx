/** One task, over the board: everything about it, current to the last event, and editable in place. */

import { useBlocker } from '@tanstack/react-router'
import { CircleOff, Copy, Ellipsis, Link2, Trash2, X } from 'lucide-react'
import { Tabs } from 'radix-ui'
import { type ReactNode, useRef, useState } from 'react'
import { api, Problem, type Task, take } from '@/api/client'
import { useEvents } from '@/live/refresh'
import type { Tab } from '@/rooms/board/search'
import { useCommands } from '@/shell/commands'
import { useMay } from '@/shell/session'
import { Chips } from '@/ui/Chips'
import { Button, Select } from '@/ui/Controls'
import { Badge, Name, Time } from '@/ui/Facts'
import { Confirm, Menu, MenuItem, Sheet } from '@/ui/Overlays'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import ui from '@/ui/ui.module.css'
import { Assignee } from './Assignee'
import { Attachments } from './Attachments'
import { Comments } from './Comments'
import { Cycle } from './Cycle'
import { useCapabilityChoices, useLabelChoices, useTaskChoices } from './choices'
import { copied } from './copied'
import { Dependencies } from './Dependencies'
import { Description, type Editor } from './Description'
import { DraftsContext, useDrafts } from './drafts'
import { History } from './History'
import { Moving, StatusBadge } from './Moving'
import { Reviews } from './Reviews'
import { Subtasks } from './Subtasks'
import { TaskLink } from './TaskLink'
import { Title } from './Title'
import {
  PRIORITIES,
  pathOf,
  useAttachments,
  useComments,
  useDependencies,
  useOthers,
  useTask,
  useTaskChange,
  type Where,
} from './task'
import css from './task.module.css'

type TabProps = { tab: Tab | undefined; onTab: (tab: Tab) => void }
type DrawerProps = TabProps & { project: string; task: string; onClose: () => void }
type Opened = 'state' | 'assignee' | 'delete' | null

export default function TaskDrawer({ project, task: id, tab, onTab, onClose }: DrawerProps) {
  const where = { project, task: id }
  const { task, error, refetch } = useTask(where)
  const [written, tell] = useDrafts()
  const [opened, setOpened] = useState<Opened>(null)
  const deleted = useDeleted(where)
  const gone = error instanceof Problem && error.status === 404
  return (
    <DraftsContext value={tell}>
      <Sheet open onClose={onClose} title="Task" commands="task">
        <Head
          where={where}
          there={task !== undefined && !gone}
          onClose={onClose}
          onDelete={() => setOpened('delete')}
        />
        <div className={css.body} key={id} tabIndex={-1} ref={focused}>
          {gone || deleted !== null ? (
            <Gone deleted={deleted} title={task?.title} />
          ) : task !== undefined ? (
            <Content task={task} tab={tab} onTab={onTab} opened={opened} onOpened={setOpened} onClose={onClose} />
          ) : error !== null ? (
            <Failure error={error} retry={() => void refetch()} />
          ) : (
            <Loading />
          )}
        </div>
      </Sheet>
      <LeavingGuard written={written} task={id} />
    </DraftsContext>
  )
}

/** Keys count at once, and the arrows scroll. */
function focused(body: HTMLElement | null): void {
  body?.focus({ preventScroll: true })
}

type Deletion = { by: string; at: string }

/** Who deleted the task while it was open. */
function useDeleted(where: Where): Deletion | null {
  const [deletion, setDeletion] = useState<(Deletion & { task: string }) | null>(null)
  useEvents((events) => {
    const { data } = events.find(({ kind, data }) => kind === 'task_deleted' && data.task_id === where.task) ?? {}
    if (data !== undefined) {
      setDeletion({ task: where.task, by: data.actor.slice(data.actor.indexOf(':') + 1), at: data.time })
    }
  })
  return deletion?.task === where.task ? deletion : null
}

function Gone({ deleted, title }: { deleted: Deletion | null; title: string | undefined }) {
  if (deleted === null) {
    return (
      <Empty icon={CircleOff} title="There is no such task">
        <p>It may have been deleted, or its address is not whole.</p>
      </Empty>
    )
  }
  return (
    <Empty icon={Trash2} title="This task was deleted">
      <p role="status">
        <Name>{deleted.by}</Name> deleted {title === undefined ? 'it' : <bdi>“{title.slice(0, 200)}”</bdi>}{' '}
        <Time at={deleted.at} />.
      </p>
    </Empty>
  )
}

/** Asks before unsent text is left behind, whatever leads away. */
function LeavingGuard({ written, task }: { written: boolean; task: string }) {
  const blocker = useBlocker({
    disabled: !written,
    enableBeforeUnload: written,
    withResolver: true,
    shouldBlockFn: ({ current, next }) =>
      written && (next.pathname !== current.pathname || (next.search as { task?: string }).task !== task),
  })
  return (
    <Confirm
      open={blocker.status === 'blocked'}
      onOpenChange={(open) => !open && blocker.reset?.()}
      title="Drop what you wrote?"
      about="Text that was not sent or saved is lost."
      action="Drop it"
      danger
      onConfirm={() => blocker.proceed?.()}
    />
  )
}

type HeadProps = { where: Where; there: boolean; onClose: () => void; onDelete: () => void }

function Head({ where, there, onClose, onDelete }: HeadProps) {
  const may = useMay('operator')
  const say = useToast()
  return (
    <header className={css.head}>
      <Button
        look="quiet"
        small
        className={css.id}
        aria-label={`Copy the id ${where.task}`}
        onClick={() => void copied(where.task).then(() => say.done('The id is copied.'), say.refused)}
      >
        <code>{where.task}</code> <Copy size={13} aria-hidden="true" />
      </Button>
      <span className={css.actions}>
        <Button look="quiet" icon small aria-label="Copy the link" onClick={() => void copyLink(where, say)}>
          <Link2 size={15} />
        </Button>
        {may && there && (
          <Menu
            trigger={
              <Button look="quiet" icon small aria-label="More">
                <Ellipsis size={15} />
              </Button>
            }
          >
            <MenuItem danger onSelect={onDelete}>
              <Trash2 size={15} /> Delete the task…
            </MenuItem>
          </Menu>
        )}
        <Button look="quiet" icon small aria-label="Close" onClick={onClose}>
          <X size={16} />
        </Button>
      </span>
    </header>
  )
}

function copyLink({ project, task }: Where, say: ReturnType<typeof useToast>): Promise<void> {
  const link = `${location.origin}/app/projects/${encodeURIComponent(project)}?task=${encodeURIComponent(task)}`
  return copied(link).then(() => say.done('The link is copied.'), say.refused)
}

type ContentProps = TabProps & { task: Task; opened: Opened; onOpened: (what: Opened) => void; onClose: () => void }

function Content({ task, tab = 'comments', onTab, opened, onOpened, onClose }: ContentProps) {
  const may = useMay('operator')
  const say = useToast()
  const where = { project: task.project_id, task: task.id }
  const editor = useRef<Editor>(null)
  const comment = useRef<HTMLTextAreaElement>(null)
  const writeComment = () => {
    onTab('comments')
    requestAnimationFrame(() => comment.current?.focus())
  }
  const key = (id: string, label: string, keys: string, run: () => void) => ({
    id: `task-${id}`,
    label,
    group: 'Task',
    keys,
    where: 'task',
    run,
  })
  useCommands([
    key('link', 'Copy the link of the task', 'y', () => void copyLink(where, say)),
    ...(may
      ? [
          key('edit', 'Edit the description', 'e', () => editor.current?.edit()),
          key('move', 'Move the task', 's', () => onOpened('state')),
          key('assign', 'Assign the task', 'a', () => onOpened('assignee')),
          key('comment', 'Write a comment', 'm', writeComment),
          key('delete', 'Delete the task', 'Shift+D', () => onOpened('delete')),
        ]
      : []),
  ])
  const toggle = (what: Opened) => (open: boolean) => onOpened(open ? what : null)
  return (
    <>
      <Title task={task} may={may} />
      <div className={css.facts}>
        {may ? (
          <Moving task={task} open={opened === 'state'} onOpenChange={toggle('state')} />
        ) : (
          <StatusBadge status={task.status} />
        )}
        <Priority task={task} may={may} />
        <span className={css.faint}>
          <Name>{task.created_by}</Name> created it <Time at={task.created_at} />
        </span>
      </div>
      {task.status === 'blocked' && <Blocked task={task} />}
      <Properties task={task} may={may} opened={opened} toggle={toggle} />
      <Description task={task} may={may} editor={editor} />
      <Subtasks task={task} may={may} />
      <Cycle task={task} />
      <Tabs.Root value={tab} onValueChange={(value) => onTab(value as Tab)} className={css.tabs}>
        <TabList where={where} />
        <Tabs.Content value="comments" className={css.tab}>
          <Comments where={where} may={may} field={comment} />
        </Tabs.Content>
        <Tabs.Content value="dependencies" className={css.tab}>
          <Dependencies task={task} may={may} />
        </Tabs.Content>
        <Tabs.Content value="attachments" className={css.tab}>
          <Attachments where={where} may={may} />
        </Tabs.Content>
        <Tabs.Content value="history" className={css.tab}>
          <History where={where} />
        </Tabs.Content>
      </Tabs.Root>
      <Confirm
        open={opened === 'delete'}
        onOpenChange={toggle('delete')}
        title="Delete this task?"
        about={
          <p>
            <bdi>“{task.title.slice(0, 200)}”</bdi> is gone with its comments and attachments. What waits for it is
            blocked until a person looks.
          </p>
        }
        action="Delete"
        danger
        onConfirm={async () => {
          await take(api.DELETE('/api/v1/projects/{project_id}/tasks/{task_id}', { params: pathOf(where) }))
          onClose()
          say.done('The task is deleted.')
        }}
      />
    </>
  )
}

function TabList({ where }: { where: Where }) {
  const { data: comments } = useComments(where)
  const { data: near } = useDependencies(where)
  const { data: attachments } = useAttachments(where)
  const tied = near === undefined ? undefined : near.depends_on.length + near.needed_by.length
  return (
    <Tabs.List className={ui.tabs} aria-label="About the task">
      <TabButton value="comments" count={comments?.length}>
        Comments
      </TabButton>
      <TabButton value="dependencies" count={tied}>
        Dependencies
      </TabButton>
      <TabButton value="attachments" count={attachments?.length}>
        Attachments
      </TabButton>
      <TabButton value="history">History</TabButton>
    </Tabs.List>
  )
}

function TabButton({ value, count, children }: { value: Tab; count?: number | undefined; children: ReactNode }) {
  return (
    <Tabs.Trigger value={value} className={ui.tab}>
      {children} {count !== undefined && count > 0 && <span className={css.count}>{count}</span>}
    </Tabs.Trigger>
  )
}

function Priority({ task, may }: { task: Task; may: boolean }) {
  const change = useTaskChange({ project: task.project_id, task: task.id })
  if (!may) return <Badge>{PRIORITIES.find(({ value }) => value === task.priority)?.label ?? task.priority}</Badge>
  return (
    <Select
      aria-label="Priority"
      className={css.priority}
      value={task.priority}
      onChange={(event) => change.mutate({ priority: event.target.value })}
    >
      {PRIORITIES.map(({ value, label }) => (
        <option key={value} value={value}>
          {label}
        </option>
      ))}
    </Select>
  )
}

function Blocked({ task }: { task: Task }) {
  const { board } = useOthers(task.project_id)
  const by = task.blocked_by
  return (
    <div className={css.blocked}>
      <p>
        <bdi>{task.blocked_reason ?? 'It is blocked, and nobody said why.'}</bdi>
      </p>
      {by !== null && (
        <p className={css.by}>
          Blocked by{' '}
          <TaskLink
            project={task.project_id}
            id={by}
            title={board?.cards.get(by)?.title}
            status={board?.cards.get(by)?.status}
          />
        </p>
      )}
    </div>
  )
}

type PropertiesProps = {
  task: Task
  may: boolean
  opened: Opened
  toggle: (what: Opened) => (open: boolean) => void
}

function Properties({ task, may, opened, toggle }: PropertiesProps) {
  const change = useTaskChange({ project: task.project_id, task: task.id })
  const labels = useLabelChoices(task.project_id)
  const capabilities = useCapabilityChoices(task.project_id)
  return (
    <dl className={css.properties}>
      <Property name="Who has it">
        <Assignee task={task} may={may} open={opened === 'assignee'} onOpenChange={toggle('assignee')} />
      </Property>
      <Property name="Reviews">
        <Reviews task={task} may={may} />
      </Property>
      <Property name="Labels">
        {may ? (
          <Chips
            quiet
            free
            aria-label="Labels"
            placeholder="Add a label"
            values={task.labels}
            choices={labels}
            onChange={(values) => change.mutate({ labels: values })}
          />
        ) : (
          <Tags values={task.labels} />
        )}
      </Property>
      <Property name="Capabilities">
        {may ? (
          <Chips
            quiet
            free
            aria-label="Required capabilities"
            placeholder="What its agent must be able to do"
            values={task.required_capabilities}
            choices={capabilities}
            onChange={(values) => change.mutate({ required_capabilities: values })}
          />
        ) : (
          <Tags values={task.required_capabilities} />
        )}
      </Property>
      {(may || task.parent_task_id !== null) && (
        <Property name="Part of">
          <Parent task={task} may={may} />
        </Property>
      )}
    </dl>
  )
}

function Property({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Tags({ values }: { values: readonly string[] }) {
  if (values.length === 0) return <span className={css.faint}>None</span>
  return (
    <span className={css.value}>
      {values.map((value) => (
        <Badge key={value}>
          <bdi>{value}</bdi>
        </Badge>
      ))}
    </span>
  )
}

function Parent({ task, may }: { task: Task; may: boolean }) {
  const { board } = useOthers(task.project_id)
  const change = useTaskChange({ project: task.project_id, task: task.id })
  const choices = useTaskChoices(task.project_id, task.id, task.parent_task_id, ...task.subtasks)
  const parent = task.parent_task_id
  if (parent === null) {
    return (
      <Chips
        quiet
        most={1}
        aria-label="Part of"
        placeholder="A larger task"
        values={[]}
        choices={choices}
        onChange={([id = '']) => change.mutate({ parent_task_id: id })}
      />
    )
  }
  const card = board?.cards.get(parent)
  return (
    <span className={css.value}>
      <TaskLink project={task.project_id} id={parent} title={card?.title} status={card?.status} />
      {may && (
        <Button
          look="quiet"
          icon
          small
          aria-label="Take it out of the larger task"
          onClick={() => change.mutate({ parent_task_id: '' })}
        >
          <X size={12} />
        </Button>
      )}
    </span>
  )
}
