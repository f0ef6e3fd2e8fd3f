import { Link } from '@tanstack/react-router'
import { MapPinOff } from 'lucide-react'
import { Empty } from '@/ui/States'

export function NothingHere() {
  return (
    <Empty icon={MapPinOff} title="There is nothing at this address">
      <p>
        What was here may be gone. <Link to="/">Start from the beginning.</Link>
      </p>
    </Empty>
  )
}
