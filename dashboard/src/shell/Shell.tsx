/** The frame around every page: where one can go, what waits, whether changes arrive. */

import { Link, useNavigate, useParams, useRouter, useRouterState } from '@tanstack/react-router'
import { Command as CommandIcon, LogOut, Monitor, Moon, Plus, Sun, UserRound } from 'lucide-react'
import { type ReactNode, Suspense, useCallback, useEffect, useMemo, useState } from 'react'
import { api, take } from '@/api/client'
import { DemoBanner } from '@/rooms/home/DemoBanner'
import { useWaiting } from '@/rooms/inbox/waiting'
import { Coming } from '@/ui/Coming'
import { Button, Select } from '@/ui/Controls'
import { Avatar, Name } from '@/ui/Facts'
import { Menu, MenuItem, MenuSeparator } from '@/ui/Overlays'
import { later, useSoon } from '@/ui/parts'
import { documentTitle, TitleContext } from '@/ui/title'
import { useCommands } from './commands'
import { Logo } from './Logo'
import { type NavEntry, navigation } from './navigation'
import { lastProject, rememberProject, useProjects } from './projects'
import { StreamNotice } from './StreamNotice'
import { useMay, useMe } from './session'
import css from './shell.module.css'
import { setTheme } from './theme'

const Palette = later(() => import('./Palette'))
const Shortcuts = later(() => import('./Shortcuts'))
const NewProject = later(() => import('@/rooms/projects/NewProject'))

export function Shell({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<'palette' | 'shortcuts' | 'project'>()
  const close = useCallback(() => setOpen(undefined), [])
  const router = useRouter()
  const navigate = useNavigate()
  const project = useCurrentProject()
  const entries = useMemo(() => navigation(router.routesById), [router.routesById])
  const waiting = useWaiting()
  const may = useMay('operator')
  useSoon(Palette, Shortcuts, NewProject)
  useCommands([
    { id: 'palette', label: 'Commands', group: 'Everywhere', keys: 'mod+k', run: () => setOpen('palette') },
    {
      id: 'shortcuts',
      label: 'Keyboard shortcuts',
      group: 'Everywhere',
      keys: '?',
      where: '*',
      run: () => setOpen('shortcuts'),
    },
    { id: 'theme-dark', label: 'Dark theme', group: 'Everywhere', run: () => setTheme('dark') },
    { id: 'theme-light', label: 'Light theme', group: 'Everywhere', run: () => setTheme('light') },
    { id: 'theme-system', label: 'Theme of the system', group: 'Everywhere', run: () => setTheme('system') },
    { id: 'start', label: 'Getting started', group: 'Everywhere', run: () => void navigate({ to: '/start' }) },
    ...(may
      ? [{ id: 'new-project', label: 'New project', group: 'Everywhere', run: () => setOpen('project') } as const]
      : []),
    ...entries
      .filter((entry) => !entry.ofProject || project !== null)
      .map((entry) => ({
        id: `go-${entry.to}`,
        label: `Go to ${entry.label}`,
        group: 'Go to',
        ...(entry.keys === undefined ? {} : { keys: entry.keys }),
        run: () => void navigate({ to: entry.to, params: { project: project ?? '' } } as never),
      })),
  ])
  return (
    <TitleContext value={useDocumentTitle(waiting)}>
      <div className={css.shell}>
        <a className={css.skip} href="#content">
          Skip to the content
        </a>
        <header className={css.side}>
          <Link to="/" className={css.home} aria-label="Ringfence">
            <Logo />
          </Link>
          <ProjectChoice current={project} onNew={may ? () => setOpen('project') : undefined} />
          <nav className={css.nav} aria-label="Pages">
            {entries.map((entry) =>
              entry.ofProject && project === null ? null : (
                <NavLink key={entry.to} entry={entry} project={project} waiting={waiting} />
              ),
            )}
          </nav>
          <div className={css.foot}>
            <Button look="quiet" onClick={() => setOpen('palette')} aria-label="Commands (Ctrl+K)">
              <CommandIcon size={16} aria-hidden="true" /> <span className={css.wideOnly}>Commands</span>
            </Button>
            <Account />
          </div>
        </header>
        <main className={css.main} id="content" tabIndex={-1}>
          <StreamNotice />
          <CurrentDemo />
          {children}
        </main>
      </div>
      <Suspense fallback={<Coming />}>
        {open === 'palette' && <Palette onClose={close} />}
        {open === 'shortcuts' && <Shortcuts onClose={close} />}
        {open === 'project' && <NewProject onClose={close} />}
      </Suspense>
    </TitleContext>
  )
}

/** Only on pages of a project: elsewhere nothing says which one it would be about. */
function CurrentDemo() {
  const { project } = useParams({ strict: false })
  return project === undefined ? null : <DemoBanner project={project} />
}

function useCurrentProject(): string | null {
  const { project } = useParams({ strict: false })
  const { data: projects } = useProjects()
  useEffect(() => {
    if (project !== undefined) rememberProject(project)
  }, [project])
  if (project !== undefined) return project
  const last = lastProject()
  return projects?.find(({ id }) => id === last)?.id ?? projects?.[0]?.id ?? null
}

function useDocumentTitle(waiting: number): (title: string) => void {
  const [page, setPage] = useState('')
  const away = useRouterState({ select: (state) => state.status === 'pending' })
  useEffect(() => {
    if (!away) document.title = documentTitle(page, waiting)
  }, [page, waiting, away])
  return setPage
}

function NavLink({ entry, project, waiting }: { entry: NavEntry; project: string | null; waiting: number }) {
  const Icon = entry.icon
  const count = entry.counts === 'waiting' ? waiting : 0
  return (
    <Link
      to={entry.to}
      params={{ project: project ?? '' } as never}
      className={css.link}
      activeOptions={{ exact: entry.exact ?? false, includeSearch: false }}
      activeProps={{ 'aria-current': 'page' }}
    >
      <Icon size={17} aria-hidden="true" />
      <span>{entry.label}</span>
      {count > 0 && (
        <span className={css.count}>
          {count}
          <span className="sr-only"> waiting</span>
        </span>
      )}
    </Link>
  )
}

function ProjectChoice({ current, onNew }: { current: string | null; onNew: (() => void) | undefined }) {
  const { data: projects = [] } = useProjects()
  const navigate = useNavigate()
  return (
    <div className={css.project}>
      {projects.length > 0 && (
        <Select
          aria-label="Project"
          value={current ?? ''}
          onChange={(event) => void navigate({ to: '/projects/$project', params: { project: event.target.value } })}
        >
          {projects.map((project) => (
            <option key={project.id} value={project.id}>
              {project.name}
            </option>
          ))}
          {current !== null && projects.every(({ id }) => id !== current) && <option value={current}>?</option>}
        </Select>
      )}
      {onNew !== undefined && (
        <Button look="quiet" icon aria-label="New project" onClick={onNew}>
          <Plus size={16} />
        </Button>
      )}
    </div>
  )
}

function Account() {
  const me = useMe()
  const signOut = async () => {
    await take(api.POST('/api/v1/signout', {}))
    location.assign('/app/')
  }
  return (
    <Menu
      trigger={
        <Button look="quiet" aria-label={`Account of ${me.name}`}>
          <Avatar name={me.name} />
          <span className={css.wideOnly}>
            <Name>{me.name}</Name>
          </span>
        </Button>
      }
    >
      <MenuItem asChild>
        <Link to="/account">
          <UserRound size={16} /> Account and sessions <small>{me.role}</small>
        </Link>
      </MenuItem>
      <MenuSeparator />
      <MenuItem onSelect={() => setTheme('light')}>
        <Sun size={16} /> Light
      </MenuItem>
      <MenuItem onSelect={() => setTheme('dark')}>
        <Moon size={16} /> Dark
      </MenuItem>
      <MenuItem onSelect={() => setTheme('system')}>
        <Monitor size={16} /> As the system
      </MenuItem>
      <MenuSeparator />
      <MenuItem onSelect={() => void signOut()}>
        <LogOut size={16} /> Sign out
      </MenuItem>
    </Menu>
  )
}
