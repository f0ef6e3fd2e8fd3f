/** One agent in the list: who, whether it is there, how far it goes, what it does. */

import { Link } from '@tanstack/react-router'
import { Ellipsis } from 'lucide-react'
import { memo } from 'react'
import type { Agent } from '@/api/client'
import { Button } from '@/ui/Controls'
import { Avatar, Badge, Name, Time } from '@/ui/Facts'
import { Menu, MenuItem, MenuSeparator, Tip } from '@/ui/Overlays'
import css from './crew.module.css'
import { ModeSelect, ModeWord } from './ModeSelect'
import { PresenceWord } from './PresenceMark'
import { LOOKS, since } from './presence'
import type { Act } from './Steering'
import { useCurrentTask, useLatestCheckpoint } from './work'

export type RowActions = {
  select: (name: string, on: boolean, range: boolean) => void
  steer: (act: Act, names: string[]) => void
  resume: (names: string[]) => void
}

type RowProps = { agent: Agent; messages: number; selected: boolean; may: boolean; actions: RowActions }

export const AgentRow = memo(function AgentRow({ agent, messages, selected, may, actions }: RowProps) {
  return (
    <>
      {may && (
        <td className={css.select}>
          <input
            type="checkbox"
            aria-label={`Select ${agent.name}`}
            checked={selected}
            onChange={() => undefined}
            onClick={(event) => actions.select(agent.name, !selected, event.shiftKey)}
          />
        </td>
      )}
      <td className={css.who}>
        <Avatar name={agent.name} />
        <Link to="/crew/$agent" params={{ agent: agent.name }} className={css.name} data-agent={agent.name}>
          <Name>{agent.name}</Name>
        </Link>
        <span className={css.type} title={[agent.type, ...agent.capabilities].join(', ')}>
          <bdi>{agent.type}</bdi>
          {agent.capabilities.map((tag) => (
            <span key={tag}>
              {' '}
              · <bdi>{tag}</bdi>
            </span>
          ))}
        </span>
      </td>
      <td className={css.state}>
        <PresenceWord status={agent.status} />
        <Since agent={agent} />
      </td>
      <td className={css.mode}>{may ? <ModeSelect agent={agent} /> : <ModeWord agent={agent} />}</td>
      <td className={css.task}>
        <CurrentTask agent={agent} />
      </td>
      <td className={css.checkpoint}>
        <LatestCheckpoint agent={agent} />
      </td>
      <td className={css.messages}>
        <Link to="/messages" search={{ agent: agent.name }} aria-label={`${messages} messages of ${agent.name}`}>
          {messages.toLocaleString()}
        </Link>
      </td>
      <td className={css.seen}>
        <Time at={agent.last_seen} />
      </td>
      {may && (
        <td className={css.more}>
          <AgentMenu agent={agent} steer={actions.steer} resume={actions.resume} />
        </td>
      )}
    </>
  )
})

function Since({ agent }: { agent: Agent }) {
  const at = since(agent)
  if (agent.status === 'busy' && agent.pause_reason !== '') {
    return (
      <Tip text={<bdi>{agent.pause_reason.slice(0, 400)}</bdi>}>
        <span className={css.faint}>
          <bdi>{agent.pause_reason.slice(0, 80)}</bdi>
        </span>
      </Tip>
    )
  }
  if (at === null) return null
  return (
    <span className={css.faint}>
      <Time at={at} />
    </span>
  )
}

function CurrentTask({ agent }: { agent: Agent }) {
  const { data: task } = useCurrentTask(agent.current_task_id)
  if (agent.current_task_id === null) return <span className={css.none}>–</span>
  if (task === undefined) return <span className={css.faint}>…</span>
  if (task === null) return <span className={css.faint}>A task that is gone</span>
  return (
    <Link to="/projects/$project" params={{ project: task.project_id }} search={{ task: task.id }} title={task.title}>
      <bdi>{task.title}</bdi>
    </Link>
  )
}

function LatestCheckpoint({ agent }: { agent: Agent }) {
  const { data: checkpoint } = useLatestCheckpoint(agent.name, agent.checkpoint_sequence)
  if (agent.checkpoint_sequence === 0) return <span className={css.none}>–</span>
  return (
    <>
      <Link
        to="/crew/$agent"
        params={{ agent: agent.name }}
        search={{ tab: 'checkpoints' }}
        title={checkpoint ? checkpoint.state.slice(0, 300) : undefined}
      >
        #{agent.checkpoint_sequence}
      </Link>
      {checkpoint && (
        <span className={css.faint}>
          <Time at={checkpoint.timestamp} />
        </span>
      )}
      {agent.missed_checkpoints > 0 && <Badge tone="warn">{agent.missed_checkpoints} missed</Badge>}
    </>
  )
}

type MenuProps = { agent: Agent; steer: RowActions['steer']; resume: RowActions['resume'] }

export function AgentMenu({ agent, steer, resume }: MenuProps) {
  return (
    <Menu
      trigger={
        <Button look="quiet" icon small aria-label={`Actions for ${agent.name}, ${LOOKS[agent.status].word}`}>
          <Ellipsis size={16} />
        </Button>
      }
    >
      <MenuItem onSelect={() => steer('pause', [agent.name])}>
        {agent.paused_at === null ? 'Pause…' : 'Pause again, for another reason…'}
      </MenuItem>
      {agent.paused_at !== null && <MenuItem onSelect={() => resume([agent.name])}>Resume</MenuItem>}
      <MenuItem asChild>
        <Link to="/messages" search={{ to: agent.name }}>
          Write a message…
        </Link>
      </MenuItem>
      <MenuSeparator />
      <MenuItem danger onSelect={() => steer('revoke', [agent.name])}>
        {agent.revocation_id === null ? 'Revoke…' : 'Revoke again…'}
      </MenuItem>
      <MenuItem danger onSelect={() => steer('unregister', [agent.name])}>
        Unregister…
      </MenuItem>
    </Menu>
  )
}
