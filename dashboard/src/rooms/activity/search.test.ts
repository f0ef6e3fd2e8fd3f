import { describe, expect, it } from 'vitest'
import { GROUPS } from './kinds'
import { activitySearch, download, query } from './search'

describe('the address', () => {
  it('keeps what makes sense, and drops the rest', () => {
    expect(activitySearch({ kind: ['refused', 'refused', ''], agent: 7, event: '12', x: 1 })).toEqual({
      kind: ['refused'],
      agent: '7',
      event: 12,
    })
    expect(activitySearch({ kind: 'refused' })).toEqual({ kind: ['refused'] })
    expect(activitySearch({ event: -1, project: {}, agent: null })).toEqual({})
    expect(activitySearch({ event: 'x' })).toEqual({})
  })

  it('asks for groups of kinds as their kinds, each once', () => {
    const kinds = query({ kind: ['agents', 'agent_paused', 'made_up'] }).kind
    expect(kinds).toEqual([...Object.keys(GROUPS.agents!.kinds), 'made_up'])
    expect(query({ agent: 'claude' })).toEqual({ involves: 'claude' })
    expect(query({ kind: Object.keys(GROUPS) }).kind?.length).toBeLessThanOrEqual(100)
  })

  it('downloads what is shown', () => {
    expect(download({}, 'csv')).toBe('/api/v1/audit/export.csv')
    expect(download({ kind: ['refused', 'told'], agent: 'a&b', event: 3 } as never, 'ndjson')).toBe(
      '/api/v1/audit/export.ndjson?involves=a%26b&kind=refused&kind=told',
    )
  })
})
