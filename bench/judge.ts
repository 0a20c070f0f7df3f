/** Whether a turn was right. Speed is not its business: a fast wrong answer is worth nothing. */
import type { Work } from './contestants.ts'
import type { LoadResult } from './wrk.ts'

export interface Violation {
  readonly contestant: string
  readonly work: Work | 'pool'
  readonly concurrency: number
  readonly what: string
}

export interface Turn {
  readonly work: Work
  /** What the keys of the measured part, and of the pool, begin with. */
  readonly series: string
  readonly poolSeries: string
  readonly load: LoadResult
  /** The keys of all requests that reached the upstream from the beginning of the turn to its end. */
  readonly taken: readonly string[]
}

/** Enough to see what is the matter. */
const SHOWN = 3

/** What was wrong, in words. */
export function judgeTurn ({ work, series, poolSeries, load, taken }: Turn): string[] {
  const answers = wrongAnswers(load)
  if (work === 'pass') return answers
  const again = work === 'replay' ? executedAgain(taken, poolSeries) : []
  return [...answers, ...executedTwice(taken), ...again, ...work === 'first' || work === 'accept' ? neverExecuted(load, taken, series) : []]
}

/** Of a pool that has been asked for twice: every key was executed once. */
export function judgePool (taken: readonly string[], keys: number): string[] {
  const distinct = new Set(taken).size
  return [...executedTwice(taken), ...distinct === keys ? [] : [`${distinct} of the ${keys} keys of the pool were executed`]]
}

function wrongAnswers ({ wrong, broken, answered }: LoadResult): string[] {
  const said: string[] = []
  if (wrong.statuses > 0) said.push(`${wrong.statuses} of ${answered} answers had another status, such as ${wrong.example}`)
  if (wrong.bytes > 0) said.push(`${wrong.bytes} of ${answered} answers had other bytes, such as ${wrong.example}`)
  if (wrong.unasked > 0) said.push(`${wrong.unasked} of ${answered} answers were those of a key that nobody waited for`)
  const connections = Object.entries(broken).filter(([, count]) => count > 0).map(([kind, count]) => `${kind} ${count}`)
  if (connections.length > 0) said.push(`broken connections: ${connections.join(', ')}`)
  return said
}

function executedTwice (taken: readonly string[]): string[] {
  const seen = new Set<string>()
  const twice = new Set<string>()
  for (const key of taken) {
    if (seen.has(key)) twice.add(key)
    seen.add(key)
  }
  return twice.size === 0
    ? []
    : [`${twice.size} keys were executed more than once, such as ${Array.from(twice).slice(0, SHOWN).join(', ')}`]
}

function executedAgain (taken: readonly string[], poolSeries: string): string[] {
  const again = taken.filter((key) => key.startsWith(poolSeries))
  return again.length === 0 ? [] : [`${again.length} settled keys were executed again, such as ${again.slice(0, SHOWN).join(', ')}`]
}

/** More may be executed than answered: wrk leaves when its time is over. */
function neverExecuted ({ answered, wrong }: LoadResult, taken: readonly string[], series: string): string[] {
  const executed = taken.reduce((count, key) => key.startsWith(series) ? count + 1 : count, 0)
  const right = answered - wrong.statuses
  return executed >= right ? [] : [`${right} requests were answered, but only ${executed} executed`]
}
