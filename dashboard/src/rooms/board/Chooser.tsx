/** A short list to choose from by typing: where to move, whom to assign to, how urgent, which labels. */

import { Command } from 'cmdk'
import { Check, Minus, Plus } from 'lucide-react'
import { Dialog } from 'radix-ui'
import { type ReactNode, useState } from 'react'
import { classes } from '@/ui/Controls'
import ui from '@/ui/ui.module.css'
import css from './chooser.module.css'

export type Choice = {
  value: string
  label: ReactNode
  note?: ReactNode
  /** Why it cannot be chosen. */
  why?: string | null
  on?: boolean | 'some'
  run: () => void
}

type ChooserProps = {
  title: string
  placeholder: string
  choices: Choice[]
  /** Stays open after a choice, for several. */
  several?: boolean
  create?: { label: (text: string) => string; run: (text: string) => void }
  onClose: () => void
  onCloseAutoFocus: (event: Event) => void
}

export default function Chooser({ title, placeholder, choices, several, create, onClose, ...more }: ChooserProps) {
  const [text, setText] = useState('')
  const choose = (run: () => void) => {
    run()
    if (several) setText('')
    else onClose()
  }
  const typed = text.trim()
  const known = choices.some(({ value }) => value.toLowerCase() === typed.toLowerCase())
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className={ui.veil} />
        <Dialog.Content className={css.chooser} aria-describedby={undefined} onCloseAutoFocus={more.onCloseAutoFocus}>
          <Dialog.Title className={css.title}>{title}</Dialog.Title>
          <Command loop label={title}>
            <Command.Input
              className={css.input}
              value={text}
              onValueChange={setText}
              placeholder={placeholder}
              aria-label={placeholder}
            />
            <Command.List className={css.list} label={title}>
              <Command.Empty className={css.none}>Nothing is called that.</Command.Empty>
              {choices.map(({ value, label, note, why, on, run }) => (
                <Command.Item
                  key={value}
                  value={value}
                  className={classes(ui.item, css.item)}
                  disabled={why != null}
                  onSelect={() => choose(run)}
                >
                  {several && (
                    <span className={css.tick} role="img" aria-label={on === true ? 'on' : on ? 'on some' : 'off'}>
                      {on === true ? <Check size={12} /> : on === 'some' ? <Minus size={12} /> : null}
                    </span>
                  )}
                  <span className={css.label}>{label}</span>
                  {(why ?? note) != null && <small className={css.why}>{why ?? note}</small>}
                </Command.Item>
              ))}
              {create !== undefined && typed !== '' && !known && (
                <Command.Item
                  forceMount
                  value={`create ${typed}`}
                  className={classes(ui.item, css.item)}
                  onSelect={() => choose(() => create.run(typed))}
                >
                  <Plus size={14} aria-hidden="true" /> <span className={css.label}>{create.label(typed)}</span>
                </Command.Item>
              )}
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
