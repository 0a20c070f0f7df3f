/**
 * Four relays that differ in everything (a topic without a second chance, an engine that stops, a push with tokens that
 * change, a sidecar that reads bodies) over real connections, with time-outs of a fraction: what they hear, and what their
 * consumer did.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import { call } from '../harness/call.ts'
import { startGateway, upstreamPolicy } from '../harness/gateway.ts'
import { freePort } from '../harness/ports.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { messageIn } from './consumer.ts'
import type { Sent } from './identities.ts'
import { recipes } from './recipes.ts'
import { deliver, STAND_INS } from './stand-ins.ts'
import type { Heard, StandIn } from './stand-ins.ts'

const RECIPES = recipes()
const RELAYS = ['sns', 'debezium', 'pubsub', 'dapr']
const TIMEOUT_MS = 500
const ANSWER_WITHIN_MS = 250
const WAIT_MS = 100
const PAUSE_MS = 10
/** With this delivery the consumer is well again. */
const WELL_FROM = 4

/** One message on its way: a relay, a gateway, and a consumer under one address, there or not. */
class Way {
  readonly port: number
  /** Deliveries so far. */
  delivery = 0
  /** null: the relay gave up waiting. */
  readonly heard: Array<Heard | null> = []
  /** Messages that were executed to success. */
  readonly done: string[] = []
  readonly #trouble: Trouble
  readonly #well = Promise.withResolvers<void>()
  #witness: Witness | null = null

  constructor (port: number, trouble: Trouble) {
    this.port = port
    this.#trouble = trouble
  }

  get isWell (): boolean { return this.delivery >= WELL_FROM }
  get well (): Promise<void> { return this.#well.promise }

  async start (): Promise<void> {
    this.#witness ??= await startWitness(async (...args) => this.#trouble.answer(this, ...args), this.port)
  }

  /** As a kill looks from outside: every socket breaks, and connections are refused. */
  async kill (): Promise<void> {
    const witness = this.#witness
    this.#witness = null
    await witness?.close()
  }

  async next (): Promise<void> {
    this.delivery++
    if (this.isWell) this.#well.resolve()
    await this.#trouble.before?.(this)
  }

  succeed: Behaviour = ({ body }, response) => {
    this.done.push(messageIn(body))
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ status: 'SUCCESS', answer: this.done.length }))
  }
}

interface Trouble {
  /** Before each delivery. */
  readonly before?: (way: Way) => Promise<void>
  readonly answer: (way: Way, ...args: Parameters<Behaviour>) => void | Promise<void>
}

const startsWhenWell = async (way: Way): Promise<void> => { if (way.isWell) await way.start() }
const SLOW: Trouble = {
  answer: async (way, ...args) => {
    await way.well
    await way.succeed(...args)
  }
}
const TROUBLES: Readonly<Record<string, Trouble>> = {
  'is slower than the relay waits': SLOW,
  'is down': {
    before: async (way) => {
      if (way.delivery === 1) await way.kill()
      await startsWhenWell(way)
    },
    answer: (way, ...args) => way.succeed(...args)
  },
  'answers 400 until it is mended': {
    answer: (way, ...args) => {
      if (way.isWell) return way.succeed(...args)
      args[1].writeHead(400).end('a fault of the consumer')
    }
  },
  'is killed while it executes': {
    before: startsWhenWell,
    answer: (way, ...args) => way.isWell ? way.succeed(...args) : way.kill()
  }
}

async function deliverOver (
  t: TestContext,
  relay: StandIn,
  trouble: Trouble,
  over: Partial<GuardedRoute['idempotency']> = {}
): Promise<Way> {
  const recipe = RECIPES.get(relay.route)
  assert.ok(recipe !== undefined)
  const way = new Way(await freePort(), trouble)
  await way.start()
  const idempotency = { ...recipe.idempotency, inFlight: { waitMs: WAIT_MS, status: 503 }, answerWithinMs: ANSWER_WITHIN_MS, ...over }
  const { url, close } = await startGateway(t, {
    routes: [{ ...recipe, upstream: upstreamPolicy(`http://127.0.0.1:${way.port}`), idempotency }],
    world: { tokens: { verify: async () => ({ kind: 'claims', claims: { sub: 'pusher' } }) } }
  })
  t.after(async () => { await way.kill(); await close() })
  const end = await deliver({ ...relay, timeoutMs: TIMEOUT_MS }, 1, {
    nowMs: Date.now,
    // A relay's pause, and a supervisor's.
    sleep: async () => { await pause(PAUSE_MS) },
    post: async (sent, timeoutMs) => {
      await way.next()
      const heard = await post(url + recipe.match.path, sent, timeoutMs)
      way.heard.push(heard)
      return heard
    }
  }, { losesAck: true })
  assert.equal(end.as, 'acknowledged')
  return way
}

async function post (url: string, { headers, body }: Sent, timeoutMs: number): Promise<Heard | null> {
  const fields = Object.fromEntries(headers.flatMap((name, at) => at % 2 === 0 ? [[name, headers[at + 1] ?? '']] : []))
  try {
    const { status, headers: { 'retry-after': seconds }, text } = await call(url, new URL(url).pathname, {
      headers: fields,
      body,
      signal: AbortSignal.timeout(timeoutMs)
    })
    return { status, retryAfterMs: seconds === undefined ? null : Number(seconds) * 1_000, body: text }
  } catch {
    return null
  }
}

for (const relay of STAND_INS.filter(({ route }) => RELAYS.includes(route))) {
  for (const [situation, trouble] of Object.entries(TROUBLES)) {
    test(`${relay.route} hears 503 with Retry-After, and then one answer twice, while its consumer ${situation}`, async (t) => {
      const { heard, done } = await deliverOver(t, relay, trouble)
      assert.deepEqual(done, ['message-1'])
      const answers = heard.filter((answer) => answer !== null)
      const early = answers.slice(0, -2)
      assert.ok(early.length > 0)
      for (const { status, retryAfterMs } of early) assert.deepEqual([status, retryAfterMs !== null && retryAfterMs >= 1_000], [503, true])
      for (const { status, body } of answers.slice(-2)) assert.deepEqual([status, body], [200, '{"status":"SUCCESS","answer":1}'])
    })
  }
}

test('a relay that closes its connections on a slow consumer gets its answer in the end, of the one execution', async (t) => {
  const [sns] = STAND_INS.filter(({ route }) => route === 'sns')
  assert.ok(sns !== undefined)
  const { heard, done } = await deliverOver(t, sns, SLOW, { answerWithinMs: 10_000, inFlight: { waitMs: 10_000, status: 503 } })
  assert.deepEqual(done, ['message-1'])
  assert.deepEqual(heard.slice(0, WELL_FROM - 1), [null, null, null])
})
