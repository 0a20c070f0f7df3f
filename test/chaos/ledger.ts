/** Records requests and answers of the clients of a run. Judges nothing. */
import { createHash } from 'node:crypto'
import type { HistoryEvent, Told } from '../harness/history.ts'
import type { Ask, Asked } from './asking.ts'
import { count } from './counts.ts'
import { callerText, fieldsOf, Identities, USUAL } from './identities.ts'
import type { Caller } from './identities.ts'
import { routeNamed } from './routes.ts'
import type { ChaosRoute } from './routes.ts'
import { toldBy } from './told.ts'
import type { WireAnswer } from './told.ts'

/** What a client wants. The same wish is sent again until it has a final answer. */
export interface Wish {
  readonly route: ChaosRoute
  readonly target: string
  readonly key: string
  readonly caller: Caller
  readonly scope: string
  readonly body: string
  /** The request's name (identities.ts). */
  readonly record: string
  readonly asked: string
}

export type NewWish = Omit<Wish, 'record' | 'asked' | 'scope'>

export function wishOf (wish: NewWish, identities = USUAL_IDENTITIES): Wish {
  const record = identities.of(wish.route.name, wish.caller, wish.key)
  return {
    ...wish,
    scope: callerText(wish.caller),
    record,
    asked: askedOf(wish.route, wish.target, createHash('sha256').update(wish.body).digest('base64url'))
  }
}

const USUAL_IDENTITIES = new Identities([USUAL], false)

export class Ledger {
  readonly events: HistoryEvent[] = []
  readonly wishes: Wish[] = []
  /** By status, or cut, left, hung. */
  readonly answers = new Map<string, number>()
  /** By the kind of answer. */
  readonly kinds = new Map<string, number>()
  /** Through which gateway's door each call went. */
  readonly doors = new Map<string, number>()
  /** Descriptions of answers that should not exist. */
  readonly strange: string[] = []
  requests = 0
  worstAnswerMs = 0

  ask (wish: Wish, door: number): Ask {
    const call = `call-${++this.requests}`
    this.doors.set(call, door)
    this.events.push({ kind: 'asked', atMs: Date.now(), call, record: wish.record, scope: wish.scope, asked: wish.asked })
    return {
      method: 'POST',
      target: wish.target,
      fields: ['Content-Type', 'application/json', ...fieldsOf(wish.caller), 'Idempotency-Key', wish.key],
      body: wish.body,
      call,
      leavesAfterMs: null
    }
  }

  /** Returns the kind of answer. */
  answered ({ call, target }: Ask, asked: Asked, tookMs: number): string {
    const atMs = Date.now()
    if (typeof asked === 'string') {
      count(this.answers, asked)
      if (asked !== 'hung') this.events.push({ kind: 'cut', atMs, call })
      return asked
    }
    count(this.answers, String(asked.status))
    this.worstAnswerMs = Math.max(this.worstAnswerMs, Math.round(tookMs))
    const told = toldOn(target, asked)
    if (typeof told === 'string') {
      this.strange.push(`${call} was told what nothing allows: ${told}`)
      this.events.push({ kind: 'cut', atMs, call })
      return 'strange'
    }
    count(this.kinds, told.kind)
    this.events.push({ kind: 'told', atMs, call, told })
    return told.kind
  }
}

/** Answers that only one of the two modes can give are errors on a route of the other. */
function toldOn (target: string, answer: WireAnswer): Told | string {
  const told = toldBy(answer)
  if (typeof told === 'string') return told
  const { drop, switches } = routeNamed(target.split(/[/?]/)[1] ?? '')
  if (told.kind === 'accepted' && switches !== true) return 'accepted on a route without an inbox'
  const drops = drop !== undefined
  const strange = drops ? ['replayed', 'tombstone', 'mismatch'].includes(told.kind) : told.kind === 'duplicate'
  return strange ? `${told.kind} on a route that ${drops ? 'drops' : 'does not drop'}` : told
}

/** What the route's fingerprint tells requests apart by. `body`: its hash, as the witness writes it down. */
export function askedOf (route: ChaosRoute, target: string, body: string): string {
  return route.comparesBody ? `${target} ${body}` : target
}
