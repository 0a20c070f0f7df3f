/**
 * One outage: two gateways on a Postgres and a Redis of their own, messages that keep arriving, and a consumer that takes
 * them, breaks off every delivery, says nothing at all, and is back. Ends when everything that was accepted was taken.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { Random } from '../../chaos/random.ts'
import { metricsOf, totalOf } from '../../e2e/metrics.ts'
import { eventually } from '../../harness/eventually.ts'
import type { GatewayProcess } from '../gateway-process.ts'
import { startStand, stoppingAll } from '../stand.ts'
import type { AtEnd } from '../stand.ts'
import { OutageConsumer } from './consumer.ts'
import type { Seen } from './consumer.ts'
import { wrongsOf } from './judge.ts'
import type { RoutePace, Wrong } from './judge.ts'

export interface OutageOptions {
  /** How long the consumer is down: half of it refusing, half of it silent. */
  readonly seconds: number
  /** Messages a second over both gateways and both routes, from the beginning until the consumer is back. */
  readonly rate: number
  readonly seed: number
  /** A break of test/broken; null: the gateway as it is. */
  readonly broken: string | null
}

export interface OutageResult {
  readonly options: OutageOptions
  /** By the number of the message; {@link Seen}'s clock. */
  readonly acceptedAtMs: readonly number[]
  readonly seen: readonly Seen[]
  readonly beganAtMs: number
  readonly endedAtMs: number
  readonly wrongs: readonly Wrong[]
  /** What made the run itself no proof: refused messages, a gateway that ended. */
  readonly trouble: readonly string[]
}

/** One with nothing but its places, one with a rate below what they would give. */
export const PACES: readonly RoutePace[] = [
  { route: 'free', concurrency: 8, ratePerSecond: null },
  { route: 'paced', concurrency: 8, ratePerSecond: 20 }
]
/** Of the messages: in one of so many groups. */
const ORDERED_SHARE = 1 / 3
const GROUPS = 20
/** Before the outage: connections are open, and code is compiled. */
const WARM_UP_MS = 2_000
const TICK_MS = 10
/** A delivery that is not answered is over after this: some within a minute of silence, and none that only a busy machine holds up. */
const TIMEOUT_MS = 10_000
/** Of a message that has failed often: the drain's last ones wait so long. */
const BACKOFF_LONGEST_MS = 10_000
const DRAIN_MS_MAX = 300_000
/** Three halve eight places down to one; as many again for successes that came between them. */
const FAILURES_TO_KNOW = 6
const NOTICED_MS_MAX = 60_000
const CONNECTIONS = 32
/** Between two tries of a sender who was turned away: a busy machine's store is not always there within two seconds. */
const COME_BACK_MS = 200
const TRIES_MAX = 50

const ROUTES = PACES.map(({ route, concurrency, ratePerSecond }) => `  - name: ${route}
    match: { path: "/${route}", methods: [POST] }
    upstream: consumer
    idempotency:
      mode: inbox
      profile: relay
      scope: public
      key: { from: ["header:Idempotency-Key"], required: true }
      inbox: { order: "header:X-Group", concurrency: ${concurrency}, ${ratePerSecond === null ? '' : `rate: ${ratePerSecond}, `}backoff: { first: 1s, longest: ${BACKOFF_LONGEST_MS}ms }, maxAttempts: 1000 }`).join('\n')

export async function runOutage (options: OutageOptions): Promise<OutageResult> {
  return stoppingAll(async (atEnd) => outage(options, atEnd))
}

async function outage (options: OutageOptions, atEnd: AtEnd): Promise<OutageResult> {
  const { seconds, seed, broken } = options
  const random = new Random(seed)
  const consumer = await OutageConsumer.start(random.fork('consumer'))
  atEnd(() => consumer.stop())
  const upstreamOf = (gateway: string): string =>
    `consumer: { url: "${consumer.url}", timeout: ${TIMEOUT_MS}ms, requestHeaders: { X-Gateway: ${gateway} } }`
  const { gateways } = await startStand({ name: 'outage', broken, upstreamOf, routes: ROUTES }, atEnd)
  const senders = new Senders(gateways.map(({ url }) => url), options.rate, random.fork('senders'))
  atEnd(() => senders.close())
  const beganAtMs = performance.now()
  await act(consumer, senders, gateways, seconds)
  const trouble = [...senders.trouble, ...gateways.flatMap((gateway) => gateway.trouble() ?? [])]
  const { seen } = consumer
  return {
    options,
    acceptedAtMs: senders.acceptedAtMs,
    seen,
    beganAtMs,
    endedAtMs: performance.now(),
    trouble,
    wrongs: wrongsOf(seen, Array.from(senders.acceptedAtMs.keys()), PACES)
  }
}

async function act (consumer: OutageConsumer, senders: Senders, gateways: readonly GatewayProcess[], seconds: number): Promise<void> {
  const halfMs = seconds * 500
  senders.start()
  await pause(WARM_UP_MS)
  consumer.become('refusing')
  await pause(halfMs)
  await eventually(
    async () => (await Promise.all(gateways.map(knowsThatItIsDown))).every(Boolean),
    'every process knows that the consumer is down',
    NOTICED_MS_MAX
  )
  consumer.become('silent')
  await pause(halfMs)
  consumer.become('after')
  await senders.stop()
  const untilMs = performance.now() + DRAIN_MS_MAX
  while (senders.trouble.length === 0 && consumer.taken < senders.acceptedAtMs.length && performance.now() < untilMs) await pause(TICK_MS)
}

/** Without it an outage of seconds, on a machine that is busy, is none to a process that was not there. */
async function knowsThatItIsDown ({ adminUrl }: GatewayProcess): Promise<boolean> {
  const metrics = await metricsOf(adminUrl)
  return PACES.every(({ route }) => totalOf(metrics, `onceway_inbox_deliveries_total{route="${route}",result="again"}`) >= FAILURES_TO_KNOW)
}

/** So many a second, each to the next gateway and route, whatever becomes of it. */
class Senders {
  /** NaN: it was not. */
  readonly acceptedAtMs: number[] = []
  readonly trouble: string[] = []
  readonly #pools: readonly Pool[]
  readonly #everyMs: number
  readonly #random: Random
  readonly #underWay = new Set<Promise<void>>()
  /** A group's messages go one after another: who is accepted later is the later one. */
  readonly #groups = new Map<number, Promise<void>>()
  #timer: NodeJS.Timeout | null = null
  #sentUntilMs = 0

  constructor (urls: readonly string[], rate: number, random: Random) {
    this.#pools = urls.map((url) => new Pool(url, { connections: CONNECTIONS }))
    this.#everyMs = 1_000 / rate
    this.#random = random
  }

  start (): void {
    this.#sentUntilMs = performance.now()
    this.#timer = setInterval(() => {
      for (; this.#sentUntilMs < performance.now(); this.#sentUntilMs += this.#everyMs) this.#begin(this.acceptedAtMs.push(NaN) - 1)
    }, TICK_MS)
  }

  async stop (): Promise<void> {
    clearInterval(this.#timer ?? undefined)
    await Promise.all(this.#underWay)
  }

  async close (): Promise<void> {
    clearInterval(this.#timer ?? undefined)
    await Promise.all(this.#pools.map(async (pool) => pool.destroy()))
  }

  #begin (message: number): void {
    const group = this.#random.chance(ORDERED_SHARE) ? this.#random.between(0, GROUPS - 1) : null
    const before = group === null ? Promise.resolve() : this.#groups.get(group) ?? Promise.resolve()
    // The group decides the route: an order is that of one route's messages.
    const { route } = PACES[(group ?? message) % PACES.length] as RoutePace
    const sent: Promise<void> = before.then(async () => this.#send(message, route, group)).finally(() => { this.#underWay.delete(sent) })
    this.#underWay.add(sent)
    if (group !== null) this.#groups.set(group, sent)
  }

  /** Comes again with the same key until it is accepted, as senders do. */
  async #send (message: number, route: string, group: number | null): Promise<void> {
    const pool = this.#pools[message % this.#pools.length] as Pool
    let said = ''
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      said = await this.#ask(pool, message, route, group)
      if (said === '202') {
        this.acceptedAtMs[message] = performance.now()
        return
      }
      await pause(COME_BACK_MS)
    }
    this.trouble.push(`message ${message} was never accepted: ${said}`)
  }

  async #ask (pool: Pool, message: number, route: string, group: number | null): Promise<string> {
    try {
      const { statusCode, body } = await pool.request({
        method: 'POST',
        path: `/${route}?message=${message}${group === null ? '' : `&group=${group}`}`,
        headers: { 'idempotency-key': `outage-${message}`, ...group === null ? {} : { 'x-group': String(group) } },
        body: `message ${message}`
      })
      await body.dump()
      return String(statusCode)
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }
}
