/**
 * What can be done here, once: the command palette offers it, its keys do it, and `?` lists it. A page adds its own
 * commands for as long as it is open.
 */

import { createContext, useContext, useEffect, useMemo, useRef, useSyncExternalStore } from 'react'

export type Command = {
  id: string
  label: string
  group: string
  /** `c`, `Shift+D`, `mod+k`, or one key after another: `g b`. Single letters are not taken while somebody types. */
  keys?: string
  /** The keys count only then; the palette offers it always. */
  when?: () => boolean
  /** Where its keys work: on the page, unless it names a drawer (a Sheet's `commands`); `*`: there and on the page. */
  where?: string
  run: () => void
}

const PATIENCE = 1200 // milliseconds between the keys of a sequence

export class Commands {
  private readonly lists = new Map<symbol, Command[]>()
  private readonly listeners = new Set<() => void>()
  private all: Command[] = []
  private typed = ''
  private typedAt = 0

  add(commands: Command[]): () => void {
    const key = Symbol('commands')
    this.lists.set(key, commands)
    this.changed()
    return () => {
      this.lists.delete(key)
      this.changed()
    }
  }

  watch = (listener: () => void): (() => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  list = (): Command[] => this.all

  /** Runs what these keys mean, if anything; what was added last counts first. */
  press = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.isComposing) return
    const pressed = written(event)
    const anywhere = pressed.startsWith('mod+')
    const place = placeOf(event.target)
    if (pressed === '' || (place === null && !anywhere)) return
    const sequence = event.timeStamp - this.typedAt < PATIENCE ? `${this.typed} ${pressed}` : pressed
    const works = ({ when, where = '' }: Command) =>
      (anywhere || where === '*' || where === place) && (when?.() ?? true)
    const find = (keys: string) => this.all.findLast((command) => command.keys === keys && works(command))
    const found = find(sequence) ?? find(pressed)
    this.typed = found === undefined ? pressed : ''
    this.typedAt = event.timeStamp
    if (found !== undefined) {
      event.preventDefault()
      found.run()
    }
  }

  private changed(): void {
    this.all = [...this.lists.values()].flat()
    for (const listener of this.listeners) listener()
  }
}

function written(event: KeyboardEvent): string {
  if (event.altKey) return ''
  if (event.key === ' ') return 'Space'
  if (event.ctrlKey || event.metaKey) return `mod+${event.key.toLowerCase()}`
  if (event.key.length > 1) return event.shiftKey ? `Shift+${event.key}` : event.key
  return event.shiftKey && /[a-z]/i.test(event.key) ? `Shift+${event.key.toUpperCase()}` : event.key
}

/** The drawer whose commands count where a key was pressed, '' on the page, null where the key is somebody's text. */
function placeOf(target: EventTarget | null): string | null {
  if (!(target instanceof HTMLElement)) return ''
  if (target.isContentEditable || target.matches('input:not([type=checkbox]):not([type=radio]), textarea, select')) {
    return null
  }
  const over = target.closest<HTMLElement>('[role=dialog],[role=alertdialog],[role=menu],[role=listbox]')
  return over === null ? '' : (over.dataset.commands ?? null)
}

export const CommandsContext = createContext<Commands | null>(null)

function useRegistry(): Commands {
  const commands = useContext(CommandsContext)
  if (commands === null) throw new Error('there are no commands around this component')
  return commands
}

export function useCommandList(): Command[] {
  const commands = useRegistry()
  return useSyncExternalStore(commands.watch, commands.list)
}

/** Adds these commands while the component is there. */
export function useCommands(given: Command[]): void {
  const commands = useRegistry()
  const latest = useRef(given)
  latest.current = given
  const shape = JSON.stringify(given.map(({ id, label, group, keys, where }) => ({ id, label, group, keys, where })))
  const stable = useMemo(
    () =>
      (JSON.parse(shape) as Omit<Command, 'run' | 'when'>[]).map((command) => ({
        ...command,
        when: () => latest.current.find(({ id }) => id === command.id)?.when?.() ?? true,
        run: () => latest.current.find(({ id }) => id === command.id)?.run(),
      })),
    [shape],
  )
  useEffect(() => commands.add(stable), [commands, stable])
}
