import { Sheet } from '@/ui/Overlays'

type DrawerProps = { project: string; task: string; onClose: () => void }

export default function TaskDrawer({ onClose }: DrawerProps) {
  return (
    <Sheet open onClose={onClose} title="Task">
      …
    </Sheet>
  )
}
