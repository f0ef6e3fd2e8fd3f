/** What an agent is, beside what it did. */

import { Link } from '@tanstack/react-router'
import { Plus, X } from 'lucide-react'
import { type FormEvent, type ReactNode, useState } from 'react'
import { type Agent, api, type Schemas, take } from '@/api/client'
import { Button, Field, Input, Row, Stack, TextArea } from '@/ui/Controls'
import { Badge, Time } from '@/ui/Facts'
import { Panel } from '@/ui/Page'
import { Pre } from '@/ui/Pre'
import { useToast } from '@/ui/Toasts'
import { Written } from './AgentHistory'
import css from './agent.module.css'
import { MODE_MEANINGS, MODE_NAMES, MODES, type Mode, modeChange, useAgentChange } from './agents'
import { useMessageCounts } from './mail'
import { ModeField } from './Steering'
import { useCurrentTask } from './work'

type FactsProps = { agent: Schemas['AgentDetail']; may: boolean }

export function AgentFacts({ agent, may }: FactsProps) {
  const messages = useMessageCounts().get(agent.name) ?? 0
  const { data: task } = useCurrentTask(agent.current_task_id)
  return (
    <aside className={css.side} aria-label="Facts">
      <Panel>
        <dl className={css.dl}>
          {agent.paused_at !== null && (
            <Fact term="Paused">
              <Time at={agent.paused_at} />
              {agent.frozen ? ', frozen' : ', only new work'}
              <Written text={agent.pause_reason} />
            </Fact>
          )}
          {agent.stalled_at !== null && (
            <Fact term="Stalled">
              <Time at={agent.stalled_at} />
            </Fact>
          )}
          <Fact term="Type">
            <bdi>{agent.type}</bdi>
          </Fact>
          <Fact term="Current task">
            {task ? (
              <Link to="/projects/$project" params={{ project: task.project_id }} search={{ task: task.id }}>
                <bdi>{task.title}</bdi>
              </Link>
            ) : (
              'None'
            )}
          </Fact>
          <Fact term="Last seen">
            <Time at={agent.last_seen} />
          </Fact>
          <Fact term="Last heartbeat">
            <Time at={agent.last_heartbeat} />
          </Fact>
          <Fact term="Checkpoints">
            {agent.checkpoint_sequence === 0 ? 'None' : `#${agent.checkpoint_sequence}`}, {agent.checkpoint_tick}{' '}
            {agent.checkpoint_tick === 1 ? 'heartbeat' : 'heartbeats'} since
            {agent.missed_checkpoints > 0 && <Badge tone="warn">{agent.missed_checkpoints} missed</Badge>}
          </Fact>
          <Fact term="Messages">
            <Link to="/messages" search={{ agent: agent.name }}>
              {messages.toLocaleString()} with other agents
            </Link>
          </Fact>
          <Fact term="Registered">
            <Time at={agent.registered_at} />
          </Fact>
        </dl>
      </Panel>
      <Panel>
        <h2>Autonomy</h2>
        {may ? (
          <Autonomy agent={agent} />
        ) : (
          <p>
            {MODE_NAMES[agent.autonomy_mode]}, up to {MODE_NAMES[agent.autonomy_ceiling].toLowerCase()}.{' '}
            {MODE_MEANINGS[agent.autonomy_mode]}
          </p>
        )}
      </Panel>
      <Panel>
        <h2>Capabilities</h2>
        <Capabilities agent={agent} may={may} />
      </Panel>
      {Object.keys(agent.metadata).length > 0 && (
        <Panel>
          <h2>Metadata</h2>
          <Metadata facts={agent.metadata} />
        </Panel>
      )}
    </aside>
  )
}

function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  )
}

/** What the agent told of itself when it registered. */
function Metadata({ facts }: { facts: Record<string, unknown> }) {
  return (
    <dl className={css.metadata}>
      {Object.entries(facts).map(([name, value]) => (
        <div key={name}>
          <dt>
            <bdi>{name}</bdi>
          </dt>
          <dd>
            {typeof value === 'object' && value !== null ? (
              <Pre>{JSON.stringify(value, null, 2)}</Pre>
            ) : (
              <bdi>{String(value)}</bdi>
            )}
          </dd>
        </div>
      ))}
    </dl>
  )
}

/** A mode above the ceiling raises it, a ceiling below the mode lowers the mode. */
function Autonomy({ agent }: { agent: Agent }) {
  const change = useAgentChange()
  const say = useToast()
  const { name, autonomy_mode: mode, autonomy_ceiling: ceiling } = agent
  const below = (one: Mode, other: Mode) => MODES.indexOf(one) > MODES.indexOf(other)
  const set = (next: Mode, highest: Mode) => change.mutate(modeChange([name], next, highest), { onError: say.refused })
  return (
    <Stack>
      <ModeField label="Mode" mode={mode} onChange={(next) => set(next, next)} />
      <ModeField
        label="Ceiling"
        mode={ceiling}
        onChange={(next) => set(below(next, mode) ? next : mode, next)}
        hint={
          ceiling === mode
            ? 'It cannot go further by itself.'
            : `It may raise its own mode up to ${MODE_NAMES[ceiling].toLowerCase()}.`
        }
      />
    </Stack>
  )
}

function Capabilities({ agent, may }: FactsProps) {
  const [editing, setEditing] = useState(false)
  const [adding, setAdding] = useState('')
  const change = useAgentChange()
  const say = useToast()
  const set = (tags: string[], description = agent.description) =>
    change.mutate(
      {
        names: [agent.name],
        shown: { capabilities: tags, description },
        send: (name) =>
          take(
            api.POST('/api/v1/crew/{name}/capabilities', { params: { path: { name } }, body: { tags, description } }),
          ),
      },
      { onError: say.refused },
    )
  const add = (event: FormEvent) => {
    event.preventDefault()
    const more = adding.split(',').map((tag) => tag.trim())
    set([...new Set([...agent.capabilities, ...more.filter(Boolean)])])
    setAdding('')
  }
  return (
    <Stack>
      {agent.capabilities.length === 0 && <p className={css.faint}>None said.</p>}
      <ul className={css.chips}>
        {agent.capabilities.map((tag) => (
          <li key={tag}>
            <Badge>
              <bdi>{tag}</bdi>
            </Badge>
            {may && (
              <button
                type="button"
                aria-label={`Remove ${tag}`}
                onClick={() => set(agent.capabilities.filter((one) => one !== tag))}
              >
                <X size={12} aria-hidden="true" />
              </button>
            )}
          </li>
        ))}
      </ul>
      {may && (
        <form onSubmit={add} className={css.add}>
          <Input
            aria-label="Add a capability"
            placeholder="Add a capability"
            value={adding}
            onChange={(event) => setAdding(event.target.value)}
          />
          <Button type="submit" icon aria-label="Add" disabled={adding.trim() === ''}>
            <Plus size={16} />
          </Button>
        </form>
      )}
      {editing ? (
        <Description
          text={agent.description}
          onClose={() => setEditing(false)}
          onSave={(text) => set(agent.capabilities, text)}
        />
      ) : (
        <>
          <Written text={agent.description} />
          {may && (
            <Row>
              <Button small look="quiet" onClick={() => setEditing(true)}>
                {agent.description === '' ? 'Describe it' : 'Edit the description'}
              </Button>
            </Row>
          )}
        </>
      )}
    </Stack>
  )
}

type DescriptionProps = { text: string; onSave: (text: string) => void; onClose: () => void }

function Description({ text, onSave, onClose }: DescriptionProps) {
  const [draft, setDraft] = useState(text)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onSave(draft)
    onClose()
  }
  return (
    <form onSubmit={submit}>
      <Stack>
        <Field label="Description">
          {(field) => (
            <TextArea
              {...field}
              autoFocus
              maxLength={2000}
              value={draft}
              onChange={(event) => setDraft(event.target.value)}
            />
          )}
        </Field>
        <Row>
          <Button small look="primary" type="submit">
            Save
          </Button>
          <Button small onClick={onClose}>
            Cancel
          </Button>
        </Row>
      </Stack>
    </form>
  )
}
