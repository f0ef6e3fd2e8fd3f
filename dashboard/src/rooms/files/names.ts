/** File names as the server takes them. */

export const LARGEST = 10 * 1024 * 1024 // bytes; the server's own limit unless it was changed

/** A name of plain letters, digits, `-`, `_` and `.`, with folders: what else a name holds becomes `-`. */
export function plainName(name: string): string {
  const parts = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .split('/')
    .map((part) =>
      part
        .replace(/[^A-Za-z0-9_.-]+/g, '-')
        .replace(/\.{2,}/g, '.')
        .replace(/^-+|-+$/g, ''),
    )
    .filter((part) => part !== '' && part !== '.')
  return parts.join('/').slice(-255).replace(/^\/+/, '') || 'file'
}

export function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KiB`
  return `${(bytes / (1024 * 1024)).toFixed(1)} MiB`
}

export type Folder<T> = { name: string; files: T[] }

/** Files by their folder, those without one first. */
export function foldersOf<T extends { filename: string }>(files: readonly T[]): Folder<T>[] {
  const folders = Map.groupBy(files, ({ filename }) => filename.slice(0, filename.lastIndexOf('/') + 1))
  return [...folders]
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([name, found]) => ({ name, files: found }))
}
