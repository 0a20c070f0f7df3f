/**
 * What happened to each job, in lines of files: `A KEY`, it was accepted; `D KEY`, it was done; `L KEY STATE`, the database still had it at
 * the end, not done as far as the queue knew. A line is with the kernel before the job goes on, so a kill loses none.
 */
import { globSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

type Write = (what: 'A' | 'D', key: string) => void

export function openLedger (directory: string, name: string): Write {
  const file = openSync(join(directory, `${name}.ledger`), 'a')
  return (what, key) => { writeSync(file, `${what} ${key}\n`) }
}

export interface Judgement {
  readonly accepted: number
  readonly done: number
  /** Not done, and in the database, by state. */
  readonly left: Readonly<Record<string, number>>
  /** Accepted, not done, and not in the database. */
  readonly lost: readonly string[]
  /** Done more than once. */
  readonly twice: number
  /** Done, and in the database as if it were not. */
  readonly again: number
}

export function judge (directory: string): Judgement {
  const accepted = new Set<string>()
  const done = new Map<string, number>()
  const held = new Map<string, string>()
  for (const file of globSync('*.ledger', { cwd: directory })) {
    for (const line of readFileSync(join(directory, file), 'utf8').split('\n')) {
      const [what, key = '', state = ''] = line.split(' ')
      if (what === 'A') accepted.add(key)
      else if (what === 'D') done.set(key, (done.get(key) ?? 0) + 1)
      else if (what === 'L') held.set(key, state)
    }
  }
  const left: Record<string, number> = {}
  for (const [key, state] of held) {
    if (!done.has(key)) left[state] = (left[state] ?? 0) + 1
  }
  return {
    accepted: accepted.size,
    done: done.size,
    left,
    lost: [...accepted].filter((key) => !done.has(key) && !held.has(key)),
    twice: [...done.values()].filter((times) => times > 1).length,
    again: [...held.keys()].filter((key) => done.has(key)).length
  }
}
