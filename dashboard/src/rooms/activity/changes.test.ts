import { describe, expect, it } from 'vitest'
import { changesOf, fieldName, fieldsOf } from './changes'

describe('changesOf', () => {
  it('says what was before, where the event does', () => {
    const data = { changed: ['title'], to: { title: 'New', priority: 'P1' }, was: { title: 'Old', priority: 'P1' } }
    expect(changesOf({ kind: 'task_changed', data })).toEqual([{ field: 'title', before: 'Old', after: 'New' }])
    const limit = { status: 'in_progress', limit: null, was: { limit: 3 } }
    expect(changesOf({ kind: 'wip_limit_changed', data: limit })).toEqual([{ field: 'limit', before: 3, after: null }])
  })

  it('shows a move from column to column, with what blocks it', () => {
    const data = { old_status: 'ready', new_status: 'blocked', blocked_reason: 'no key' }
    expect(changesOf({ kind: 'task_transition', data })).toEqual([
      { field: 'status', before: 'ready', after: 'blocked' },
      { field: 'blocked_reason', before: null, after: 'no key' },
    ])
  })

  it('knows only what is there now of older events, and nothing of those that change nothing', () => {
    expect(changesOf({ kind: 'task_changed', data: { changed: ['title'], to: { title: 'New' } } })).toEqual([
      { field: 'title', before: undefined, after: 'New' },
    ])
    expect(changesOf({ kind: 'message_sent', data: { to: 'codex', content: 'Hello' } })).toEqual([])
  })
})

describe('fieldsOf', () => {
  it('leaves out what is told elsewhere, and what is empty', () => {
    const data = { project: 'prj_a', task_id: 'tsk_a', title: 'T', note: '', body: 'Words', labels: [], repeated: 0 }
    expect(fieldsOf({ kind: 'task_commented', data })).toEqual([
      ['title', 'T'],
      ['body', 'Words'],
      ['repeated', 0],
    ])
    expect(fieldsOf({ kind: 'message_sent', data: { to: 'codex' } })).toEqual([['to', 'codex']])
  })
})

describe('fieldName', () => {
  it('is said as people do', () => {
    expect(fieldName('required_capabilities')).toBe('Required capabilities')
    expect(fieldName('<b>')).toBe('<b>')
  })
})
