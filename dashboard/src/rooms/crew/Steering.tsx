/** The questions asked before people decide about agents: each says exactly what will happen. */

import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { api, take } from '@/api/client'
import { Field, Input, Row, Select } from '@/ui/Controls'
import { Confirm } from '@/ui/Overlays'
import { useToast } from '@/ui/Toasts'
import {
  MODE_MEANINGS,
  MODE_NAMES,
  type Mode,
  modeChange,
  pausing,
  refreshed,
  revoking,
  unregistering,
  useAgentChange,
} from './agents'
import css from './crew.module.css'
import { isMode, ModeOptions } from './ModeSelect'
import { useHeld } from './work'

export type Act = 'pause' | 'revoke' | 'unregister' | 'mode' | 'mode-all' | 'pause-all' | 'resume-all'
export type Steering = { act: Act; names: string[] }
type Props = { names: string[]; onClose: () => void }
type AllProps = { types: string[]; onClose: () => void }

export function SteeringDialog({ act, names, types, onClose }: Steering & { types: string[]; onClose: () => void }) {
  switch (act) {
    case 'pause':
      return <PauseDialog names={names} onClose={onClose} />
    case 'revoke':
      return <RevokeDialog names={names} onClose={onClose} />
    case 'unregister':
      return <UnregisterDialog names={names} onClose={onClose} />
    case 'mode':
      return <ModeDialog names={names} onClose={onClose} />
    case 'mode-all':
      return <ModeAllDialog types={types} onClose={onClose} />
    case 'pause-all':
      return <PauseAllDialog types={types} onClose={onClose} />
    case 'resume-all':
      return <ResumeAllDialog types={types} onClose={onClose} />
  }
}

export function many(names: string[]): string {
  return names.length === 1 ? names[0]! : `${names.length} agents`
}

const closes = (onClose: () => void) => (open: boolean) => {
  if (!open) onClose()
}

function Reason({ value, onChange, hint }: { value: string; onChange: (text: string) => void; hint: string }) {
  return (
    <Field label="Reason" hint={hint}>
      {(field) => (
        <Input {...field} maxLength={2000} value={value} onChange={(event) => onChange(event.target.value)} />
      )}
    </Field>
  )
}

type ChoiceProps = { name: string; checked: boolean; onChange: () => void; label: string; hint: ReactNode }

function Choice({ name, checked, onChange, label, hint }: ChoiceProps) {
  return (
    <label className={css.choice}>
      <input type="radio" name={name} checked={checked} onChange={onChange} />
      <span>
        {label}
        <small>{hint}</small>
      </span>
    </label>
  )
}

function Freeze({ freeze, onChange }: { freeze: boolean; onChange: (freeze: boolean) => void }) {
  return (
    <fieldset className={css.choices}>
      <legend>How</legend>
      <Choice
        name="freeze"
        checked={freeze}
        onChange={() => onChange(true)}
        label="Freeze"
        hint="What runs stops too, where it is."
      />
      <Choice
        name="freeze"
        checked={!freeze}
        onChange={() => onChange(false)}
        label="Only stop new work"
        hint="What runs goes on to its end."
      />
    </fieldset>
  )
}

function TypeChoice({ types, type, onChange }: { types: string[]; type: string; onChange: (type: string) => void }) {
  return (
    <Field label="Which agents">
      {(field) => (
        <Select {...field} value={type} onChange={(event) => onChange(event.target.value)}>
          <option value="">All agents</option>
          {types.map((one) => (
            <option key={one} value={one}>
              Of the type {one}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}

function Names({ names }: { names: string[] }) {
  return (
    <p className={css.names}>
      {names.map((name) => (
        <bdi key={name}>{name}</bdi>
      ))}
    </p>
  )
}

function PauseDialog({ names, onClose }: Props) {
  const [reason, setReason] = useState('')
  const [freeze, setFreeze] = useState(true)
  const change = useAgentChange()
  const say = useToast()
  const confirm = async () => {
    await change.mutateAsync(pausing(names, reason, freeze))
    say.done(`${many(names)} paused.`)
  }
  return (
    <Confirm
      open
      onOpenChange={closes(onClose)}
      title={`Pause ${many(names)}`}
      about="Does nothing new until a person lets it go on. It keeps the tasks it holds, and its messages."
      action="Pause"
      onConfirm={confirm}
    >
      {names.length > 1 && <Names names={names} />}
      <Freeze freeze={freeze} onChange={setFreeze} />
      <Reason value={reason} onChange={setReason} hint="The agent is told, and it stands in the record." />
    </Confirm>
  )
}

function RevokeDialog({ names, onClose }: Props) {
  const [reason, setReason] = useState('')
  const [flush, setFlush] = useState(true)
  const change = useAgentChange()
  const say = useToast()
  const confirm = async () => {
    await change.mutateAsync(revoking(names, reason, flush))
    say.done(`${many(names)} revoked.`)
  }
  return (
    <Confirm
      open
      onOpenChange={closes(onClose)}
      title={`Revoke ${many(names)}`}
      about={
        <>
          Halted at once: the server refuses whatever {names.length === 1 ? 'it' : 'they'} would do until{' '}
          {names.length === 1 ? 'it acknowledges' : 'each acknowledges'} that it stopped. You cannot take this back.
        </>
      }
      action="Revoke"
      danger
      onConfirm={confirm}
    >
      {names.length > 1 && <Names names={names} />}
      <fieldset className={css.choices}>
        <legend>What it holds</legend>
        <Choice
          name="flush"
          checked={flush}
          onChange={() => setFlush(true)}
          label="Take it away"
          hint={<Loss names={names} />}
        />
        <Choice
          name="flush"
          checked={!flush}
          onChange={() => setFlush(false)}
          label="Leave it"
          hint="Tasks stay claimed and messages stay unread, for when it is back."
        />
      </fieldset>
      <Reason value={reason} onChange={setReason} hint="The agent is told with the directive." />
    </Confirm>
  )
}

/** What exactly goes: counted, where it is about one agent. */
function Loss({ names }: { names: string[] }) {
  const { data: held } = useHeld(names.length === 1 ? names[0] : undefined)
  if (held === undefined) return 'Claimed tasks return to the queue; unread messages are set aside.'
  const tasks = held.tasks.length === 1 ? '1 task returns' : `${held.tasks.length || 'No'} tasks return`
  const unread = held.unread === 1 ? '1 unread message is' : `${held.unread || 'no'} unread messages are`
  return (
    <>
      {tasks} to the queue and {unread} set aside.
      {held.tasks.slice(0, 5).map((task) => (
        <bdi key={task.id} className={css.lost}>
          {task.title}
        </bdi>
      ))}
      {held.tasks.length > 5 && <span className={css.lost}>and {held.tasks.length - 5} more</span>}
    </>
  )
}

function UnregisterDialog({ names, onClose }: Props) {
  const change = useAgentChange()
  const say = useToast()
  const confirm = async () => {
    await change.mutateAsync(unregistering(names))
    say.done(`${many(names)} unregistered.`)
  }
  return (
    <Confirm
      open
      onOpenChange={closes(onClose)}
      title={`Unregister ${many(names)}`}
      about="Off the roster: claimed tasks return to the queue, unread messages are set aside, and the token ends. Checkpoints and events stay; its mode, a pause and a revocation are forgotten. To come back it must be registered again."
      action="Unregister"
      danger
      onConfirm={confirm}
    >
      {names.length > 1 && <Names names={names} />}
    </Confirm>
  )
}

type ModeFieldProps = { label: string; mode: Mode; onChange: (mode: Mode) => void; hint?: string }

export function ModeField({ label, mode, onChange, hint = MODE_MEANINGS[mode] }: ModeFieldProps) {
  return (
    <Field label={label} hint={hint}>
      {(field) => (
        <Select
          {...field}
          value={mode}
          onChange={(event) => isMode(event.target.value) && onChange(event.target.value)}
        >
          <ModeOptions />
        </Select>
      )}
    </Field>
  )
}

function ModeDialog({ names, onClose }: Props) {
  const [mode, setMode] = useState<Mode>('advisory')
  const change = useAgentChange()
  return (
    <Confirm
      open
      onOpenChange={closes(onClose)}
      title={`Set the mode of ${many(names)}`}
      about="It is the ceiling too: the agent cannot go further by itself."
      action="Set mode"
      onConfirm={() => change.mutateAsync(modeChange(names, mode))}
    >
      {names.length > 1 && <Names names={names} />}
      <ModeField label="Mode" mode={mode} onChange={setMode} />
    </Confirm>
  )
}

function ModeAllDialog({ types, onClose }: AllProps) {
  const [mode, setMode] = useState<Mode>('advisory')
  const [ceiling, setCeiling] = useState<Mode>('advisory')
  const [type, setType] = useState('')
  const queries = useQueryClient()
  const say = useToast()
  const confirm = async () => {
    const body = { mode, ceiling, ...(type === '' ? {} : { agent_type: type }) }
    const { updated_agents } = await take(api.PUT('/api/v1/crew/autonomy', { body }))
    await refreshed(queries)
    say.done(`${many(updated_agents)} set to ${MODE_NAMES[mode].toLowerCase()}, and those to come.`)
  }
  return (
    <Confirm
      open
      onOpenChange={closes(onClose)}
      title="Set the mode of all agents"
      about="For the agents there are, at once, and for those to come. What was set one by one is replaced."
      action="Set mode"
      onConfirm={confirm}
    >
      <TypeChoice types={types} type={type} onChange={setType} />
      <ModeField
        label="Mode"
        mode={mode}
        onChange={(next) => {
          setMode(next)
          setCeiling(next)
        }}
      />
      <ModeField label="Ceiling" mode={ceiling} onChange={setCeiling} hint="How far an agent may raise its own mode." />
    </Confirm>
  )
}

function PauseAllDialog({ types, onClose }: AllProps) {
  const [reason, setReason] = useState('')
  const [freeze, setFreeze] = useState(true)
  const [type, setType] = useState('')
  const queries = useQueryClient()
  const say = useToast()
  const confirm = async () => {
    const body = { reason, freeze, ...(type === '' ? {} : { agent_type: type }) }
    const { paused } = await take(api.POST('/api/v1/crew/pause', { body }))
    await refreshed(queries)
    say.done(`${many(paused)} paused.`)
  }
  return (
    <Confirm
      open
      onOpenChange={closes(onClose)}
      title="Pause all agents"
      about="No agent does anything new until a person lets it go on. Each keeps the tasks it holds."
      action="Pause all"
      onConfirm={confirm}
    >
      <TypeChoice types={types} type={type} onChange={setType} />
      <Freeze freeze={freeze} onChange={setFreeze} />
      <Reason value={reason} onChange={setReason} hint="Every agent is told, and it stands in the record." />
    </Confirm>
  )
}

function ResumeAllDialog({ types, onClose }: AllProps) {
  const [reason, setReason] = useState('')
  const [type, setType] = useState('')
  const queries = useQueryClient()
  const say = useToast()
  const confirm = async () => {
    const body = { reason, ...(type === '' ? {} : { agent_type: type }) }
    const { resumed } = await take(api.POST('/api/v1/crew/resume', { body }))
    await refreshed(queries)
    say.done(resumed.length === 0 ? 'Nobody was paused.' : `${many(resumed)} resumed.`)
  }
  return (
    <Confirm
      open
      onOpenChange={closes(onClose)}
      title="Resume all agents"
      about="Also those that were paused one by one, whatever the reason. Revoked agents stay halted."
      action="Resume all"
      onConfirm={confirm}
    >
      <Row>
        <TypeChoice types={types} type={type} onChange={setType} />
      </Row>
      <Reason value={reason} onChange={setReason} hint="It stands in the record." />
    </Confirm>
  )
}
