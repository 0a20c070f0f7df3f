/** Records requests and answers of the senders of a run. Judges nothing. */
import { pairs } from '../../../src/core/headers/lines.ts'
import type { ToldKind } from '../../harness/history.ts'
import type { Ask, Asked } from '../asking.ts'
import { count } from '../counts.ts'
import { toldBy } from '../told.ts'
import type { WireAnswer } from '../told.ts'
import type { Wish } from './wishes.ts'

/** `accepted`: a 202 of the gateway's own. */
export type InboxTold =
  | { readonly kind: 'accepted', readonly ids: readonly string[] }
  | { readonly kind: Exclude<ToldKind, 'duplicate' | 'accepted'> }

export interface Call {
  readonly call: string
  readonly wish: Wish
  /** It asked for the inbox. */
  readonly prefers: boolean
  readonly door: number
  readonly atMs: number
  /** null: the connection was cut, or the client left. */
  told: InboxTold | null
  toldMs: number | null
}

export class InboxLedger {
  readonly calls: Call[] = []
  /** By status, or cut, left, hung. */
  readonly answers = new Map<string, number>()
  readonly kinds = new Map<string, number>()
  /** Descriptions of answers that should not exist. */
  readonly strange: string[] = []
  worstAnswerMs = 0

  ask (wish: Wish, prefers: boolean, door: number, leavesAfterMs: number | null): { readonly call: Call, readonly ask: Ask } {
    const call: Call = { call: `call-${this.calls.length + 1}`, wish, prefers, door, atMs: Date.now(), told: null, toldMs: null }
    this.calls.push(call)
    const { method, target, fields, body } = wish
    return {
      call,
      ask: { method, target, fields: [...fields, ...prefers ? ['Prefer', 'respond-async'] : []], body, call: call.call, leavesAfterMs }
    }
  }

  /** Returns the kind of answer. */
  answered (call: Call, asked: Asked, tookMs: number): string {
    count(this.answers, typeof asked === 'string' ? asked : String(asked.status))
    if (typeof asked === 'string') {
      if (asked === 'hung') this.strange.push(`${call.call} was never answered`)
      return asked
    }
    this.worstAnswerMs = Math.max(this.worstAnswerMs, Math.round(tookMs))
    const told = toldByInbox(call.wish, asked)
    if (typeof told === 'string') {
      this.strange.push(`${call.call} was told what nothing allows: ${told}`)
      return 'strange'
    }
    // The clock has whole milliseconds, rounded down. The answer happened before the next millisecond.
    call.told = told
    call.toldMs = Date.now() + 1
    count(this.kinds, told.kind)
    return told.kind
  }
}

/** The description of an answer that docs/guides/accept-now-deliver-later.md does not allow on this route. */
function toldByInbox ({ route, parts }: Wish, answer: WireAnswer): InboxTold | string {
  if (fieldOf(answer, 'idempotency-status') === 'accepted') return acceptance(answer, route.batch)
  const told = toldBy(answer)
  if (typeof told === 'string') return told
  const allowed = route.onWish ? told.kind !== 'duplicate' : told.kind === 'unsent' || told.kind === 'mismatch'
  if (!allowed || told.kind === 'duplicate' || told.kind === 'accepted') {
    return `${told.kind} (${answer.status}) on route ${route.name} for ${parts.length} messages`
  }
  return { kind: told.kind }
}

function acceptance ({ status, headers, body }: WireAnswer, isBatch: boolean): InboxTold | string {
  if (status !== 202) return `accepted with ${status}`
  const said = JSON.parse(body.toString()) as {
    readonly id?: string
    readonly location?: string
    readonly messages?: ReadonlyArray<{ readonly id: string }>
  }
  if (isBatch) return { kind: 'accepted', ids: said.messages?.map(({ id }) => id) ?? [] }
  const location = fieldOf({ headers }, 'location')
  if (said.id === undefined || location !== said.location || location?.endsWith(`/${said.id}`) !== true) {
    return 'a 202 whose Location is not that of its message'
  }
  return { kind: 'accepted', ids: [said.id] }
}

function fieldOf ({ headers }: Pick<WireAnswer, 'headers'>, name: string): string | null {
  for (const [key, value] of pairs(headers)) {
    if (key.toLowerCase() === name) return value
  }
  return null
}
