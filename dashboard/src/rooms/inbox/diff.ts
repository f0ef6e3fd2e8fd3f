/** What changes in a text, line by line. */

export type Line = { sign: ' ' | '-' | '+'; text: string }

const MOST = 600 // lines that are compared; more are shown whole, before and after

export function lines(before: string, after: string): Line[] {
  const old = before === '' ? [] : before.split('\n')
  const now = after === '' ? [] : after.split('\n')
  if (old.length + now.length > MOST) return [...old.map(gone), ...now.map(come)]
  return walked(old, now, common(old, now))
}

/** `table[i][j]`: how many lines the ends of both, from `i` and `j` on, have in common. */
function common(old: string[], now: string[]): number[][] {
  const table = Array.from({ length: old.length + 1 }, () => new Array<number>(now.length + 1).fill(0))
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      table[i]![j] = old[i] === now[j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!)
    }
  }
  return table
}

function walked(old: string[], now: string[], table: number[][]): Line[] {
  const found: Line[] = []
  let i = 0
  let j = 0
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) {
      found.push({ sign: ' ', text: old[i]! })
      i++
      j++
    } else if (table[i + 1]![j]! >= table[i]![j + 1]!) found.push(gone(old[i++]!))
    else found.push(come(now[j++]!))
  }
  return [...found, ...old.slice(i).map(gone), ...now.slice(j).map(come)]
}

function gone(text: string): Line {
  return { sign: '-', text }
}

function come(text: string): Line {
  return { sign: '+', text }
}
