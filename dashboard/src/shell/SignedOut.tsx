/** For a browser that nobody is signed in with. */

import { KeyRound } from 'lucide-react'
import { useEffect } from 'react'
import { Empty } from '@/ui/States'
import { Logo } from './Logo'
import css from './shell.module.css'

export function SignedOut() {
  useEffect(() => {
    document.title = 'Sign in · Ringfence'
  }, [])
  return (
    <main className={css.alone}>
      <Logo />
      <Empty icon={KeyRound} title="Sign in with a link">
        <p>On the machine that runs Ringfence, this prints a link that signs this browser in, once:</p>
        <pre className={css.command}>ringfence login --link</pre>
        <p>Somebody else runs it? An admin can send you a link of your own.</p>
      </Empty>
    </main>
  )
}
