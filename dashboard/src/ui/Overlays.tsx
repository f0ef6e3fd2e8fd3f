/** What opens over the page: dialogs, the drawer, menus, hints. All of them close with Escape and give the focus back. */

import { X } from 'lucide-react'
import { AlertDialog, Dialog as D, DropdownMenu, Popover as P, Tooltip } from 'radix-ui'
import { type ComponentProps, type FormEvent, type ReactNode, useState } from 'react'
import { Button, classes, Row, Stack } from './Controls'
import css from './ui.module.css'

type DialogProps = {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: string
  about?: ReactNode
  /** A click beside it does not close it: for what cannot be shown again. */
  stays?: boolean
  children: ReactNode
}

export function Dialog({ open, onOpenChange, title, about, stays, children }: DialogProps) {
  return (
    <D.Root open={open} onOpenChange={onOpenChange}>
      <D.Portal>
        <D.Overlay className={css.veil} />
        <D.Content
          className={css.dialog}
          onInteractOutside={(event) => stays && event.preventDefault()}
          {...(about === undefined ? { 'aria-describedby': undefined } : {})}
        >
          <Row spread>
            <D.Title asChild>
              <h2>{title}</h2>
            </D.Title>
            <D.Close asChild>
              <Button look="quiet" icon small aria-label="Close">
                <X size={16} />
              </Button>
            </D.Close>
          </Row>
          {about !== undefined && <D.Description className={css.hint}>{about}</D.Description>}
          {children}
        </D.Content>
      </D.Portal>
    </D.Root>
  )
}

type SheetProps = { open: boolean; onClose: () => void; title: string; children: ReactNode }

/** A drawer at the right edge; its title is for screen readers, since the content shows its own. */
export function Sheet({ open, onClose, title, children }: SheetProps) {
  return (
    <D.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <D.Portal>
        <D.Overlay className={css.veil} />
        <D.Content className={css.sheet} aria-describedby={undefined}>
          <D.Title className="sr-only">{title}</D.Title>
          {children}
        </D.Content>
      </D.Portal>
    </D.Root>
  )
}

type ConfirmProps = {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: string
  about: ReactNode
  action: string
  danger?: boolean
  children?: ReactNode
  onConfirm: () => unknown | Promise<unknown>
}

/** Asks before what cannot be undone. Stays open, and says why, when it could not be done. */
export function Confirm({ open, onOpenChange, title, about, action, danger, children, onConfirm }: ConfirmProps) {
  const [wrong, setWrong] = useState<string>()
  const [busy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setWrong(undefined)
    try {
      await onConfirm()
      onOpenChange(false)
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <AlertDialog.Root open={open} onOpenChange={onOpenChange}>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className={css.veil} />
        <AlertDialog.Content className={css.dialog}>
          <AlertDialog.Title asChild>
            <h2>{title}</h2>
          </AlertDialog.Title>
          <AlertDialog.Description asChild>
            <div>{about}</div>
          </AlertDialog.Description>
          <form onSubmit={submit}>
            <Stack>
              {children}
              {wrong !== undefined && (
                <p className={css.wrong} role="alert">
                  {wrong}
                </p>
              )}
              <Row className={css.end}>
                <AlertDialog.Cancel asChild>
                  <Button>Cancel</Button>
                </AlertDialog.Cancel>
                <Button type="submit" look={danger ? 'danger' : 'primary'} disabled={busy}>
                  {action}
                </Button>
              </Row>
            </Stack>
          </form>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}

type MenuProps = { trigger: ReactNode; children: ReactNode; align?: 'start' | 'center' | 'end' }

export function Menu({ trigger, children, align = 'end' }: MenuProps) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className={css.menu} align={align} sideOffset={4} collisionPadding={8}>
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

export function MenuItem({
  danger,
  className,
  ...more
}: ComponentProps<typeof DropdownMenu.Item> & { danger?: boolean }) {
  return <DropdownMenu.Item className={classes(css.item, danger && css.bad, className)} {...more} />
}

export function MenuSeparator() {
  return <DropdownMenu.Separator className={css.separator} />
}

type PopoverProps = {
  trigger: ReactNode
  children: ReactNode
  open?: boolean
  onOpenChange?: (open: boolean) => void
  align?: 'start' | 'center' | 'end'
}

export function Popover({ trigger, children, align = 'start', ...more }: PopoverProps) {
  return (
    <P.Root {...more}>
      <P.Trigger asChild>{trigger}</P.Trigger>
      <P.Portal>
        <P.Content className={classes(css.menu, css.padded)} align={align} sideOffset={4} collisionPadding={8}>
          {children}
        </P.Content>
      </P.Portal>
    </P.Root>
  )
}

/** A hint on hover and on focus. */
export function Tip({ text, children }: { text: ReactNode; children: ReactNode }) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content className={css.tip} sideOffset={4} collisionPadding={8}>
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  )
}

export const TipProvider = Tooltip.Provider
