/** Events of the operator API: each has a whole state, and comes again when it has changed. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { request as send, type ClientRequest } from 'node:http'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import Fastify, { type FastifyInstance } from 'fastify'
import { addEvents } from '../../../src/http/api/events.ts'
import type { Operator } from '../../../src/http/sign-in/authenticated.ts'
import type { OperationContext } from '../../../src/operator/context.ts'
import { claimOf, resolutionOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { DEAD, messageOf, takeFrom, workerOf } from '../../conformance/inbox-world.ts'
import { eventually } from '../../harness/eventually.ts'
import { TOKENS, World } from './world.ts'

class Ear {
  readonly heard: Array<{ name: string, data: Record<string, unknown> }> = []
  isOver = false
  readonly #abort = new AbortController()

  static async listen (t: TestContext, { url }: World, token: string = TOKENS.viewer): Promise<Ear> {
    const ear = new Ear()
    t.after(() => { ear.#abort.abort() })
    const response = await fetch(`${url}/api/v1/events`, { headers: { authorization: `Bearer ${token}` }, signal: ear.#abort.signal })
    assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'text/event-stream'])
    void ear.#read(response)
    return ear
  }

  last (name: string): Record<string, unknown> | undefined {
    return this.heard.findLast((event) => event.name === name)?.data
  }

  async #read (response: Response): Promise<void> {
    const decoder = new TextDecoder()
    let text = ''
    try {
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk as Uint8Array, { stream: true })
        const events = text.split('\n\n')
        text = events.pop() ?? ''
        for (const event of events) {
          const [, name, data] = /^event: (.+)\ndata: (.+)$/.exec(event) ?? []
          if (name !== undefined && data !== undefined) this.heard.push({ name, data: JSON.parse(data) as Record<string, unknown> })
        }
      }
    } catch {}
    this.isOver = true
  }
}

test('unknown outcomes, dead letters and the promise are told at once, and again when they change', async (t) => {
  const world = await World.open(t)
  const ear = await Ear.listen(t, world)
  await eventually(async () => ear.heard.length === 4, 'the states at the beginning')
  assert.deepEqual([ear.last('unknown-outcomes')?.count, ear.last('dead-letters')?.count, ear.last('promise')?.promise], [0, 0, 'strict'])
  const claim = claimOf()
  await world.store.insert(claim)
  await world.store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
  await eventually(async () => ear.last('unknown-outcomes')?.count === 1, 'the unknown outcome')
  const owner = await workerOf(world.store.inbox)
  await world.store.inbox.accept(messageOf({ route: 'hooks' }))
  for (const { token } of await takeFrom(world.store.inbox, owner, 1, 'hooks')) await world.store.inbox.settle(token, DEAD)
  world.readiness = { ...world.readiness, durability: { promise: 'weakened', reasons: ['fsync-off'], remarks: [] } }
  await eventually(async () => ear.last('dead-letters')?.count === 1 && ear.last('promise')?.promise === 'weakened', 'the other two')
  await world.store.operator.pause('hooks', { who: 'ada', why: 'a window' })
  await eventually(async () => ear.last('paused-inboxes')?.count === 1, 'the pause')
  await world.store.resolve(resolutionOf(tokenOf(claim), 'completed'))
  await eventually(async () => ear.last('unknown-outcomes')?.count === 0, 'the resolution')
  const late = await Ear.listen(t, world)
  await eventually(async () => late.heard.length === 4, 'the states for one who comes later')
  assert.equal(late.last('dead-letters')?.count, 1)
})

test('the stream of a token that is taken back ends, and nobody else is told anything else', async (t) => {
  const world = await World.open(t)
  const [taken, other] = await Promise.all([Ear.listen(t, world, TOKENS.operator), Ear.listen(t, world)])
  await eventually(async () => taken.heard.length === 4, 'the states at the beginning')
  const lines = readFileSync(world.tokensFile, 'utf8').split('\n')
  writeFileSync(world.tokensFile, lines.filter((line) => !line.startsWith('operator@')).join('\n'))
  await world.processClock.advance(2_000)
  await eventually(async () => taken.isOver, 'the end of its stream')
  const claim = claimOf()
  await world.store.insert(claim)
  await world.store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
  await eventually(async () => other.last('unknown-outcomes')?.count === 1, 'what the other one is told')
  assert.equal(taken.heard.length, 4)
})

test('the promise is told while a store does not answer', async (t) => {
  const world = await World.open(t)
  const ear = await Ear.listen(t, world)
  await eventually(async () => ear.heard.length === 4, 'the states at the beginning')
  world.store.operator.unknownByRoute = async () => new Promise(() => {})
  world.readiness = { ...world.readiness, status: 'degraded', degraded: ['postgres'] }
  await eventually(async () => ear.last('promise')?.status === 'degraded', 'the change')
  world.readiness = { ...world.readiness, status: 'ready', degraded: [] }
  await eventually(async () => ear.last('promise')?.status === 'ready', 'the change back')
})

test('so many may listen, and the streams end with the port', async (t) => {
  const world = await World.open(t)
  const ears = await Promise.all(Array.from({ length: 50 }, () => Ear.listen(t, world)))
  assert.equal((await world.get('/events')).status, 429)
  await world.admin.close()
  await eventually(async () => ears.every(({ isOver }) => isOver), 'the end of all streams')
})

const VIEWER: Operator = {
  kind: 'operator', identity: { name: 'v', via: 'token', role: 'viewer' }, ambient: false, csrfToken: null, expiresAtMs: null
}

/** The route alone, with timers that the test moves. */
async function startDesk (t: TestContext, context: () => Promise<OperationContext>): Promise<{ desk: FastifyInstance, url: string }> {
  const desk = Fastify({ forceCloseConnections: true })
  addEvents(desk, {
    context,
    listener: async () => VIEWER,
    sendProblem: (reply) => reply.code(500).send('')
  })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const url = await desk.listen({ host: '127.0.0.1', port: 0 })
  t.after(async () => {
    t.mock.timers.reset()
    await desk.close()
  })
  return { desk, url }
}

/** A client that reads nothing. */
async function connect (t: TestContext, url: string): Promise<ClientRequest> {
  return new Promise((resolve, reject) => {
    const request = send(`${url}/events`, { agent: false })
    t.after(() => { request.destroy() })
    request.on('response', () => { resolve(request) }).on('error', reject).end()
  })
}

/** While timers stand still. */
async function soon (holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const endsAt = Date.now() + 5_000
  while (!await holds()) {
    if (Date.now() > endsAt) throw new Error(`never came true: ${what}`)
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}

async function connectionsOf ({ server }: FastifyInstance): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => { if (error === null) resolve(count); else reject(error) })
  })
}

test('who leaves and comes back while a round is running is told at its end, and one round follows another', async (t) => {
  let asked = 0
  const slow = Promise.withResolvers<void>()
  const { desk, url } = await startDesk(t, async () => {
    if (++asked === 1) await slow.promise
    return {} as OperationContext
  })
  const first = await connect(t, url)
  t.mock.timers.tick(0)
  await soon(() => asked === 1, 'the first round')
  first.destroy()
  await soon(async () => await connectionsOf(desk) === 0, 'the end of its stream')
  await connect(t, url)
  // A second loop would ask beside the first.
  t.mock.timers.tick(0)
  await new Promise((resolve) => { setImmediate(resolve) })
  assert.equal(asked, 1)
  slow.resolve()
  await soon(() => {
    t.mock.timers.tick(0)
    return asked === 2
  }, 'a round for the one who came back')
  for (let round = 3; round < 8; round++) {
    await settled()
    t.mock.timers.tick(2_000)
    await soon(() => asked >= round, 'the next round')
    await settled()
    assert.equal(asked, round)
  }
})

/** Time for a round to end, and for others to begin. */
async function settled (): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => { setImmediate(resolve) })
}

test('a listener that reads nothing is left at a heartbeat too', async (t) => {
  let asked = 0
  const { desk, url } = await startDesk(t, async () => {
    asked++
    const reason = 'x'.repeat(16 * 1024 * 1024)
    return { gateway: { readiness: async () => ({ status: 'degraded', degraded: [], reason, durability: null }) } } as never
  })
  const { now } = performance
  let offMs = 0
  t.mock.method(performance, 'now', () => now.call(performance) + offMs)
  await connect(t, url)
  t.mock.timers.tick(0)
  await soon(() => asked === 1, 'the first round')
  await settled()
  assert.equal(await connectionsOf(desk), 1)
  offMs = 20_000
  t.mock.timers.tick(2_000)
  await soon(async () => await connectionsOf(desk) === 0, 'the end of its stream')
})
