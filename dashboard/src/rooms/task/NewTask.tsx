import { Dialog } from '@/ui/Overlays'

type NewTaskProps = { project: string; status?: 'backlog' | 'ready'; onClose: () => void }

export default function NewTask({ onClose }: NewTaskProps) {
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="New task">
      …
    </Dialog>
  )
}
