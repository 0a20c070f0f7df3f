/**
 * What a run of one or more gateways looked like from outside: what clients asked and were told, what the upstream saw,
 * and, where the store was watched, what was written. Shapes, and their sorting into records and lives; judging is
 * checker.ts. Pure: reads no clock and no store.
 */
import { createHash } from 'node:crypto'
import type { Disposition, UnknownPolicy } from '../../src/core/policy/policy.ts'
import type { RawHeaders, RecordState, SettledState } from '../../src/core/record/record.ts'

/**
 * What a client was told, in the words that the invariants know. `stored`: the upstream's answer, called stored.
 * `given`: the upstream's answer, and nothing said of its being stored. `tombstone`: executed, and never shown (again).
 * `unsent`: told that nothing was sent. `duplicate`: mode drop, told that it went through before. `accepted`: it is in an inbox.
 */
export type ToldKind =
  | 'stored' | 'replayed' | 'given' | 'tombstone' | 'in-flight' | 'unknown' | 'mismatch' | 'unsent' | 'duplicate'
  | 'accepted'

export interface Told {
  readonly kind: ToldKind
  /** {@link printOf} the answer; null where it is the gateway's own. */
  readonly print: string | null
  /** Which execution the answer's body names; null where it names none. */
  readonly execution: number | null
}

export type HistoryEvent =
  /** `call`: unique, the X-Request-Id. `asked`: what was asked, as far as the route's fingerprint tells requests apart. */
  | {
    readonly kind: 'asked'
    readonly atMs: number
    readonly call: string
    readonly record: string
    readonly scope: string
    readonly asked: string
  }
  | { readonly kind: 'told', readonly atMs: number, readonly call: string, readonly told: Told }
  /** The connection broke: its gateway died, or the client went away. */
  | { readonly kind: 'cut', readonly atMs: number, readonly call: string }
  /** The upstream saw it: one event per sending. `execution` is its running number, over all records. */
  | {
    readonly kind: 'sent'
    readonly atMs: number
    readonly execution: number
    readonly call: string
    readonly record: string
    readonly attempt: number
    readonly scope: string
    readonly asked: string
  }
  /** The upstream answered it; `means` is what its status says on this route. */
  | { readonly kind: 'replied', readonly atMs: number, readonly execution: number, readonly means: Disposition }
  /** Written in the store, acknowledged or not. */
  | { readonly kind: 'claimed', readonly atMs: number, readonly record: string, readonly owner: string, readonly attempt: number }
  | {
    readonly kind: 'settled'
    readonly atMs: number
    readonly record: string
    readonly owner: string
    readonly attempt: number
    readonly outcome: SettledState
    readonly by: 'owner' | 'lease' | 'probe' | 'operator'
    readonly keepMs: number
    readonly print: string | null
  }
  /**
   * An operator's delete, at the moment that it takes effect. `early`: nobody deleted it; its time is over sooner than was said, by an
   * operator's word on the arbiter's clock.
   */
  | { readonly kind: 'deleted', readonly atMs: number, readonly record: string, readonly early?: true }
  /** Ids are made by another scheme from here on. */
  | { readonly kind: 'switched', readonly atMs: number, readonly number: number, readonly to: string }

export type EventOf<Kind extends HistoryEvent['kind']> = Extract<HistoryEvent, { readonly kind: Kind }>

/** A row when the faults were over and time had passed. */
export interface FinalRow {
  readonly record: string
  readonly state: RecordState | 'undecodable'
  readonly past: boolean
  readonly print: string | null
}

export interface Rules {
  readonly unknown: UnknownPolicy
  readonly retentionMs: number
  readonly unknownRetentionMs: number
  /** The longest that any request may wait for its answer, scheduling included. */
  readonly answerMs: number
  /** onMismatch: replay. */
  readonly replaysMismatch: boolean
}

export interface History {
  /** In the order in which they happened. */
  readonly events: readonly HistoryEvent[]
  /** null: nobody looked. */
  readonly rows: readonly FinalRow[] | null
  /** When the run ended. */
  readonly endedAtMs: number
  /** The store was watched, even if nothing was written. Absent: it was if the events tell of writes. */
  readonly watched?: boolean
  readonly rulesOf: (record: string) => Rules
  /** What the configuration said that took this call. Absent: the same as all others. */
  readonly unknownOf?: (call: string) => UnknownPolicy
}

/** An event and its place in the whole history. */
export type Placed<Kind extends HistoryEvent['kind']> = EventOf<Kind> & { readonly place: number }

/** One life of a record (protocol §2), with everything that belongs to it. */
export interface Life {
  readonly record: string
  readonly number: number
  readonly claims: Array<Placed<'claimed'>>
  readonly settles: Array<Placed<'settled'>>
  readonly sendings: Array<Placed<'sent'>>
  readonly deleted: Array<Placed<'deleted'>>
}

/** Two answers with one print are byte-identical in status, kept headers and body. */
export function printOf (status: number, keptHeaders: RawHeaders, body: Buffer): string {
  return createHash('sha256').update(JSON.stringify([status, keptHeaders])).update(body).digest('base64url')
}

/** Whether the store was watched; without it lives are told by attempts and time alone. */
export function isWatched (history: History): boolean {
  return history.watched ?? history.events.some(({ kind }) => kind === 'claimed' || kind === 'settled')
}

/** Every record's lives, oldest first. */
export function livesOf (history: History): Map<string, Life[]> {
  const lives = new Map<string, Life[]>()
  const watched = isWatched(history)
  history.events.forEach((event, place) => {
    if (event.kind === 'claimed') lifeOfClaim(lives, event).claims.push({ ...event, place })
    if (event.kind === 'settled') currentLife(lives, event.record).settles.push({ ...event, place })
    if (event.kind === 'deleted') currentLife(lives, event.record).deleted.push({ ...event, place })
    if (event.kind === 'sent') {
      lifeOfSending(lives, event, watched ? null : history.rulesOf(event.record)).sendings.push({ ...event, place })
    }
  })
  return lives
}

function currentLife (lives: Map<string, Life[]>, record: string): Life {
  return lives.get(record)?.at(-1) ?? newLife(lives, record)
}

function newLife (lives: Map<string, Life[]>, record: string): Life {
  const earlier = lives.get(record) ?? []
  const life: Life = { record, number: earlier.length + 1, claims: [], settles: [], sendings: [], deleted: [] }
  lives.set(record, [...earlier, life])
  return life
}

/**
 * A claim with attempt 1 under another owner begins a life: whether it might is I1's question. Under one that it knows, a
 * statement came late: it begins one if the life that it belonged to is over.
 */
function lifeOfClaim (lives: Map<string, Life[]>, claim: EventOf<'claimed'>): Life {
  const life = currentLife(lives, claim.record)
  const begins = claim.attempt === 1 &&
    life.claims.length > 0 &&
    (life.claims.every(({ owner }) => owner !== claim.owner) || isOver(life, claim.atMs))
  return begins ? newLife(lives, claim.record) : life
}

function isOver ({ claims, settles, deleted }: Life, atMs: number): boolean {
  const last = settles.at(-1)
  if (last === undefined || claims.some(({ place }) => place > last.place)) return false
  return atMs >= last.atMs + last.keepMs || deleted.some(({ place }) => place > last.place)
}

/** `rules`: given where nobody watched the store; then attempt 1 begins a life if the one before can be over. */
function lifeOfSending (lives: Map<string, Life[]>, sent: EventOf<'sent'>, rules: Rules | null): Life {
  const life = currentLife(lives, sent.record)
  if (rules === null) {
    return lives.get(sent.record)?.findLast(({ claims }) => claims.some(({ attempt }) => attempt === sent.attempt)) ?? life
  }
  const last = life.sendings.at(-1)
  const mayBeOver = last !== undefined && sent.atMs - last.atMs >= Math.min(rules.retentionMs, rules.unknownRetentionMs)
  return sent.attempt === 1 && mayBeOver ? newLife(lives, sent.record) : life
}
