/**
 * A relay, two gateways on one store, and a consumer, in virtual time: a minute's outage and a time-out of fifteen seconds
 * are exactly that, and cost nothing. The gateways are real from the request's head to the answer's; what is not, stands at
 * their ports: time, the stores in memory, the consumer.
 */
import { createHash } from 'node:crypto'
import { headerValue } from '../../src/core/headers/lines.ts'
import { keyOf } from '../crash/outside.ts'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import type { HandedRequest } from '../harness/handled.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { MODES } from '../../src/process/modes.ts'
import { Steps } from '../../src/gateway/shared/steps.ts'
import { handle } from '../harness/handled.ts'
import { replyTo } from '../../src/http/respond/answer.ts'
import type { Clock } from '../../src/ports/clock.ts'
import { NO_SUBSCRIPTIONS } from '../../src/store/shared/inbox-subscriptions.ts'
import { lazyInbox } from '../../src/store/shared/lazy.ts'
import { MemoryCounts } from '../../src/store/memory/counts.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { NO_REGISTRY } from '../../src/store/shared/no-registry.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { countingMeter, SILENT } from '../harness/gateway.ts'
import { Timeline } from '../harness/timeline.ts'
import { Consumer, messageIn } from './consumer.ts'
import type { Plan } from './consumer.ts'
import { nameOf } from './identities.ts'
import type { Sent } from './identities.ts'
import { deliver } from './stand-ins.ts'
import type { Delivered, Heard, Line, StandIn } from './stand-ins.ts'

/** Of messages, by number: nothing of them is right. All empty: each was executed to success once, and acknowledged. */
export interface Harm { readonly lost: string[], readonly deadLettered: string[], readonly doubled: string[], readonly together: string[] }

export const NO_HARM: Harm = { lost: [], deadLettered: [], doubled: [], together: [] }

/** The second one's first acknowledgement is lost with its relay. */
const MESSAGES = [1, 2]
/** Between two of them, so that they do not all meet a fault at the same point. */
const APART_MS = 700
/** Longer than anything that a gateway still has under way: what it would send now, it would send twice. */
const AFTERWARDS_MS = 10 * 60_000
/** A message that is not through by then never is. */
const LONGEST_MS = 3 * 60 * 60_000

/** `guard` null: the relay asks the consumer itself. */
export async function relayed (
  relay: StandIn,
  guard: GuardedRoute | null,
  plan: Plan
): Promise<Harm & { readonly delivered: readonly Delivered[] }> {
  const timeline = new Timeline()
  const consumer = new Consumer(timeline, plan)
  const post = guard === null ? async (sent: Sent) => askedItself(consumer, sent) : throughGateways(timeline, consumer, guard)
  const line: Line = {
    nowMs: () => timeline.nowMs,
    sleep: async (ms) => timeline.sleep(ms),
    post: async (sent, timeoutMs) => {
      const left = Promise.withResolvers<void>()
      const heard = await Promise.race([post(sent, left.promise), timeline.sleep(timeoutMs).then(() => null)])
      left.resolve()
      return heard
    }
  }
  const delivered: Delivered[] = []
  for (const message of MESSAGES) {
    timeline.after(message * APART_MS, () => {
      void deliver(relay, message, line, { losesAck: message === 2 }).then((end) => { delivered[message - 1] = end })
    })
  }
  await timeline.pass(() => Object.keys(delivered).length === MESSAGES.length, LONGEST_MS)
  await timeline.pass(() => false, AFTERWARDS_MS)
  const those = (are: (message: number) => boolean): string[] => MESSAGES.filter(are).map(nameOf)
  return {
    delivered,
    deadLettered: those((message) => delivered[message - 1]?.as === 'dead letter'),
    lost: those((message) =>
      delivered[message - 1]?.as !== 'dead letter' && !(message - 1 in delivered && consumer.done.has(nameOf(message)))),
    doubled: those((message) => (consumer.done.get(nameOf(message)) ?? 0) > 1),
    together: those((message) => (consumer.together.get(nameOf(message)) ?? 0) > 1)
  }
}

async function askedItself (consumer: Consumer, { body }: Sent): Promise<Heard | null> {
  const result = await consumer.send({ body: Buffer.from(body) }, () => true).result
  return result.kind === 'answer' ? heardOf(result.answer.status, result.answer.headers, result.answer.body) : null
}

function heardOf (status: number, headers: readonly string[], body: Buffer): Heard {
  const seconds = headerValue(headers, 'retry-after')
  return { status, retryAfterMs: seconds === null ? null : Number(seconds) * 1_000, body: body.toString() }
}

// ---------------------------------------------------------------- the gateways

function throughGateways (
  timeline: Timeline,
  consumer: Consumer,
  route: GuardedRoute
): (sent: Sent, left: Promise<void>) => Promise<Heard | null> {
  const nowMs = (): number => timeline.wallMs
  const stores = { records: new MemoryStore({ nowMs }), locks: new MemoryLocks({ nowMs }) }
  const gateways = ['one', 'two'].map((name) => gatewayOf(name, timeline, consumer, route, stores))
  let asked = 0
  // A balancer's turns: a retry meets a process that knows nothing of the first attempt.
  return async (sent, left) => {
    const gateway = gateways[asked++ % gateways.length] as Gateway
    const requestId = `request-${asked}`
    const outcome = await handle(gateway, requestOf(route, sent, requestId, left))
    const { status, headers, body } = replyTo(outcome, {
      route,
      requestId,
      corsRequest: { origin: null, preflighted: false, cors: null },
      problemBaseUri: 'urn:onceway:problem:'
    })
    const whole = typeof body === 'string' ? Buffer.from(body, 'latin1') : body
    if (!Buffer.isBuffer(whole)) throw new Error('the consumer streams nothing')
    return heardOf(status, headers, whole)
  }
}

function gatewayOf (
  name: string,
  timeline: Timeline,
  consumer: Consumer,
  { idempotency: { leaseMs } }: GuardedRoute,
  stores: { readonly records: MemoryStore, readonly locks: MemoryLocks }
): Gateway {
  let drawn = 0
  const clock: Clock = {
    monotonicMs: () => timeline.nowMs,
    wallMs: () => timeline.wallMs,
    bootMs: () => timeline.nowMs,
    after: (ms, call) => timeline.after(ms, call)
  }
  // Without heartbeat and sweeper: no gateway dies here, and nothing lives to the end of its retention.
  const gateway = new Gateway({
    ...stores,
    inbox: lazyInbox('memory').port,
    wakes: NO_SUBSCRIPTIONS,
    registry: NO_REGISTRY,
    counts: new MemoryCounts(clock.wallMs),
    marks: new RouteMarks(() => 0, false),
    upstream: consumer,
    // Every token of the test is this sender's.
    tokens: { verify: async () => ({ kind: 'claims', claims: { sub: 'pusher' } }) },
    clock,
    random: { bytes: (size) => createHash('sha256').update(`${name} ${++drawn}`).digest().subarray(0, size) },
    meter: countingMeter(),
    log: SILENT,
    deliveryLog: { note: () => {} },
    instance: name,
    limits: {
      share: 1,
      executions: 100,
      waiters: 100,
      bufferedBytes: 16 * 1024 * 1024,
      unsettledBytes: 1024 * 1024,
      recentBytes: 1024 * 1024,
      inFlightPerScope: 0
    },
    claimWithinMs: 2_000,
    longestLeaseMs: leaseMs,
    probed: new Map(),
    inboxes: new Map(),
    copyTtlMs: 600_000
  }, MODES)
  void gateway.ids.refresh()
  return gateway
}

function requestOf (route: GuardedRoute, sent: Sent, requestId: string, left: Promise<void>): HandedRequest {
  const body = Buffer.from(sent.body)
  // The test's own: a body without its message would count for none.
  messageIn(body)
  const request = { route, target: route.match.path, rawHeaders: ['Host', 'gateway.test', ...sent.headers] }
  return {
    ...request,
    key: keyOf(request),
    method: 'POST',
    clientCertificate: null,
    forwarded: { for: '127.0.0.1', proto: 'http', host: 'gateway.test', trusted: false },
    peer: null,
    informed: () => {},
    requestId,
    steps: new Steps(),
    readBody: async (bytesMax, budget) => body.length <= bytesMax && budget.reserve(body.length)
      ? { kind: 'body', body }
      : { kind: 'too-large' },
    gone: async () => left
  }
}
