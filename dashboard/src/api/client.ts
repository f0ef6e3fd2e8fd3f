/** The server's API, typed by its own OpenAPI document, with the browser session's proof on every change. */

import createClient from 'openapi-fetch'
import type { components, paths } from './schema'

type Schemas = components['schemas']
export type Me = Schemas['Me']
export type Agent = Schemas['AgentView']
export type Card = Schemas['CardView']
export type Task = Schemas['TaskView']
export type Project = Schemas['ProjectItem']
export type Proposal = Schemas['ProposalView']
export type Message = Schemas['MessageView']
export type AuditEvent = Schemas['EventView']
export type { Schemas }

/** What the server refused, in its own words. */
export class Problem extends Error {
  readonly status: number
  readonly code: string
  readonly details: Record<string, unknown>

  constructor(status: number, body: Record<string, unknown>) {
    super(typeof body.detail === 'string' ? body.detail : `the server answered ${status}`)
    this.name = 'Problem'
    this.status = status
    this.code = typeof body.code === 'string' ? body.code : 'unknown'
    this.details = body
  }
}

const proof = { csrf: '' }
const listeners = new Set<() => void>()

/** Called whenever the server no longer knows who we are. */
export function onSignedOut(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const api = createClient<paths>({ baseUrl: '', querySerializer: { array: { style: 'form', explode: true } } })

api.use({
  onRequest({ request }) {
    if (request.method !== 'GET') request.headers.set('X-Ringfence-CSRF', proof.csrf)
    return request
  },
  onResponse({ response }) {
    if (response.status === 401) for (const listener of listeners) listener()
  },
})

type Outcome<T> = { data?: T; error?: unknown; response: Response }

/** The answer of a call, or the Problem it was answered with. Unreachable servers are Problems too (status 0). */
export async function take<T>(call: Promise<Outcome<T>>): Promise<T> {
  let outcome: Outcome<T>
  try {
    outcome = await call
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new Problem(0, { detail: 'The server cannot be reached just now.', code: 'unreachable' })
  }
  if (outcome.error !== undefined || !outcome.response.ok) throw await problem(outcome.response, outcome.error)
  return outcome.data as T
}

async function problem(response: Response, body: unknown): Promise<Problem> {
  return new Problem(response.status, typeof body === 'object' && body !== null ? { ...body } : {})
}

/** Every item of a paged list, page after page. */
export async function all<T>(page: (cursor: string | undefined) => Promise<{ items: T[]; next: string | null }>) {
  const items: T[] = []
  let cursor: string | undefined
  do {
    const found = await page(cursor)
    items.push(...found.items)
    cursor = found.next ?? undefined
  } while (cursor !== undefined)
  return items
}

/** Send a file as a form; `onProgress` hears the part that went, from 0 to 1. */
export function upload(path: string, file: File, onProgress?: (part: number) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest() // fetch cannot tell how far an upload has come
    request.open('POST', path)
    request.setRequestHeader('X-Ringfence-CSRF', proof.csrf)
    request.responseType = 'json'
    request.upload.onprogress = (event) => event.lengthComputable && onProgress?.(event.loaded / event.total)
    request.onload = () =>
      request.status < 300 ? resolve() : reject(new Problem(request.status, request.response ?? {}))
    request.onerror = () => reject(new Problem(0, { detail: 'The upload was cut off.', code: 'unreachable' }))
    const form = new FormData()
    form.append('file', file, file.name)
    request.send(form)
  })
}

/** Who is signed in here; null when nobody is. */
export async function whoAmI(): Promise<Me | null> {
  try {
    const me = await take(api.GET('/api/v1/me'))
    proof.csrf = me.csrf ?? ''
    return me
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return null
    throw error
  }
}
