/** What must hold of a pair, by how it was made, and whether it did. */
import type { Ask } from './asks.ts'
import type { Flaw } from './mutations.ts'

export const KINDS = ['same', 'caller', 'request', 'elsewhere', 'refused'] as const
/**
 * same: the same caller's retry. caller: somebody else's, or for somebody else. request: its caller asks for something else.
 * elsewhere: of another route, or under another key. refused: one of the two cannot be told apart, or both.
 */
export type Kind = typeof KINDS[number]

/** What its client has heard. */
export interface Heard {
  readonly status: number
  /** Of a problem. */
  readonly code: string | null
  /** `Idempotency-Status`. */
  readonly mark: string | null
  readonly replayed: boolean
  /** Of the execution that this answer came from. */
  readonly serial: number | null
  /** Of a message. */
  readonly location: string | null
}

export interface Pair {
  readonly index: number
  readonly kind: Kind
  /** Of each what was changed. */
  readonly changes: readonly string[]
  readonly asks: readonly [first: Ask, second: Ask]
  /** What is wrong with them; null: nothing. */
  readonly flaws: readonly [first: Flaw | null, second: Flaw | null]
  /** The second one comes while the first one is being executed. */
  readonly during: boolean
  /** Which process each of them goes to. */
  readonly seats: readonly [first: number, second: number]
}

/** What became of one of the two. */
export interface Became { readonly heard: Heard, /** Serial numbers of what was executed for it. */ readonly executed: readonly number[] }

/** null: as it must be; else why not. `lenient`: only that nothing of the same caller is executed twice. */
export function judge (
  { kind, asks: [{ place }], flaws, during }: Pair,
  [first, second]: readonly [Became, Became],
  lenient: boolean
): string | null {
  const done = deedsOf(first).length + deedsOf(second).length
  if (lenient) {
    return deedsOf(first).length > 0 && deedsOf(second).length > 0 && !isSame(first, second)
      ? 'the same caller\'s retry was executed again'
      : null
  }
  const wrongFirst = flaws[0] === null ? notDone(first) : notRefused(first, flaws[0])
  if (wrongFirst !== null) return `the first one ${wrongFirst}`
  if (flaws[1] !== null) {
    const wrong = notRefused(second, flaws[1])
    return wrong === null ? null : `the second one ${wrong}`
  }
  if (kind === 'caller' || kind === 'elsewhere' || kind === 'refused') {
    const wrong = notDone(second)
    if (wrong !== null) return `the second one, which is not the first one's, ${wrong}`
    return isSame(first, second) ? 'the second one got what the first one had been told' : null
  }
  if (done !== 1 && !isSame(first, second)) return `${done} executions for one request`
  const got = isAnswered(first, second, place.duplicate)
  const waits = during && second.heard.code === 'in-flight'
  if (kind === 'same' || place.mode === 'drop' || place.mismatch.action === 'replay') {
    return got || waits ? null : 'its caller\'s retry did not get the first one\'s answer'
  }
  return second.heard.status === place.mismatch.status && second.heard.code === 'key-reused'
    ? null
    : 'another request under the same key was not told so'
}

/** What was begun for it: executions, and a message. */
function deedsOf ({ heard, executed }: Became): ReadonlyArray<number | string> {
  return [...executed, ...heard.location === null ? [] : [heard.location]]
}

/** Both were told of one execution, or of one message. */
function isSame (first: Became, second: Became): boolean {
  return (first.heard.serial !== null && first.heard.serial === second.heard.serial) ||
    (first.heard.location !== null && first.heard.location === second.heard.location)
}

function isAnswered (first: Became, second: Became, duplicate: number): boolean {
  const { heard, executed } = second
  if (executed.length > 0) return false
  if (first.heard.location !== null) return heard.status === 202 && heard.location === first.heard.location
  if (heard.mark === 'duplicate') return heard.status === duplicate
  return heard.replayed && heard.status === first.heard.status && heard.serial === first.heard.serial
}

function notDone ({ heard, executed }: Became): string | null {
  if (heard.location !== null) return heard.status === 202 && executed.length === 0 ? null : 'was accepted and executed'
  const [serial] = executed
  return executed.length === 1 && heard.serial === serial && heard.mark === 'executed' && !heard.replayed
    ? null
    : 'was not executed by itself'
}

function notRefused (became: Became, { status, codes }: Flaw): string | null {
  const { heard } = became
  if (deedsOf(became).length > 0) return 'should have been refused, and was executed'
  return heard.status === status && codes.includes(heard.code ?? '')
    ? null
    : `should have been refused with ${status} ${codes.join(' or ')}`
}
