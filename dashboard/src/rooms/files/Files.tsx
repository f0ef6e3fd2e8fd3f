/** Files of a project or of a task: a list by folders, uploads by button and by drop, with how far each has come. */

import { type QueryKey, useQueryClient } from '@tanstack/react-query'
import { CircleAlert, Download, FileText, Folder, Trash2, Upload, X } from 'lucide-react'
import { type DragEvent, useRef, useState } from 'react'
import { Problem, type Schemas, upload } from '@/api/client'
import { Button, Row } from '@/ui/Controls'
import { Name, Time } from '@/ui/Facts'
import { Confirm } from '@/ui/Overlays'
import { dropped, type Given } from './dropped'
import css from './files.module.css'
import { foldersOf, LARGEST, plainName, sizeOf } from './names'

type Stored = Schemas['FileView']
type Sending = { id: number; name: string; size: number; part: number; wrong?: string }

type FilesProps = {
  /** Where the server keeps them; each file is below it under its name. */
  path: string
  queryKey: QueryKey
  files: readonly Stored[]
  may: boolean
  none: string
  onDelete: (filename: string) => Promise<unknown>
}

export function Files({ path, queryKey, files, may, none, onDelete }: FilesProps) {
  const { uploads, add, dismiss } = useUploads(path, queryKey)
  const [asking, setAsking] = useState<{ replace: string[]; given: Given[] } | null>(null)
  const [over, setOver] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const take = (given: Given[]) => {
    const known = new Set(files.map(({ filename }) => filename))
    const replace = given.map(({ name }) => plainName(name)).filter((name) => known.has(name))
    if (replace.length > 0) setAsking({ replace, given })
    else add(given)
  }
  const drop = async (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    take(await dropped(event.dataTransfer))
  }
  const listening = may
    ? {
        onDragOver: (event: DragEvent) => {
          event.preventDefault()
          setOver(true)
        },
        onDragLeave: (event: DragEvent) => {
          if (!(event.relatedTarget instanceof Node && event.currentTarget.contains(event.relatedTarget)))
            setOver(false)
        },
        onDrop: drop,
      }
    : {}
  return (
    <div className={css.files} data-over={over || undefined} {...listening}>
      {files.length === 0 && uploads.length === 0 && (
        <p className={css.none}>
          <FileText size={16} aria-hidden="true" /> {none}
        </p>
      )}
      {foldersOf(files).map((folder) => (
        <section key={folder.name} aria-label={folder.name === '' ? 'Files' : `Folder ${folder.name}`}>
          {folder.name !== '' && (
            <h4 className={css.folder}>
              <Folder size={14} aria-hidden="true" /> <bdi>{folder.name}</bdi>
            </h4>
          )}
          <ul className={css.list}>
            {folder.files.map((file) => (
              <Line key={file.filename} file={file} path={path} may={may} onDelete={onDelete} />
            ))}
          </ul>
        </section>
      ))}
      {uploads.length > 0 && (
        <ul className={css.list} aria-label="Uploads">
          {uploads.map((one) => (
            <li key={one.id} className={css.upload}>
              <bdi className={css.name}>{one.name}</bdi>
              {one.wrong === undefined ? (
                <progress value={one.part} max={1} aria-label={`Uploading ${one.name}`} />
              ) : (
                <span className={css.wrong} role="alert">
                  <CircleAlert size={14} aria-hidden="true" /> {one.wrong}
                </span>
              )}
              {one.wrong !== undefined && (
                <Button look="quiet" icon small aria-label={`Dismiss ${one.name}`} onClick={() => dismiss(one.id)}>
                  <X size={13} />
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
      {may && (
        <Row>
          <Button small onClick={() => input.current?.click()}>
            <Upload size={14} aria-hidden="true" /> Upload
          </Button>
          <span className={css.hint}>or drop files and folders here, up to {sizeOf(LARGEST)} each</span>
          <input
            ref={input}
            type="file"
            multiple
            hidden
            aria-label="Files to upload"
            onChange={({ target }) => {
              take([...(target.files ?? [])].map((file) => ({ name: file.name, file })))
              target.value = ''
            }}
          />
        </Row>
      )}
      <Confirm
        open={asking !== null}
        onOpenChange={(open) => !open && setAsking(null)}
        title={asking?.replace.length === 1 ? 'Replace the file?' : 'Replace these files?'}
        about={
          <p>
            There is already <bdi>{asking?.replace.slice(0, 5).join(', ')}</bdi>
            {(asking?.replace.length ?? 0) > 5 ? ' and more' : ''}.
          </p>
        }
        action="Replace"
        onConfirm={() => add(asking?.given ?? [])}
      />
    </div>
  )
}

type LineProps = { file: Stored; path: string; may: boolean; onDelete: (filename: string) => Promise<unknown> }

function Line({ file, path, may, onDelete }: LineProps) {
  const [deleting, setDeleting] = useState(false)
  const name = file.filename.slice(file.filename.lastIndexOf('/') + 1)
  const address = `${path}/${file.filename.split('/').map(encodeURIComponent).join('/')}`
  return (
    <li className={css.line}>
      <FileText size={14} aria-hidden="true" />
      <a href={address} download={name} className={css.name} title={file.filename}>
        <bdi>{name}</bdi>
      </a>
      <span className={css.facts}>
        <span>{sizeOf(file.size)}</span>
        <span className={css.name}>
          <Name>{file.uploader}</Name>
        </span>
        <Time at={file.updated_at} />
      </span>
      <a href={address} download={name} className={css.get} aria-label={`Download ${file.filename}`}>
        <Download size={14} aria-hidden="true" />
      </a>
      {may && (
        <Button look="quiet" icon small aria-label={`Delete ${file.filename}`} onClick={() => setDeleting(true)}>
          <Trash2 size={13} />
        </Button>
      )}
      <Confirm
        open={deleting}
        onOpenChange={setDeleting}
        title="Delete this file?"
        about={
          <p>
            <bdi>{file.filename}</bdi> is gone for everybody.
          </p>
        }
        action="Delete"
        danger
        onConfirm={() => onDelete(file.filename)}
      />
    </li>
  )
}

let numbers = 0

/** One upload at a time, in order; what was refused stays until it is dismissed. */
function useUploads(path: string, queryKey: QueryKey) {
  const queries = useQueryClient()
  const [uploads, setUploads] = useState<Sending[]>([])
  const line = useRef(Promise.resolve())
  const change = (id: number, to: Partial<Sending>) =>
    setUploads((before) => before.map((one) => (one.id === id ? { ...one, ...to } : one)))
  const dismiss = (id: number) => setUploads((before) => before.filter((one) => one.id !== id))
  const send = async (id: number, name: string, file: File) => {
    try {
      await upload(path, new File([file], name, { type: file.type }), (part) => change(id, { part }))
      await queries.invalidateQueries({ queryKey })
      dismiss(id)
    } catch (error) {
      change(id, { wrong: error instanceof Problem ? error.message : 'The file cannot be read.' })
    }
  }
  const add = (given: Given[]) => {
    const begun = given.map(({ name, file }) => ({ id: ++numbers, name: plainName(name), file }))
    const rows = begun.map(({ id, name, file }): Sending => {
      const wrong =
        file.size > LARGEST ? `It has ${sizeOf(file.size)}; at most ${sizeOf(LARGEST)} are possible.` : undefined
      return { id, name, size: file.size, part: 0, wrong }
    })
    setUploads((before) => [...before, ...rows])
    for (const { id, name, file } of begun) {
      if (file.size <= LARGEST) line.current = line.current.then(() => send(id, name, file))
    }
  }
  return { uploads, add, dismiss }
}
