/** A worker on the test's clock, with a consumer that does what the test says. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { TestContext } from 'node:test'
import { Deliverer } from '../../src/background/deliverer.ts'
import { heartbeat } from '../../src/background/heartbeat.ts'
import { SYSTEM_RANDOM } from '../../src/process/clock.ts'
import type { MessageDetail, NewMessage } from '../../src/core/inbox/message.ts'
import type { GuardedRoute, IdempotencyPolicy, InboxPolicy } from '../../src/core/policy/policy.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { MODES } from '../../src/process/modes.ts'
import { inboxRoutes } from '../../src/gateway/shared/deps.ts'
import type { Deps } from '../../src/gateway/shared/deps.ts'
import { StoreUnavailable } from '../../src/ports/errors.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import type { UpstreamResult } from '../../src/ports/upstream.ts'
import { PromisedUpstream } from '../harness/promised-upstream.ts'
import type { PromisedSending, UpstreamRequest } from '../harness/promised-upstream.ts'
import { subscriptionsThrough } from '../../src/store/shared/inbox-subscriptions.ts'
import { MemoryCounts } from '../../src/store/memory/counts.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { NO_REGISTRY } from '../../src/store/shared/no-registry.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { countingMeter, guardedRoute, recordingLog } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'

export const INBOX: InboxPolicy = {
  concurrency: 4,
  ratePerSecond: null,
  total: { concurrency: null, ratePerSecond: null },
  sign: null,
  retryAfter: { kind: 'route' },
  backoff: { firstMs: 1_000, longestMs: 30_000, scheduleMs: null },
  attemptsMax: 50,
  ageMaxMs: 3_600_000,
  pauseAfterMs: null,
  order: null,
  schedule: { at: null, delay: null, longestMs: 604_800_000 },
  onDead: 'skip',
  deadRetentionMs: 3_600_000,
  depthMax: 1_000,
  bytesMax: 1_000_000,
  keepDeliveredMs: 0,
  keptMax: 1_000,
  keptBytesMax: 1_000_000,
  batch: 'refuse',
  targets: [],
  deadLetter: null
}

export function inboxRoute (
  inbox: Partial<InboxPolicy> = {},
  policy: Partial<IdempotencyPolicy> = {},
  url = 'http://consumer.test',
  name = 'things'
): GuardedRoute {
  return {
    ...guardedRoute(
      url,
      { profile: 'relay', unknown: 'retry', inboxFor: 'all', ...policy, inbox: { ...INBOX, ...inbox } },
      { timeoutMs: 10_000 }
    ),
    name
  }
}

export interface Asked { readonly request: UpstreamRequest, readonly text: string, readonly attempt: number, readonly atMs: number }

/** An answer, or how a sending ended without one. null: no answer ever comes. */
export type Says = UpstreamResult | null

export const says = (status: number, headers: readonly string[] = [], body = ''): UpstreamResult => ({
  kind: 'answer',
  answer: { status, headers, body: Buffer.from(body) }
})
export const REFUSED: UpstreamResult = { kind: 'unsent', code: 'ECONNREFUSED' }
export const RESET: UpstreamResult = { kind: 'lost', code: 'ECONNRESET', timedOut: false, status: null }

export class Consumer extends PromisedUpstream {
  readonly asked: Asked[] = []
  underWay = 0
  mostUnderWay = 0
  /** The time in the connection's queue before the first byte. */
  queued: Promise<void> = Promise.resolve()
  /** What a stream does when the gateway cancels its sending. */
  onCancel: () => void = () => {}
  readonly #clock: ManualClock
  readonly #behave: (asked: Asked) => Says | Promise<Says>

  constructor (clock: ManualClock, behave: (asked: Asked) => Says | Promise<Says> = () => says(204)) {
    super()
    this.#clock = clock
    this.#behave = behave
  }

  get texts (): string[] { return this.asked.map(({ text }) => text) }

  send (request: UpstreamRequest, maySend: () => boolean): PromisedSending {
    const { promise, resolve } = Promise.withResolvers<UpstreamResult>()
    let started = false
    let cancelled: string | null = null
    const start = async (): Promise<void> => {
      await this.queued
      if (cancelled !== null || !maySend()) return resolve({ kind: 'unsent', code: cancelled ?? 'LEASE' })
      started = true
      this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay)
      const asked = {
        request,
        text: request.body.toString(),
        attempt: Number(fieldOf(request, 'Idempotency-Attempt')),
        atMs: this.#clock.monotonicMs()
      }
      this.asked.push(asked)
      const said = await this.#behave(asked)
      if (said !== null) resolve(said)
    }
    void promise.then(() => { if (started) this.underWay-- })
    void start()
    const cancel = (code: string, timedOut: boolean): void => {
      cancelled ??= code
      this.onCancel()
      resolve(started ? { kind: 'lost', code, timedOut, status: null } : { kind: 'unsent', code })
    }
    return { result: promise, cancel }
  }
}

export function fieldOf ({ headers }: UpstreamRequest, name: string): string | undefined {
  const at = headers.indexOf(name)
  return at === -1 ? undefined : headers[at + 1]
}

export async function after (clock: ManualClock, ms: number): Promise<void> {
  await new Promise<void>((resolve) => { clock.after(ms, resolve) })
}

/** The state that all processes of a test share. */
export interface Shared { readonly clock: ManualClock, readonly inbox: MemoryInbox, readonly locks: MemoryLocks }

export function shared (): Shared {
  const clock = new ManualClock()
  return { clock, inbox: new MemoryInbox({ nowMs: clock.wallMs }), locks: new MemoryLocks({ nowMs: clock.wallMs }) }
}

export interface Worker {
  readonly gateway: Gateway
  readonly deliverer: Deliverer
  readonly log: ReturnType<typeof recordingLog>
  readonly counts: Map<string, number>
  /** The number of deliveries of each finished message. */
  readonly tries: readonly number[]
  /** Kills the process: it reaches nothing any more. */
  kill: () => void
  /** Takes its store away, or brings it back. */
  away: boolean
  end: () => Promise<void>
}

export interface WorkerOptions {
  readonly routes?: readonly GuardedRoute[]
  readonly world?: Partial<Deps>
  /** Wraps the store for this process. */
  readonly between?: (inbox: InboxStore) => InboxStore
}

/** For {@link WorkerOptions.between}: one method is another one. */
export function between<Name extends keyof InboxStore> (
  name: Name,
  instead: (inbox: InboxStore) => InboxStore[Name]
): (inbox: InboxStore) => InboxStore {
  return (inbox) => new Proxy(inbox, {
    get: (target, asked) =>
      asked === name ? instead(inbox) : (target[asked as keyof InboxStore] as (...args: unknown[]) => unknown).bind(target)
  })
}

export function startWorker (
  t: TestContext,
  { clock, inbox, locks }: Shared,
  upstream: PromisedUpstream,
  { routes = [inboxRoute()], world = {}, between = (each) => each }: WorkerOptions = {}
): Worker {
  const log = recordingLog()
  const counts = new Map<string, number>()
  const tries: number[] = []
  const worker = { away: false }
  const records = new MemoryStore({ nowMs: clock.wallMs })
  const reached = new Proxy(between(inbox), {
    get: (target, name) => async (...args: unknown[]) => {
      if (worker.away) throw new StoreUnavailable('memory', String(name), false)
      return (target[name as keyof InboxStore] as (...args: unknown[]) => unknown)(...args)
    }
  })
  const gateway = new Gateway({
    records,
    registry: NO_REGISTRY,
    counts: new MemoryCounts(clock.wallMs),
    marks: new RouteMarks(clock.monotonicMs, false),
    locks,
    inbox: reached,
    wakes: subscriptionsThrough(locks),
    upstream,
    tokens: { verify: async () => ({ kind: 'invalid', fault: 'malformed' }) },
    clock,
    // The longest pause that full jitter may draw.
    random: { bytes: (size) => size === 4 ? Buffer.alloc(4, 255) : SYSTEM_RANDOM.bytes(size) },
    meter: {
      ...countingMeter(),
      delivery: (_, result) => { counts.set(result, (counts.get(result) ?? 0) + 1) },
      deliveryTries: (_, count) => { tries.push(count) },
      settleRetried: () => {},
      kept: () => {},
      keptDropped: () => {},
      endpoints: () => {},
      unresolved: () => {},
      arbiterAhead: () => {},
      arbiterStepped: () => {}
    },
    log,
    deliveryLog: { note: (line) => { log.info({ event: 'delivery', ...line }, line.result) } },
    instance: 'test',
    probed: new Map(),
    inboxes: inboxRoutes(routes),
    limits: {
      share: 1,
      executions: 100,
      waiters: 100,
      inFlightPerScope: 0,
      bufferedBytes: 64 * 1024 * 1024,
      unsettledBytes: 1024,
      recentBytes: 0
    },
    claimWithinMs: 2_000,
    longestLeaseMs: 15_000,
    copyTtlMs: 0,
    ...world
  }, MODES)
  void gateway.ids.refresh().catch(() => {})
  const beats = heartbeat(gateway).start()
  const deliverer = new Deliverer(gateway).start()
  const end = async (): Promise<void> => {
    gateway.stop()
    await beats.stop()
    await deliverer.stop()
    assert.equal(gateway.drain.deliveries.size + gateway.limits.buffered.held, 0, 'nothing is held at the end')
  }
  let ended: Promise<void> | null = null
  const endOnce = async (): Promise<void> => { await (ended ??= end()) }
  t.after(endOnce)
  const kill = (): void => {
    worker.away = true
    gateway.stop()
  }
  return Object.assign(worker, { gateway, deliverer, log, counts, tries, kill, end: endOnce })
}

export interface Written {
  readonly group?: string
  readonly tenant?: string
  readonly holds?: boolean
  readonly stops?: boolean
  readonly route?: string
  readonly headers?: readonly string[]
}

export function message (
  text: string,
  { group, tenant, holds = false, stops = false, route = 'things', headers = [] }: Written = {}
): NewMessage {
  const hash = (of: string): Buffer => createHash('sha256').update(of).digest()
  return {
    id: hash(`id ${text}`),
    scheme: FIRST_SCHEME,
    earlierId: null,
    fingerprint: { alg: 1, value: hash(text) },
    scopeHash: hash('scope'),
    tenant: tenant === undefined ? null : hash(`tenant ${tenant}`),
    group: group === undefined ? null : hash(`group ${group}`),
    delayMs: 0,
    holds,
    stops,
    keepMs: 3_600_000,
    deadKeepMs: 3_600_000,
    request: { method: 'POST', target: `/things?of=${text}`, headers: ['Content-Type', 'text/plain', ...headers], body: Buffer.from(text) },
    about: { route, method: 'POST', path: '/things', requestId: `r-${text}`, instance: 'test', keyHash: hash(text), keyText: null }
  }
}

/** Accepts a message in `worker`'s process, and notifies it. */
export async function accept ({ inbox }: Shared, worker: Worker | null, ...messages: readonly NewMessage[]): Promise<void> {
  for (const each of messages) assert.equal((await inbox.accept(each)).kind, 'accepted')
  worker?.gateway.onMessage()
}

export async function detail ({ inbox }: Shared, text: string): Promise<MessageDetail> {
  const found = await inbox.look(message(text).id)
  assert.ok(found !== null)
  return found
}

export async function states ({ inbox }: Shared): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { state } of await inbox.list({ limit: 10_000 })) counts[state] = (counts[state] ?? 0) + 1
  return counts
}
