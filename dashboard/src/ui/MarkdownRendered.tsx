import { useMemo } from 'react'
import ReactMarkdown, { type Components } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { harmless } from './links'
import css from './markdown.module.css'
import { Pre } from './Pre'

const LONGEST = 60_000 // more is a file, not a description: shown as it is

const components: Components = {
  pre: ({ children }) => <Pre>{children}</Pre>,
  a: ({ href, children }) =>
    href === undefined || href === '' ? (
      <span>{children}</span>
    ) : (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
        {children}
      </a>
    ),
  img: ({ src, alt }) => (
    <a href={typeof src === 'string' ? src : undefined} target="_blank" rel="noopener noreferrer nofollow">
      {alt || 'picture'}
    </a>
  ),
}

const DEEP = /^(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)])){25}/m
const TANGLED = 2e6

/** Text made to keep the parser busy for minutes: it takes the square of the marks in a paragraph, and recurses by depth. */
function tangled(text: string): boolean {
  if (DEEP.test(text)) return true
  const effort = text.split(/\n\s*\n/).reduce((sum, block) => sum + (block.match(/[*_~[\]<]/g)?.length ?? 0) ** 2, 0)
  return effort > TANGLED
}

export default function MarkdownRendered({ text }: { text: string }) {
  const plain = useMemo(() => text.length > LONGEST || tangled(text), [text])
  if (plain) return <Pre className={css.plain}>{text}</Pre>
  return (
    <div className={css.markdown} dir="auto">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={components} urlTransform={harmless} skipHtml={false}>
        {text}
      </ReactMarkdown>
    </div>
  )
}
