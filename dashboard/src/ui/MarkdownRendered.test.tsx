import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import { harmless } from './links'
import MarkdownRendered from './MarkdownRendered'

const rendered = (text: string) => renderToStaticMarkup(<MarkdownRendered text={text} />)

describe('Markdown', () => {
  it.each([
    'javascript:alert(1)',
    ' JaVaScRiPt:alert(1)',
    'java\tscript:alert(1)',
    'data:text/html,<script>alert(1)</script>',
    'vbscript:x',
    'file:///etc/passwd',
    '//evil.example',
    '/signin?code=x',
    'blob:x',
  ])('lets nobody be led by %s', (address) => {
    expect(harmless(address)).toBe('')
    expect(rendered(`[click](<${address}>)`)).not.toContain('href')
  })

  it('leads where people can go, apart from this page', () => {
    const html = rendered('[docs](https://example.org/a) <mailto:a@b.example>')
    expect(html).toContain('href="https://example.org/a"')
    expect(html).toContain('rel="noopener noreferrer nofollow"')
    expect(html).toContain('href="mailto:a@b.example"')
  })

  it.each(['<img src=x onerror=alert(1)>', '<script>alert(1)</script>', '<svg onload=alert(1)>', '<iframe src=x>'])(
    'shows %s as text',
    (html) => {
      expect(rendered(html)).not.toMatch(/<(img|script|svg|iframe)/)
    },
  )

  it('asks no other machine for pictures', () => {
    expect(rendered('![a](https://evil.example/x.png)')).not.toContain('<img')
  })

  it('shows what is too long as it is', () => {
    expect(rendered('*'.repeat(100_000))).toContain('<pre')
  })
})
