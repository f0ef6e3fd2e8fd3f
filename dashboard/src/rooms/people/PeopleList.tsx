/** Who belongs here, what they may, and who let them in. */

import { useQueryClient } from '@tanstack/react-query'
import { Ban, Ellipsis, KeyRound, Link as LinkIcon, UserCheck, UserCog, UserPlus } from 'lucide-react'
import { useState } from 'react'
import { api, take } from '@/api/client'
import { useMe } from '@/shell/session'
import { Button } from '@/ui/Controls'
import { Avatar, Badge, Name, Time } from '@/ui/Facts'
import { Confirm, Menu, MenuItem, MenuSeparator } from '@/ui/Overlays'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import { ChangePerson, NewLink } from './PersonDialogs'
import {
  byWhom,
  type Person,
  peopleKey,
  type Token,
  useAdministers,
  usePeople,
  useProjectNames,
  useTokens,
} from './people'
import css from './people.module.css'

type Doing = { person: Person; what: 'change' | 'link' | 'disable' }

export function PeopleList({ onTokensOf }: { onTokensOf: (name: string) => void }) {
  const people = usePeople()
  const [doing, setDoing] = useState<Doing>()
  const done = () => setDoing(undefined)
  if (people.data === undefined) {
    return people.error === null ? <Loading /> : <Failure error={people.error} retry={() => void people.refetch()} />
  }
  if (people.data.length === 0) {
    return (
      <Empty icon={UserPlus} title="Nobody yet">
        <p>People who were invited stand here.</p>
      </Empty>
    )
  }
  return (
    <>
      <PeopleTable people={people.data} onDo={setDoing} onTokensOf={onTokensOf} />
      {doing?.what === 'change' && <ChangePerson person={doing.person} onClose={done} />}
      {doing?.what === 'link' && <NewLink person={doing.person.name} onClose={done} />}
      {doing?.what === 'disable' && <Disable person={doing.person} onClose={done} />}
    </>
  )
}

type TableProps = { people: Person[]; onDo: (doing: Doing) => void; onTokensOf: (name: string) => void }

function PeopleTable({ people, onDo, onTokensOf }: TableProps) {
  const may = useAdministers()
  return (
    <table className={css.table}>
      <caption className="sr-only">People</caption>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Role</th>
          <th scope="col">Projects</th>
          <th scope="col">Invited</th>
          {may && <th scope="col">Last seen</th>}
          {may && (
            <th scope="col">
              <span className="sr-only">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {people.map((person) => (
          <PersonRow key={person.name} person={person} onDo={onDo} onTokensOf={onTokensOf} />
        ))}
      </tbody>
    </table>
  )
}

type RowProps = { person: Person } & Omit<TableProps, 'people'>

function PersonRow({ person, onDo, onTokensOf }: RowProps) {
  const me = useMe()
  const may = useAdministers()
  const names = useProjectNames()
  return (
    <tr data-off={person.disabled || undefined}>
      <th scope="row">
        <span className={css.who}>
          <Avatar name={person.name} />
          <Name>{person.name}</Name>
          {person.name === me.name && <Badge tone="info">you</Badge>}
          {person.disabled && <Badge tone="bad">disabled</Badge>}
        </span>
      </th>
      <td data-label="Role">{person.role}</td>
      <td data-label="Projects">
        <bdi className={css.clip}>{names(person.projects)}</bdi>
      </td>
      <td data-label="Invited">
        <span>
          <Time at={person.created_at} /> <span className={css.quiet}>by</span> <Name>{byWhom(person.created_by)}</Name>
        </span>
      </td>
      {may && (
        <td data-label="Last seen">
          <LastSeen name={person.name} />
        </td>
      )}
      {may && (
        <td className={css.act}>
          <PersonMenu person={person} onDo={onDo} onTokensOf={onTokensOf} />
        </td>
      )}
    </tr>
  )
}

/** When one of their browsers or scripts last asked for something. */
function LastSeen({ name }: { name: string }) {
  const { data: tokens = [] } = useTokens()
  const used = tokens.filter(isPersonal(name)).map((token) => token.last_used_at)
  const last = used.reduce<string | null>(
    (latest, at) => (at !== null && (latest === null || at > latest) ? at : latest),
    null,
  )
  return last === null ? <span className={css.quiet}>never</span> : <Time at={last} />
}

function isPersonal(name: string): (token: Token) => boolean {
  return ({ subject, kind }) => subject === name && (kind === 'session' || kind === 'api')
}

function PersonMenu({ person, onDo, onTokensOf }: RowProps) {
  const queries = useQueryClient()
  const say = useToast()
  const enable = async () => {
    try {
      await setDisabled(person.name, false)
      await queries.invalidateQueries({ queryKey: peopleKey })
      say.done(`${person.name} may sign in again. Their old sessions and tokens stay ended: send a new link.`)
    } catch (error) {
      say.refused(error)
    }
  }
  return (
    <Menu
      trigger={
        <Button look="quiet" icon small aria-label={`Actions for ${person.name}`}>
          <Ellipsis size={16} />
        </Button>
      }
    >
      <MenuItem onSelect={() => onDo({ person, what: 'change' })}>
        <UserCog size={16} /> Role and projects…
      </MenuItem>
      {!person.disabled && (
        <MenuItem onSelect={() => onDo({ person, what: 'link' })}>
          <LinkIcon size={16} /> New sign-in link…
        </MenuItem>
      )}
      <MenuItem onSelect={() => onTokensOf(person.name)}>
        <KeyRound size={16} /> Tokens and sessions
      </MenuItem>
      <MenuSeparator />
      {person.disabled ? (
        <MenuItem onSelect={() => void enable()}>
          <UserCheck size={16} /> Enable
        </MenuItem>
      ) : (
        <MenuItem danger onSelect={() => onDo({ person, what: 'disable' })}>
          <Ban size={16} /> Disable…
        </MenuItem>
      )}
    </Menu>
  )
}

function setDisabled(name: string, disabled: boolean): Promise<Person> {
  return take(api.PATCH('/api/v1/people/{name}', { params: { path: { name } }, body: { disabled } }))
}

function Disable({ person, onClose }: { person: Person; onClose: () => void }) {
  const me = useMe()
  const queries = useQueryClient()
  return (
    <Confirm
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Disable ${person.name}?`}
      about={
        <p>
          {person.name === me.name && <strong>This is you. </strong>}
          Their sessions and tokens end at once, and so do the tokens they made for scripts and new agents. What they
          did stays in the record. You can enable them again.
        </p>
      }
      action="Disable"
      danger
      onConfirm={async () => {
        await setDisabled(person.name, true)
        await queries.invalidateQueries({ queryKey: peopleKey })
      }}
    />
  )
}
