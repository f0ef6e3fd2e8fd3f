/** For a browser that nobody is signed in with: the first page that anybody sees. */

import { Clock, KeyRound, Link2Off, LogOut, type LucideIcon } from 'lucide-react'
import { type FormEvent, useEffect, useState } from 'react'
import { Button, Field, Input } from '@/ui/Controls'
import { Copyable } from '@/ui/Copyable'
import { Logo } from './Logo'
import { keepPlace, keptPlace } from './place'
import css from './signedout.module.css'

type Why = 'nobody' | 'ended' | 'used' | 'expired' | 'revoked' | 'unknown'

const SAID: Record<Why, { icon: LucideIcon; title: string; about: string }> = {
  nobody: {
    icon: KeyRound,
    title: 'Sign in with a link',
    about: 'There are no passwords here. A link signs this browser in, once.',
  },
  ended: {
    icon: LogOut,
    title: 'You were signed out',
    about:
      'This session was ended, here or from elsewhere, or it ran out, or your account was disabled. Sign in again and you come back to the page you were on.',
  },
  used: {
    icon: Link2Off,
    title: 'This link was used already',
    about: 'Each link signs one browser in, once. Make a new one. If it was not you who used it, tell an admin.',
  },
  expired: {
    icon: Clock,
    title: 'This link has expired',
    about: 'A link works for a short time only. Make a new one.',
  },
  revoked: {
    icon: Link2Off,
    title: 'This link was withdrawn',
    about: 'An admin revoked it, or disabled the account it was for. Ask them for another.',
  },
  unknown: {
    icon: Link2Off,
    title: 'This link is not known here',
    about: 'Perhaps a part of it was cut off, or it is for another server. Copy all of it, or make a new one.',
  },
}

function whyOf(ended: boolean): Why {
  const told = new URLSearchParams(location.search).get('signin')
  if (told === 'used' || told === 'expired' || told === 'revoked' || told === 'unknown') return told
  return ended ? 'ended' : 'nobody'
}

export function SignedOut({ ended }: { ended: boolean }) {
  const [why] = useState(() => whyOf(ended))
  const { icon: Icon, title, about } = SAID[why]
  useEffect(() => {
    document.title = `${why === 'nobody' ? 'Sign in' : title} · Ringfence`
    keepPlace()
  }, [why, title])
  return (
    <main className={css.page}>
      <div className={css.card}>
        <Logo />
        <div className={css.head} data-why={why}>
          <Icon size={22} strokeWidth={1.75} aria-hidden="true" />
          <div role={why === 'nobody' ? undefined : 'status'}>
            <h1>{title}</h1>
            <p>{about}</p>
          </div>
        </div>
        <PasteLink />
        <section className={css.ways}>
          <h2>No link yet?</h2>
          <p>On the machine that runs Ringfence, this prints one:</p>
          <Copyable label="In a terminal there" text="ringfence login --link" />
          <p>
            Somebody else runs it? An admin makes a link for you under People. Signed in on another device? Make one
            under Account there.
          </p>
        </section>
      </div>
      <p className={css.foot}>A workplace for autonomous coding agents, fenced by you.</p>
    </main>
  )
}

/** The code of a link, or the code alone. */
function codeOf(text: string): string | null {
  const given = text.trim()
  if (/^rfsi_[\w-]+$/.test(given)) return given
  return /[?&]code=([\w-]+)/.exec(given)?.[1] ?? null
}

function otherServer(text: string): string | null {
  try {
    const { host, protocol } = new URL(text.trim())
    return protocol.startsWith('http') && host !== location.host ? host : null
  } catch {
    return null
  }
}

function PasteLink() {
  const [text, setText] = useState('')
  const [wrong, setWrong] = useState<string>()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const code = codeOf(text)
    const other = otherServer(text)
    if (code === null) setWrong('That is no sign-in link: it looks like http://…/signin?code=rfsi_…')
    else if (other !== null) setWrong(`That link is for ${other}, and this is ${location.host}. Open it there.`)
    else location.assign(`/signin?code=${code}&next=${encodeURIComponent(keptPlace())}`)
  }
  return (
    <form onSubmit={submit} className={css.paste}>
      <Field label="Your link" wrong={wrong}>
        {(field) => (
          <Input
            {...field}
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              setWrong(undefined)
            }}
            placeholder="Paste it here, or open it in this browser"
            autoComplete="off"
            spellCheck={false}
            maxLength={600}
          />
        )}
      </Field>
      <Button type="submit" look="primary" disabled={text.trim() === ''}>
        Sign in
      </Button>
    </form>
  )
}
