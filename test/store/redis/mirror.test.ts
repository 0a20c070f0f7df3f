/** Who shows its beats in one Redis under one installation id: gateways of one database, or of two (store/redis/mirror.ts). */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { RedisMirror } from '../../../src/store/redis/mirror.ts'
import { RedisLocks } from '../../../src/store/redis/locks.ts'
import { connectTopology } from '../../../src/store/redis/connect.ts'
import { markingOf } from '../../conformance/mark-world.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { eventually } from '../../harness/eventually.ts'
import { needs } from '../../harness/needs.ts'
import { startRedis } from '../../harness/redis.ts'
import type { RedisServer } from '../../harness/redis.ts'
import { bareClient, lockOf, LONG_MS, redisOptionsOf } from './world.ts'

/** What a database has of its gateways' beats. */
type Beats = Map<string, number>

class Gateway {
  readonly name = randomBytes(16)
  readonly log = recordingLog()
  readonly strangers: boolean[] = []
  readonly mirror: RedisMirror
  beats: Beats
  #beat = 0

  constructor (t: TestContext, url: string, prefix: string, beats: Beats, shownMs: number) {
    const way = connectTopology({ url, keyPrefix: prefix, commandTimeoutMs: 1_000, log: this.log })
    this.beats = beats
    this.mirror = new RedisMirror({
      topology: way,
      prefix,
      log: this.log,
      shownMs,
      onChange: (stranger) => { this.strangers.push(stranger) }
    })
    t.after(() => { this.mirror.close(); way.close() })
  }

  async look (): Promise<readonly Buffer[]> { return this.mirror.look(this.name) }

  /** `others`: what the look has found. */
  async beatThen (others: readonly Buffer[]): Promise<boolean> {
    this.beats.set(this.name.toString('hex'), ++this.#beat)
    return this.mirror.show({ gateway: this.name, beat: this.#beat }, others.map((other) => this.beats.get(other.toString('hex')) ?? null))
  }

  /** One round of the heartbeat, and what it asks for at once. */
  async round (): Promise<void> {
    if (await this.beatThen(await this.look())) await this.beatThen(await this.look())
  }

  errors (): number { return this.log.lines.filter(({ level }) => level === 'error').length }
}

/** A look and a beat, twice. */
const STEPS = 4

function stepsOf (each: Gateway): Array<() => Promise<void>> {
  let others: readonly Buffer[] = []
  const look = async (): Promise<void> => { others = await each.look() }
  const beat = async (): Promise<void> => { await each.beatThen(others) }
  return [look, beat, look, beat]
}

/** All ways to lay so many steps of the first between so many of the second. */
function ordersOf (first: number, second: number): number[][] {
  if (first === 0 && second === 0) return [[]]
  return [
    ...first === 0 ? [] : ordersOf(first - 1, second).map((rest) => [0, ...rest]),
    ...second === 0 ? [] : ordersOf(first, second - 1).map((rest) => [1, ...rest])
  ]
}

describe('whose Redis it is', needs('redis'), () => {
  let starting: Promise<RedisServer> | null = null
  after(async () => { await (await starting)?.stop() })

  async function world (
    t: TestContext,
    shownMs = LONG_MS
  ): Promise<{ readonly gateway: (beats: Beats) => Gateway, readonly flush: () => Promise<void>, readonly keys: () => Promise<string[]> }> {
    const { url } = await (starting ??= startRedis())
    const prefix = `onceway:${randomBytes(6).toString('hex')}`
    const client = await bareClient(t, url)
    const keys = () => client.keys(`${prefix}:mirror:*`)
    return { gateway: (beats) => new Gateway(t, url, prefix, beats, shownMs), keys, flush: async () => { await client.del(await keys()) } }
  }

  test('gateways of one database begin at once, each with a seat', async (t) => {
    const { gateway, keys } = await world(t)
    const beats: Beats = new Map()
    const all = Array.from({ length: 5 }, () => gateway(beats))
    for (const each of all) {
      assert.equal(each.mirror.open, false)
      await each.round()
      assert.equal(each.mirror.open, true)
    }
    for (let round = 0; round < 3; round++) await Promise.all(all.map((each) => each.round()))
    assert.ok(all.every(({ mirror, log }) => mirror.open && log.lines.every(({ level }) => level === 'info')))
    assert.equal((await keys()).length, 5)
  })

  test('more of them than there are seats: all begin, and Redis holds no more beats than seats', async (t) => {
    const { gateway, keys } = await world(t)
    const beats: Beats = new Map()
    const all = Array.from({ length: 40 }, () => gateway(beats))
    for (const each of all) await each.round()
    assert.ok(all.every(({ mirror }) => mirror.open))
    assert.equal((await keys()).length, 32)
  })

  test('the gateway of a copy stays out, shows nothing, and says so when it is certain; the original never hears of it', async (t) => {
    const { gateway, keys } = await world(t)
    const production: Beats = new Map()
    const original = gateway(production)
    await original.round()
    const copy = gateway(new Map(production))
    await original.round()
    await copy.round()
    assert.equal(copy.mirror.open, false)
    assert.equal(copy.errors(), 0, 'one beat proves nothing yet')
    await original.round()
    for (let round = 0; round < 3; round++) await copy.round()
    assert.deepEqual([copy.mirror.open, copy.errors(), copy.strangers], [false, 1, [true]])
    assert.equal((await keys()).length, 1)
    await original.round()
    assert.deepEqual([original.mirror.open, original.errors()], [true, 0])
  })

  test('of two that begin in the same moment at most one does, in whatever order they look and show', async (t) => {
    for (const order of ordersOf(STEPS, STEPS)) {
      const { gateway } = await world(t)
      const pair = [gateway(new Map()), gateway(new Map())] as const
      const steps = pair.map(stepsOf)
      for (const whose of order) {
        await steps[whose]?.shift()?.()
        assert.ok(!pair.every(({ mirror }) => mirror.open), `in the order ${order.join('')}`)
      }
    }
  })

  test('a failover of the database that forgets a beat costs nothing: the living write anew', async (t) => {
    const { gateway } = await world(t)
    const beats: Beats = new Map()
    const [one, other] = [gateway(beats), gateway(beats)]
    for (const each of [one, other]) await each.round()
    await one.round()
    beats.set(one.name.toString('hex'), 1)
    await other.round()
    assert.equal(other.mirror.open, true, 'it stands ahead of the database once')
    for (let round = 0; round < 3; round++) {
      await one.round()
      await other.round()
    }
    assert.deepEqual([one.mirror.open, other.mirror.open, other.errors()], [true, true, 0])
    beats.set(one.name.toString('hex'), 1)
    const late = gateway(beats)
    await late.round()
    assert.equal(late.mirror.open, false, 'who begins just then waits')
    await one.round()
    await late.round()
    assert.equal(late.mirror.open, true)
  })

  test('a stranger that comes by a Redis in use is found with its second beat; both leave, and who is left alone comes back', async (t) => {
    const { gateway } = await world(t, 1_500)
    const [original, copy] = [gateway(new Map()), gateway(new Map())]
    await original.round()
    // It takes the original for one of its own, as if it had begun while Redis was losing what both had shown.
    const beats = async (beat: number): Promise<void> => {
      await copy.mirror.look(copy.name)
      await copy.mirror.show({ gateway: copy.name, beat }, [Infinity])
    }
    await beats(1)
    await beats(2)
    assert.equal(copy.mirror.open, true)
    await original.round()
    await original.round()
    assert.equal(original.mirror.open, true, 'one beat proves nothing, however often it is seen')
    await beats(3)
    await original.round()
    assert.deepEqual([original.mirror.open, original.errors(), original.strangers], [false, 1, [true]])
    copy.mirror.close()
    await eventually(async () => { await original.round(); return original.mirror.open }, 'the one that is left comes back', 15_000)
    assert.deepEqual(original.strangers, [true, false])
  })

  test('whose beat has vanished shows it again and goes on, unless a stranger was quicker', async (t) => {
    const { gateway, flush } = await world(t)
    const production: Beats = new Map()
    const original = gateway(production)
    await original.round()
    await flush()
    await original.beatThen(await original.look())
    assert.equal(original.mirror.open, true)
    await original.round()
    await flush()
    const copy = gateway(new Map())
    await copy.round()
    assert.equal(copy.mirror.open, true, 'it saw nobody')
    await original.round()
    assert.equal(original.mirror.open, false, 'a stranger where its own beat should stand')
  })

  test('a gateway that has stood still for longer than its beat is shown asks nothing before it has looked', async (t) => {
    const { gateway } = await world(t, 600)
    const original = gateway(new Map())
    await original.round()
    const endsAt = Date.now() + 650
    while (Date.now() < endsAt);
    assert.equal(original.mirror.open, false)
    await original.round()
    assert.equal(original.mirror.open, true)
  })

  test('its beat is shown for as long as it lives, however long its database takes for the next one', async (t) => {
    const { gateway, keys } = await world(t, 1_000)
    const original = gateway(new Map())
    await original.round()
    const endsAt = performance.now() + 2_500
    await eventually(async () => {
      assert.equal((await keys()).length, 1)
      return performance.now() > endsAt
    }, 'more than twice as long has passed', 10_000)
    assert.equal(original.mirror.open, true)
    original.mirror.close()
    await eventually(async () => (await keys()).length === 0, 'it ends with its gateway')
  })

  test('until then nothing of a gateway stands in Redis and nothing is asked of it: no lock, no mark', async (t) => {
    const { url } = await (starting ??= startRedis())
    const options = redisOptionsOf(url, { mirrored: true })
    const store = new RedisLocks(options)
    t.after(() => store.close())
    const id = randomBytes(32)
    const others = await store.mirror?.look(randomBytes(16))
    assert.deepEqual(others, [])
    assert.equal(store.available(), false)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'unavailable' })
    await assert.rejects(store.marks.mark(markingOf(id, randomBytes(16), 'running', LONG_MS)))
    const client = await bareClient(t, url)
    assert.deepEqual((await client.keys(`${options.prefix}:${options.installation}:*`)).filter((key) => !key.includes(':probe:')), [])
    const self = randomBytes(16)
    for (const beat of [1, 2]) {
      await store.mirror?.look(self)
      await store.mirror?.show({ gateway: self, beat }, [])
    }
    assert.equal(store.available(), true)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'locked' })
  })
})
