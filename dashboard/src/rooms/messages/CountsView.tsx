/** The message graph as a table. */

import { Link } from '@tanstack/react-router'
import { Share2 } from 'lucide-react'
import { useMemo, useState } from 'react'
import { useMessageGraph } from '@/rooms/crew/mail'
import { Button } from '@/ui/Controls'
import { Name } from '@/ui/Facts'
import { Panel } from '@/ui/Page'
import { Empty, Failure, Loading } from '@/ui/States'
import ui from '@/ui/ui.module.css'
import { pairOf } from './address'

const AT_ONCE = 200

export default function CountsView() {
  const { data, error, refetch } = useMessageGraph()
  const [most, setMost] = useState(AT_ONCE)
  const edges = useMemo(() => [...(data?.edges ?? [])].sort((one, other) => other.count - one.count), [data])
  if (data === undefined) {
    return error === null ? <Loading /> : <Failure error={error} retry={() => void refetch()} />
  }
  if (edges.length === 0) return <NoMessages />
  return (
    <Panel className={ui.scroll}>
      <table className={ui.table}>
        <caption className="sr-only">How many messages each agent sent to each other</caption>
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col">Messages</th>
          </tr>
        </thead>
        <tbody>
          {edges.slice(0, most).map(({ from, to, count }) => (
            <tr key={`${from} ${to}`}>
              <td>
                <Link to="/crew/$agent" params={{ agent: from }}>
                  <Name>{from}</Name>
                </Link>
              </td>
              <td>
                <Link to="/crew/$agent" params={{ agent: to }}>
                  <Name>{to}</Name>
                </Link>
              </td>
              <td>
                <Link
                  to="/messages"
                  search={{ open: pairOf(from, to) }}
                  aria-label={`${count} messages from ${from} to ${to}`}
                >
                  {count.toLocaleString()}
                </Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {edges.length > most && <Button onClick={() => setMost(most + AT_ONCE)}>Show more</Button>}
    </Panel>
  )
}

export function NoMessages() {
  return (
    <Empty icon={Share2} title="No agent has written to another yet">
      <p>Who talks with whom, and how much, is drawn here as it happens.</p>
    </Empty>
  )
}
