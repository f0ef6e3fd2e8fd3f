/** Everything that can be done here, and every task, by its name: Ctrl+K. */

import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Command } from 'cmdk'
import { Dialog } from 'radix-ui'
import { useDeferredValue, useState } from 'react'
import { api, take } from '@/api/client'
import { Key } from '@/ui/Facts'
import ui from '@/ui/ui.module.css'
import { useCommandList } from './commands'
import css from './shell.module.css'

export default function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const commands = useCommandList()
  const navigate = useNavigate()
  const groups = Map.groupBy(commands, (command) => command.group)
  const sought = useDeferredValue(text.trim())
  const { data: tasks = [] } = useQuery({
    queryKey: ['palette', sought],
    queryFn: async () => (await take(api.GET('/api/v1/tasks', { params: { query: { q: sought, limit: 8 } } }))).items,
    enabled: sought.length > 1,
    placeholderData: (before) => before,
  })
  const go = (run: () => void) => {
    onClose()
    run()
  }
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className={ui.veil} />
        <Dialog.Content className={css.palette} aria-describedby={undefined}>
          <Dialog.Title className="sr-only">Commands</Dialog.Title>
          <Command loop>
            <Command.Input
              className={css.paletteInput}
              value={text}
              onValueChange={setText}
              placeholder="A command, a page, or words from a task…"
            />
            <Command.List className={css.paletteList}>
              <Command.Empty className={css.paletteEmpty}>Nothing is called that.</Command.Empty>
              {[...groups].map(([group, members]) => (
                <Command.Group key={group} heading={group}>
                  {members.map((command) => (
                    <Command.Item
                      key={command.id}
                      className={ui.item}
                      value={`${command.label} ${command.id}`}
                      onSelect={() => go(command.run)}
                    >
                      {command.label}
                      {command.keys !== undefined && (
                        <small>
                          <Keys keys={command.keys} />
                        </small>
                      )}
                    </Command.Item>
                  ))}
                </Command.Group>
              ))}
              {sought.length > 1 && tasks.length > 0 && (
                <Command.Group heading="Tasks" forceMount>
                  {tasks.map((task) => (
                    <Command.Item
                      key={task.id}
                      className={ui.item}
                      value={task.id}
                      forceMount
                      onSelect={() =>
                        go(() =>
                          navigate({
                            to: '/projects/$project',
                            params: { project: task.project_id },
                            search: { task: task.id },
                          }),
                        )
                      }
                    >
                      <bdi className={css.clip}>{task.title}</bdi>
                      <small>{task.status.replace('_', ' ')}</small>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

const MAC = /Mac|iPhone|iPad/.test(navigator.platform)

export function Keys({ keys }: { keys: string }) {
  return (
    <>
      {keys.split(' ').map((key, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the same key may come twice
        <Key key={place}>{key.replace('mod+', MAC ? '⌘' : 'Ctrl+')}</Key>
      ))}
    </>
  )
}
