/** The keys of this page and of all pages: `?`. */

import { Dialog } from '@/ui/Overlays'
import { useCommandList } from './commands'
import { Keys } from './Palette'
import css from './shell.module.css'

export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const groups = Map.groupBy(
    useCommandList().filter((command) => command.keys !== undefined),
    (command) => command.group,
  )
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="Keyboard shortcuts">
      {[...groups].map(([group, commands]) => (
        <section key={group}>
          <h3>{group}</h3>
          <dl className={css.keys}>
            {commands.map((command) => (
              <div key={command.id}>
                <dt>{command.label}</dt>
                <dd>
                  <Keys keys={command.keys!} />
                </dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  )
}
