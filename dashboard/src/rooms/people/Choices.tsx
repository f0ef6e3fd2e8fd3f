/** What somebody may: a role, and where. */

import { useId } from 'react'
import { useProjects } from '@/shell/projects'
import { type Role, useMe } from '@/shell/session'
import { MAY, useGivableRoles } from './people'
import css from './people.module.css'

export function RoleChoice({ value, onChange }: { value: Role; onChange: (role: Role) => void }) {
  const name = useId()
  const roles = useGivableRoles()
  return (
    <fieldset className={css.choice}>
      <legend>Role</legend>
      {roles.map((role) => (
        <label key={role} className={css.card}>
          <input type="radio" name={name} checked={value === role} onChange={() => onChange(role)} />
          <span>
            <strong>{role}</strong>
            <small>{MAY[role]}</small>
          </span>
        </label>
      ))}
    </fieldset>
  )
}

type ProjectsProps = { value: string[] | null; onChange: (projects: string[] | null) => void }

/** `null`: all projects, also those to come. */
export function ProjectsChoice({ value, onChange }: ProjectsProps) {
  const name = useId()
  const { data: projects = [] } = useProjects()
  const limited = useMe().projects !== null
  const toggle = (id: string, on: boolean) =>
    onChange(on ? [...(value ?? []), id] : (value ?? []).filter((chosen) => chosen !== id))
  return (
    <fieldset className={css.choice}>
      <legend>Projects</legend>
      {!limited && (
        <label className={css.line}>
          <input type="radio" name={name} checked={value === null} onChange={() => onChange(null)} />
          All projects, also those to come
        </label>
      )}
      <label className={css.line}>
        <input type="radio" name={name} checked={value !== null} onChange={() => onChange(value ?? [])} />
        Only these
      </label>
      {value !== null && (
        <div className={css.picks}>
          {projects.length === 0 && <small>There is no project yet.</small>}
          {projects.map(({ id, name: title }) => (
            <label key={id} className={css.line}>
              <input
                type="checkbox"
                checked={value.includes(id)}
                onChange={(event) => toggle(id, event.target.checked)}
              />
              <bdi>{title}</bdi>
            </label>
          ))}
        </div>
      )}
    </fieldset>
  )
}
