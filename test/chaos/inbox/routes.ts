/**
 * The routes of a run in mode inbox and the gateways' configuration: ordered or not, held or resent, split, for several consumers, kept
 * for replays, scheduled, paused by gateways, and one on which only some clients ask for the inbox. The meaning of an answer to a delivery
 * is repeated here, because the checker must not use the code that it checks.
 */
import type { Disposition } from '../../../src/core/policy/policy.ts'
import { configWith, RETENTION_MS, meaningOf as usualMeaningOf } from '../routes.ts'
import type { GatewayConfig } from '../routes.ts'

export interface InboxRoute {
  readonly name: string
  readonly weight: number
  /** Where the order value is. null: no order. */
  readonly order: 'header' | 'body' | null
  /** A dead or held message stops its group. */
  readonly stops: boolean
  /** What may have been sent is not sent again. */
  readonly holds: boolean
  /** Another body under the same key is another request. Elsewhere another target is. */
  readonly comparesBody: boolean
  readonly keyIn: 'header' | 'body'
  readonly batch: boolean
  /** Accepted only for clients that ask for it. Executed for all others. */
  readonly onWish: boolean
  readonly attemptsMax: number
  readonly ageMaxMs: number
  /** The consumers that it has instead of one. Empty: it has one. */
  readonly targets: readonly Target[]
  /** Its requests are kept after their delivery, for replays. */
  readonly keeps: boolean
  /** A sender may say when a message is due: a time in a header, or a delay in the body. */
  readonly schedules: boolean
  /** Gateways pause it after so long. null: never. */
  readonly pauseAfterMs: number | null
}

/** What the body of a request for several consumers is about. */
export type Topic = typeof TOPICS[number]
export const TOPICS = ['a', 'b', 'c', 'd'] as const

export interface Target {
  readonly name: string
  /** Path and query of its deliveries. null: those of the request. */
  readonly path: string | null
  /** null: it takes every request. */
  readonly topics: readonly Topic[] | null
  /** In order by the body. */
  readonly isOrdered: boolean
  readonly keeps: boolean
}

const USUAL: Omit<InboxRoute, 'name' | 'weight'> = {
  order: null,
  stops: false,
  holds: false,
  comparesBody: false,
  keyIn: 'header',
  batch: false,
  onWish: false,
  attemptsMax: 12,
  ageMaxMs: RETENTION_MS,
  targets: [],
  keeps: false,
  schedules: false,
  pauseAfterMs: null
}

/** Of topic `c` and `d` the first one takes nothing, so another one's message has the id of the request. */
const TARGETS: readonly Target[] = [
  { name: 'books', path: '/books?of=targets', topics: ['a', 'b'], isOrdered: true, keeps: false },
  { name: 'mail', path: '/mail/in', topics: ['b', 'c'], isOrdered: false, keeps: false },
  { name: 'every', path: null, topics: null, isOrdered: true, keeps: true }
]

export const INBOX_ROUTES: readonly InboxRoute[] = [
  { ...USUAL, name: 'ordered', weight: 30, order: 'body' },
  { ...USUAL, name: 'stops', weight: 20, order: 'header', stops: true, keyIn: 'body', attemptsMax: 6 },
  { ...USUAL, name: 'loose', weight: 20, attemptsMax: 1_000, ageMaxMs: 20_000 },
  { ...USUAL, name: 'held', weight: 15, order: 'body', holds: true, comparesBody: true },
  { ...USUAL, name: 'split', weight: 5, order: 'body', keyIn: 'body', batch: true },
  { ...USUAL, name: 'wish', weight: 10, holds: true, comparesBody: true, onWish: true },
  { ...USUAL, name: 'targets', weight: 8, order: 'body', targets: TARGETS },
  { ...USUAL, name: 'kept', weight: 12, order: 'body', keeps: true },
  { ...USUAL, name: 'later', weight: 10, order: 'body', schedules: true },
  { ...USUAL, name: 'fails', weight: 10, attemptsMax: 10_000, pauseAfterMs: 1_500 }
]

/** The first and the longest pause before a redelivery. Retry-After is honoured up to the longest. */
export const BACKOFF_FIRST_MS = 50
export const BACKOFF_LONGEST_MS = 1_000
/** Shorter than the usual lease: what an execution on the route by wish leaves behind lapses within the run. */
const LEASE_MS = 2_000
export const ANSWER_WITHIN_MS = 8_000

const KEPT_MS = 3_600_000

export function inboxRouteNamed (name: string): InboxRoute {
  const found = INBOX_ROUTES.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no route ${name}`)
  return found
}

/**
 * For a delivery, for which no client waits. An answer that a client would get as a kept error is no success.
 * It ends the message on a route on which nothing may be done twice.
 */
export function deliveredBy (status: number, route: Pick<InboxRoute, 'onWish'>): Disposition | 'ends' {
  const meaning = meaningOf(status, route)
  return meaning === 'keep' && (status < 200 || status > 299) && status !== GONE ? 'ends' : meaning
}

/** For an execution: as elsewhere. A consumer that refuses a message for good has given its final answer. */
export function meaningOf (status: number, { onWish }: Pick<InboxRoute, 'onWish'>): Disposition {
  return status === GONE ? 'keep' : usualMeaningOf(status, { profile: onWish ? 'api' : 'relay' })
}

export const GONE = 410

export function inboxConfigOf (config: GatewayConfig): string {
  return configWith(config, { consumer: 64 }, INBOX_ROUTES.map(routeText))
}

/** Of a route with several consumers: the name of the inbox of each (docs/guides/accept-now-deliver-later.md). */
export function inboxNamed ({ name }: InboxRoute, target: Target): string {
  return `${name}::${target.name}`
}

function routeText (route: InboxRoute): string {
  const { name, onWish, holds, comparesBody, keyIn } = route
  const how = onWish
    ? `profile: api, async: allowed, lease: ${LEASE_MS}ms, answerWithin: ${ANSWER_WITHIN_MS}ms`
    : `profile: relay, mode: inbox, unknown: ${holds ? 'hold' : 'retry'}`
  const key = keyIn === 'header' ? 'header:Idempotency-Key' : 'json:/id'
  const compared = comparesBody ? ', fingerprint: { of: [method, target, mediaType, body], body: bytes }' : ''
  return `  - name: ${name}
    match: { path: "/${name}/*" }
    upstream: consumer
    idempotency: { ${how}, scope: credential, retention: ${RETENTION_MS}ms, key: { from: ["${key}"], required: true }${compared}, inbox: { ${inboxText(route)} } }`
}

function inboxText ({ order, stops, batch, attemptsMax, ageMaxMs, targets, keeps, schedules, pauseAfterMs }: InboxRoute): string {
  return [
    // What is ordered is each target's.
    ...order === null || targets.length > 0 ? [] : [order === 'header' ? ORDER_IN_HEADER : ORDER_IN_BODY],
    `onDead: ${stops ? 'stop-group' : 'skip'}`,
    `batch: ${batch ? 'split' : 'refuse'}`,
    `maxAttempts: ${attemptsMax}`,
    `maxAge: ${ageMaxMs}ms`,
    `backoff: { first: ${BACKOFF_FIRST_MS}ms, longest: ${BACKOFF_LONGEST_MS}ms }`,
    ...keeps ? [KEEPS] : [],
    ...schedules ? [SCHEDULES] : [],
    ...pauseAfterMs === null ? [] : [`pauseAfter: ${pauseAfterMs}ms`],
    ...targets.length === 0 ? [] : [`targets: { ${targets.map(targetText).join(', ')} }`]
  ].join(', ')
}

const ORDER_IN_HEADER = 'order: "header:X-Group"'
const ORDER_IN_BODY = 'order: "json:/group"'
const SCHEDULES = 'deliverAt: "header:X-Due", delay: "json:/delay", longestDelay: 1m'
const KEEPS = `keepDelivered: ${KEPT_MS}ms`

function targetText ({ name, path, topics, isOrdered, keeps }: Target): string {
  return `${name}: { ${[
    'upstream: consumer',
    ...path === null ? [] : [`path: "${path}"`],
    ...topics === null ? [] : [`when: { "json:/topic": [${topics.join(', ')}] }`],
    ...isOrdered ? [ORDER_IN_BODY] : [],
    ...keeps ? [KEEPS] : []
  ].join(', ')} }`
}
