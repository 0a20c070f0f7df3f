/**
 * The history of a run, as seen from outside: requests and answers of clients, sendings at the upstream, and the writes if the store
 * was watched. This file has the types, and sorts events into records and lives. checker.ts judges.
 * Pure: reads no clock and no store.
 */
import { createHash } from 'node:crypto'
import type { Disposition, UnknownPolicy } from '../../src/core/policy/policy.ts'
import type { RawHeaders, RecordState, SettledState } from '../../src/core/record/record.ts'

/**
 * The kind of a client's answer. `stored`: the upstream's answer, called stored. `given`: the upstream's answer, not called stored.
 * `tombstone`: executed, and the answer is not available. `unsent`: nothing was sent.
 * `duplicate`: mode drop, forwarded before. `accepted`: in an inbox.
 */
export type ToldKind =
  | 'stored' | 'replayed' | 'given' | 'tombstone' | 'in-flight' | 'unknown' | 'mismatch' | 'unsent' | 'duplicate'
  | 'accepted'

export interface Told {
  readonly kind: ToldKind
  /** {@link printOf} the answer. null: the answer is the gateway's own. */
  readonly print: string | null
  /** The execution that the answer's body names. null: none. */
  readonly execution: number | null
}

export type HistoryEvent =
  /** `call`: unique, the X-Request-Id. `asked`: the request as the route's fingerprint sees it. */
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
  /** The upstream received it: one event per sending. `execution`: a running number over all records. */
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
  /** The upstream answered it. `means`: what the status says on this route. */
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
   * An operator's delete, at the moment that it takes effect. `early`: it was not deleted. It expired sooner than announced, because
   * an operator confirmed the arbiter's clock.
   */
  | { readonly kind: 'deleted', readonly atMs: number, readonly record: string, readonly early?: true }
  /** From here on, ids are made by another scheme. */
  | { readonly kind: 'switched', readonly atMs: number, readonly number: number, readonly to: string }

export type EventOf<Kind extends HistoryEvent['kind']> = Extract<HistoryEvent, { readonly kind: Kind }>

/** A row at the end, after the faults and some more time. */
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
  /** In order of time. */
  readonly events: readonly HistoryEvent[]
  /** null: the rows were not read. */
  readonly rows: readonly FinalRow[] | null
  /** When the run ended. */
  readonly endedAtMs: number
  /** Whether the store was watched. Absent: it was if there are events of writes. */
  readonly watched?: boolean
  readonly rulesOf: (record: string) => Rules
  /** The configuration that took this call. Absent: that of all others. */
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

/** Whether the store was watched. If not, lives are derived from attempts and time. */
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
 * A claim with attempt 1 under a new owner begins a life. I1 checks whether it was allowed.
 * Under a known owner, the statement came late. It begins a life if the life of that owner is over.
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

/** `rules`: for an unwatched store. Attempt 1 then begins a life if the earlier life can be over. */
function lifeOfSending (lives: Map<string, Life[]>, sent: EventOf<'sent'>, rules: Rules | null): Life {
  const life = currentLife(lives, sent.record)
  if (rules === null) {
    return lives.get(sent.record)?.findLast(({ claims }) => claims.some(({ attempt }) => attempt === sent.attempt)) ?? life
  }
  const last = life.sendings.at(-1)
  const mayBeOver = last !== undefined && sent.atMs - last.atMs >= Math.min(rules.retentionMs, rules.unknownRetentionMs)
  return sent.attempt === 1 && mayBeOver ? newLife(lives, sent.record) : life
}
