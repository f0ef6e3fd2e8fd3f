// @vitest-environment happy-dom
import { describe, expect, it, vi } from 'vitest'
import { Commands } from './commands'

function press(commands: Commands, key: string, more: KeyboardEventInit = {}, on: HTMLElement = document.body): void {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more })
  on.addEventListener('keydown', (heard) => commands.press(heard as KeyboardEvent), { once: true })
  on.dispatchEvent(event)
}

function registry(keys: string) {
  const commands = new Commands()
  const run = vi.fn()
  const remove = commands.add([{ id: 'it', label: 'It', group: 'Test', keys, run }])
  return { commands, run, remove }
}

describe('commands', () => {
  it('runs what one key, or one key after another, means', () => {
    const { commands, run } = registry('g b')
    press(commands, 'b')
    expect(run).not.toHaveBeenCalled()
    press(commands, 'g')
    press(commands, 'b')
    expect(run).toHaveBeenCalledTimes(1)
  })

  it('takes no letter from somebody who types', () => {
    const { commands, run } = registry('x')
    const field = document.body.appendChild(document.createElement('input'))
    press(commands, 'x', {}, field)
    expect(run).not.toHaveBeenCalled()
    press(commands, 'x')
    expect(run).toHaveBeenCalledTimes(1)
  })

  it('hears the modifier while somebody types', () => {
    const { commands, run } = registry('mod+k')
    const field = document.body.appendChild(document.createElement('input'))
    press(commands, 'k', { ctrlKey: true }, field)
    press(commands, 'k', { metaKey: true }, field)
    expect(run).toHaveBeenCalledTimes(2)
  })

  it('forgets what was removed', () => {
    const { commands, run, remove } = registry('x')
    remove()
    press(commands, 'x')
    expect(run).not.toHaveBeenCalled()
    expect(commands.list()).toEqual([])
  })
})
