import ReactMarkdown, { type Components } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { harmless } from './links'
import css from './markdown.module.css'

const LONGEST = 60_000 // more is a file, not a description: shown as it is

const components: Components = {
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

export default function MarkdownRendered({ text }: { text: string }) {
  if (text.length > LONGEST) return <pre className={css.plain}>{text}</pre>
  return (
    <div className={css.markdown} dir="auto">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={components} urlTransform={harmless} skipHtml={false}>
        {text}
      </ReactMarkdown>
    </div>
  )
}
