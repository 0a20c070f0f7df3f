/**
 * A stand-in for every relay: how long it waits, which statuses it takes for success, for "later" and for the last word, how
 * often and when it sends again, and what it does with a message that it has given up. As their documents and sources have
 * it; where they leave something to the receiver's administrator, as docs/guides/webhook-recipes.md says to set it.
 */
import * as send from './identities.ts'
import type { Delivery, Sent } from './identities.ts'

export interface Heard { readonly status: number, readonly retryAfterMs: number | null, readonly body: string }

/** 'given up': dropped or dead-lettered at once, whatever the attempts left. */
export type Reaction = 'acknowledged' | 'again' | 'given up'

export interface StandIn {
  /** The route in docs/guides/webhook-recipes.md. */
  readonly route: string
  readonly send: (delivery: Delivery) => Sent
  /** After that it closes the connection, and the attempt has failed. */
  readonly timeoutMs: number
  readonly reaction: (heard: Heard) => Reaction
  readonly attempts: number
  /** After so many failures. */
  readonly pauseMs: (failures: number) => number
  /** What it makes of Retry-After. Absent: nothing. */
  readonly heeds?: (askedMs: number, pauseMs: number) => number
  /** When its attempts are over: the message is lost to the consumer; or a task stops, and is started again where it stood. */
  readonly then: 'dead letter' | { readonly startsAgainMs: number }
  /** So long after the first attempt a last one may come. */
  readonly horizonMs: number
}

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const every = (ms: number) => (): number => ms
const doubling = (firstMs: number, longestMs: number) => (failures: number): number => Math.min(longestMs, firstMs * 2 ** (failures - 1))
const steps = (...ms: readonly number[]) => (failures: number): number => ms[Math.min(failures, ms.length) - 1] ?? MINUTE

/** Who supervises a task starts it again; its offset stands where it stood. */
const STARTS_AGAIN = { startsAgainMs: 30 * SECOND } as const

const isSuccess = (status: number): boolean => status >= 200 && status <= 299
/** Success, these again, all else is the last word. */
const retrying = (...again: ReadonlyArray<(status: number) => boolean>) => ({ status }: Heard): Reaction =>
  isSuccess(status) ? 'acknowledged' : again.some((is) => is(status)) ? 'again' : 'given up'
const serverErrors = (status: number): boolean => status >= 500
const oneOf = (...statuses: readonly number[]) => (status: number): boolean => statuses.includes(status)
/** Whatever is no success comes again. */
const untilSuccess = retrying(() => true)
/** Acknowledged by these alone. */
const acknowledgedBy = (...statuses: readonly number[]) => ({ status }: Heard): Reaction =>
  statuses.includes(status) ? 'acknowledged' : 'again'

/** 202 is "accepted, not yet processed": taken for an answer all the same. 429 without Retry-After is against the rule. */
function cloudEventsReaction (heard: Heard): Reaction {
  return retrying(serverErrors, oneOf(408, 429))(heard)
}

/** 404 drops; a 2xx is read: SUCCESS or nothing, RETRY, DROP, and every other word is an error. */
function daprReaction ({ status, body }: Heard): Reaction {
  if (status === 404) return 'given up'
  if (!isSuccess(status)) return 'again'
  const said = wordOf(body)
  return said === undefined || said === 'SUCCESS' ? 'acknowledged' : said === 'DROP' ? 'given up' : 'again'
}

function wordOf (body: string): unknown {
  try {
    return (JSON.parse(body) as { readonly status?: unknown }).status
  } catch {
    return undefined
  }
}

export const STAND_INS: readonly StandIn[] = [
  {
    route: 'knative',
    send: send.cloudEventBinary,
    timeoutMs: 30 * SECOND,
    reaction: retrying(serverErrors, oneOf(404, 408, 409, 429)),
    attempts: 13,
    pauseMs: doubling(2 * SECOND, HOUR),
    heeds: (askedMs, pauseMs) => Math.max(askedMs, pauseMs),
    then: 'dead letter',
    horizonMs: DAY
  },
  {
    route: 'cloudevents-webhook',
    send: send.cloudEventStructured,
    timeoutMs: 10 * SECOND,
    reaction: cloudEventsReaction,
    attempts: 12,
    pauseMs: doubling(SECOND, HOUR),
    heeds: (askedMs, pauseMs) => Math.max(askedMs, pauseMs),
    then: 'dead letter',
    horizonMs: DAY
  },
  {
    route: 'standard-webhooks',
    send: send.standardWebhook,
    timeoutMs: 15 * SECOND,
    reaction: ({ status }) => status === 410 ? 'given up' : untilSuccess({ status, retryAfterMs: null, body: '' }),
    attempts: 10,
    pauseMs: steps(5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR),
    heeds: (askedMs, pauseMs) => Math.min(Math.max(askedMs, pauseMs), 2 * pauseMs),
    then: 'dead letter',
    horizonMs: 76 * HOUR
  },
  {
    route: 'debezium',
    send: send.debezium,
    timeoutMs: MINUTE,
    reaction: untilSuccess,
    attempts: 5,
    pauseMs: every(SECOND),
    then: STARTS_AGAIN,
    horizonMs: Infinity
  },
  {
    route: 'aiven-http-sink',
    send: send.recordValue,
    timeoutMs: 30 * SECOND,
    reaction: ({ status }) => status < 400 ? 'acknowledged' : 'again',
    attempts: 2,
    pauseMs: every(3 * SECOND),
    then: STARTS_AGAIN,
    horizonMs: Infinity
  },
  {
    route: 'confluent-http-sink',
    send: send.recordValue,
    timeoutMs: 30 * SECOND,
    reaction: untilSuccess,
    attempts: 11,
    pauseMs: every(3 * SECOND),
    then: STARTS_AGAIN,
    horizonMs: Infinity
  },
  {
    route: 'flink-http-sink',
    send: send.recordValue,
    timeoutMs: 30 * SECOND,
    reaction: retrying(oneOf(500, 503, 504)),
    attempts: 1,
    pauseMs: every(SECOND),
    then: STARTS_AGAIN,
    horizonMs: Infinity
  },
  {
    route: 'sns',
    send: send.sns,
    timeoutMs: 15 * SECOND,
    reaction: retrying(serverErrors),
    attempts: 51,
    pauseMs: (failures) => (20 + failures) * SECOND,
    then: 'dead letter',
    horizonMs: HOUR
  },
  {
    route: 'eventbridge',
    send: send.eventBridge,
    timeoutMs: 5 * SECOND,
    reaction: retrying(serverErrors, oneOf(429)),
    attempts: 185,
    pauseMs: doubling(SECOND, 10 * MINUTE),
    heeds: (askedMs, pauseMs) => Math.max(askedMs, pauseMs),
    then: 'dead letter',
    horizonMs: DAY
  },
  {
    route: 'eventbridge-pipes',
    send: send.pipes,
    timeoutMs: 5 * SECOND,
    reaction: retrying(serverErrors, oneOf(429)),
    attempts: 1_000,
    pauseMs: every(30 * SECOND),
    then: 'dead letter',
    horizonMs: 14 * DAY
  },
  {
    route: 'sqsd',
    send: send.sqsd,
    timeoutMs: 299 * SECOND,
    reaction: acknowledgedBy(200),
    attempts: 1_000,
    pauseMs: every(2 * SECOND),
    then: 'dead letter',
    horizonMs: 14 * DAY
  },
  {
    route: 'pubsub',
    send: send.pubSub,
    timeoutMs: 10 * SECOND,
    reaction: acknowledgedBy(102, 200, 201, 202, 204),
    attempts: 100,
    pauseMs: doubling(10 * SECOND, 10 * MINUTE),
    then: 'dead letter',
    horizonMs: 31 * DAY
  },
  {
    route: 'event-grid',
    send: send.eventGrid,
    timeoutMs: 30 * SECOND,
    reaction: ({ status }) =>
      status >= 200 && status <= 204 ? 'acknowledged' : [400, 401, 403, 404, 413, 414].includes(status) ? 'given up' : 'again',
    attempts: 30,
    pauseMs: steps(30 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR),
    then: 'dead letter',
    horizonMs: DAY
  },
  {
    route: 'cloud-tasks',
    send: send.cloudTasks,
    timeoutMs: 10 * MINUTE,
    reaction: untilSuccess,
    attempts: 100,
    pauseMs: doubling(SECOND / 10, HOUR),
    heeds: (askedMs, pauseMs) => Math.max(askedMs, pauseMs),
    then: 'dead letter',
    horizonMs: 31 * DAY
  },
  {
    route: 'dapr',
    send: send.cloudEventStructured,
    timeoutMs: MINUTE,
    reaction: daprReaction,
    attempts: 1_000,
    pauseMs: every(MINUTE),
    then: 'dead letter',
    horizonMs: 7 * DAY
  },
  {
    route: 'shopify',
    send: send.shopify,
    timeoutMs: 5 * SECOND,
    reaction: untilSuccess,
    attempts: 9,
    pauseMs: steps(10 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 40 * MINUTE, HOUR, 100 * MINUTE),
    then: 'dead letter',
    horizonMs: 4 * HOUR
  },
  // Never again by itself; somebody presses "Redeliver".
  {
    route: 'github',
    send: send.gitHub,
    timeoutMs: 10 * SECOND,
    reaction: retrying(),
    attempts: 1,
    pauseMs: every(0),
    then: { startsAgainMs: 5 * MINUTE },
    horizonMs: 3 * DAY
  },
  {
    route: 'outpost',
    send: send.outpost,
    timeoutMs: 5 * SECOND,
    reaction: untilSuccess,
    attempts: 11,
    pauseMs: doubling(30 * SECOND, 12 * HOUR),
    then: 'dead letter',
    horizonMs: DAY
  },
  {
    route: 'stripe',
    send: send.stripe,
    timeoutMs: 10 * SECOND,
    reaction: untilSuccess,
    attempts: 16,
    pauseMs: doubling(5 * MINUTE, 6 * HOUR),
    then: 'dead letter',
    horizonMs: 3 * DAY
  },
  {
    route: 'dialpad',
    send: send.dialpad,
    timeoutMs: 5 * SECOND,
    reaction: retrying(serverErrors),
    attempts: 10,
    pauseMs: doubling(5 * SECOND, HOUR),
    then: 'dead letter',
    horizonMs: DAY
  }
]

export interface Line {
  readonly nowMs: () => number
  readonly sleep: (ms: number) => Promise<void>
  /** null: no answer within `timeoutMs`, and the connection is closed; or none at all. */
  readonly post: (sent: Sent, timeoutMs: number) => Promise<Heard | null>
}

/** `stops`: how often its task had to be started again. */
export interface Delivered { readonly as: 'acknowledged' | 'dead letter', readonly attempts: number, readonly stops: number }

/** One message to its end, as its relay does it. `losesAck`: the relay dies once before it has noted its success. */
export async function deliver (relay: StandIn, message: number, line: Line, { losesAck = false } = {}): Promise<Delivered> {
  const firstAtMs = line.nowMs()
  let [attempt, failures, stops, forgets] = [0, 0, 0, losesAck]
  for (;;) {
    const heard = await line.post(relay.send({ message, attempt: ++attempt, nowMs: line.nowMs() }), relay.timeoutMs)
    const reaction = heard === null ? 'again' : relay.reaction(heard)
    if (reaction === 'acknowledged' && !forgets) return { as: 'acknowledged', attempts: attempt, stops }
    if (reaction === 'acknowledged') forgets = false
    else failures++
    const over = reaction === 'given up' || failures >= relay.attempts
    if (line.nowMs() - firstAtMs > relay.horizonMs || (over && relay.then === 'dead letter')) {
      return { as: 'dead letter', attempts: attempt, stops }
    }
    if (over && relay.then !== 'dead letter') {
      [failures, stops] = [0, stops + 1]
      await line.sleep(relay.then.startsAgainMs)
    } else {
      const pauseMs = relay.pauseMs(Math.max(1, failures))
      await line.sleep(heard?.retryAfterMs == null ? pauseMs : relay.heeds?.(heard.retryAfterMs, pauseMs) ?? pauseMs)
    }
  }
}
