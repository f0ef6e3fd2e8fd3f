import type { Agent } from '@/api/client'
import { Select } from '@/ui/Controls'
import { Tip } from '@/ui/Overlays'
import { useToast } from '@/ui/Toasts'
import { MODE_MEANINGS, MODE_NAMES, MODES, type Mode, modeChange, useAgentChange } from './agents'
import css from './crew.module.css'

export function isMode(text: string): text is Mode {
  return MODES.some((mode) => mode === text)
}

export function ModeOptions() {
  return MODES.map((mode) => (
    <option key={mode} value={mode}>
      {MODE_NAMES[mode]}
    </option>
  ))
}

/** Sets the mode at once; it becomes the ceiling too, so that the agent cannot go further by itself. */
export function ModeSelect({ agent }: { agent: Agent }) {
  const change = useAgentChange()
  const say = useToast()
  const set = (mode: string) => {
    if (isMode(mode)) change.mutate(modeChange([agent.name], mode), { onError: say.refused })
  }
  return (
    <span className={css.modeSelect}>
      <Select
        aria-label={`Mode of ${agent.name}`}
        title={MODE_MEANINGS[agent.autonomy_mode]}
        value={agent.autonomy_mode}
        onChange={(event) => set(event.target.value)}
      >
        <ModeOptions />
      </Select>
      <Ceiling agent={agent} />
    </span>
  )
}

export function ModeWord({ agent }: { agent: Agent }) {
  return (
    <span className={css.modeSelect}>
      <Tip text={MODE_MEANINGS[agent.autonomy_mode]}>
        <span>{MODE_NAMES[agent.autonomy_mode]}</span>
      </Tip>
      <Ceiling agent={agent} />
    </span>
  )
}

/** Only where it differs: how far the agent may set its own mode. */
function Ceiling({ agent }: { agent: Agent }) {
  if (agent.autonomy_ceiling === agent.autonomy_mode) return null
  const name = MODE_NAMES[agent.autonomy_ceiling]
  return (
    <Tip text={`It may raise its own mode up to ${name.toLowerCase()}.`}>
      <span className={css.faint}>up to {name.toLowerCase()}</span>
    </Tip>
  )
}
