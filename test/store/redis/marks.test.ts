/**
 * Marks in Redis pass the suites of their port, on a real server and in a cluster; and what only they have: keys,
 * rights, an error rate.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, test, type TestContext } from 'node:test'
import type { Redis } from 'ioredis'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import type { Marking, MarkResult } from '../../../src/ports/marks.ts'
import { RedisLocks } from '../../../src/store/redis/locks.ts'
import type { RedisOptions } from '../../../src/store/redis/locks.ts'
import { RedisMarks } from '../../../src/store/redis/marks.ts'
import type { MarkTopology } from '../../../src/store/redis/marks.ts'
import { endingOf, markingOf } from '../../conformance/mark-world.ts'
import type { FilterOptions, FilterWorld } from '../../conformance/mark-world.ts'
import { filterConformance, markStoreConformance, measuredErrors } from '../../conformance/marks.ts'
import { needs } from '../../harness/needs.ts'
import { startRedisCluster } from '../../harness/redis-cluster.ts'
import type { RedisCluster } from '../../harness/redis-cluster.ts'
import { startRedis, type RedisServer } from '../../harness/redis.ts'
import { bareClient, redisOptionsAt, redisOptionsOf, untilAvailable } from './world.ts'

/** Long enough for what a test does within one window, short enough to wait for the next. */
const WINDOW_MS = 1_000
const YEAR_MS = 366 * 24 * 3_600_000
const TOKEN = Buffer.alloc(16, 1)
const PAGE = readFileSync(new URL('../../../docs/guides/deploy-with-redis.md', import.meta.url), 'utf8')

async function ready (t: TestContext, options: RedisOptions): Promise<RedisLocks> {
  const store = new RedisLocks(options)
  t.after(() => store.close())
  await untilAvailable(store)
  return store
}

/** By the server's clock: the first moment of a window is soon after its number has changed. */
async function filterOf (t: TestContext, url: string, options: FilterOptions): Promise<FilterWorld> {
  const given = redisOptionsOf(url, { commandTimeoutMs: 5_000 })
  const [one, two] = await Promise.all([ready(t, given), ready(t, given)])
  const client = await bareClient(t, url)
  const windowNow = async () => {
    const [seconds, micros] = await client.time()
    return Math.floor((Number(seconds) * 1000 + Number(micros) / 1000) / WINDOW_MS)
  }
  const plan = { route: 'events', windowMs: WINDOW_MS, ...options }
  return {
    store: one.filter(plan),
    second: two.filter(plan),
    nextWindow: async (windows) => {
      for (const target = await windowNow() + windows; await windowNow() < target;) {
        await new Promise((resolve) => { setTimeout(resolve, 20) })
      }
    }
  }
}

const markKey = ({ prefix, installation }: RedisOptions, id: Buffer): string => `${prefix}:${installation}:mark:${id.toString('base64url')}`

/** Of a build that knows no schemes. */
const MARK_BEFORE = `
local value = redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3], 'NX', 'GET')
if not value then return 0 end
if string.sub(value, 2) == ARGV[2] then
  if string.sub(value, 1, 1) == 'R' then redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3]) end
  return 0
end
if string.sub(value, 1, 1) == 'D' then return 2 end
return 1
`

/** Every order of so many steps of each. */
function ordersOf (steps: Readonly<Record<string, number>>): string[][] {
  const left = Object.keys(steps).filter((name) => (steps[name] ?? 0) > 0)
  return left.length === 0
    ? [[]]
    : left.flatMap((name) => ordersOf({ ...steps, [name]: (steps[name] ?? 0) - 1 }).map((order) => [name, ...order]))
}

/** Marks an event and ends it, one command at a time. */
class Walker {
  found: MarkResult | null = null
  #arrived = Promise.withResolvers<void>()
  #go = Promise.withResolvers<void>()
  #over = false
  readonly #walk: Promise<void>

  /** `holders`: who may send the event just now, or has. */
  constructor (client: Redis, prefix: string, name: string, marking: Marking, end: 'done' | 'remove', holders: Set<string>) {
    const call: MarkTopology['call'] = async ({ script, keys, values }) => {
      this.#arrived.resolve()
      await this.#go.promise
      this.#go = Promise.withResolvers()
      return client.eval(script, keys.length, ...keys, ...values)
    }
    this.#walk = this.#run(new RedisMarks({ available: () => true, call }, prefix), name, marking, end, holders).finally(() => {
      this.#over = true
      this.#arrived.resolve()
    })
  }

  /** Until its next command is to be sent. */
  async step (): Promise<void> {
    await this.#arrived.promise
    if (this.#over) return
    this.#arrived = Promise.withResolvers()
    this.#go.resolve()
    await this.#arrived.promise
  }

  async finish (): Promise<void> {
    while (!this.#over) await this.step()
    await this.#walk
  }

  async #run (marks: RedisMarks, name: string, marking: Marking, end: 'done' | 'remove', holders: Set<string>): Promise<void> {
    this.found = await marks.mark(marking)
    if (this.found !== 'marked') return
    assert.deepEqual(Array.from(holders), [], `${name} has it too`)
    holders.add(name)
    if (end === 'done') return marks.done(marking)
    holders.delete(name)
    await marks.remove(marking.id, marking.token)
  }
}

describe('marks in Redis', needs('redis'), () => {
  let started: Promise<RedisServer> | null = null
  const server = () => { started ??= startRedis(); return started }
  after(async () => { await (await started)?.stop() })

  markStoreConformance('redis', async (t) => {
    const options = redisOptionsOf((await server()).url)
    const [one, two] = await Promise.all([ready(t, options), ready(t, options)])
    return { store: one.marks, second: two.marks }
  })

  filterConformance('redis', async (t, options) => filterOf(t, (await server()).url, options))

  /** As in memory: three times the binomial's standard deviation of 10,000 askings; the same ids in every run. */
  test('both windows full, the filter takes new events for duplicates as rarely as it was told to', async (t) => {
    const { url } = await server()
    const options = { capacity: 10_000, errorRate: 0.01 }
    const given = redisOptionsOf(url, { commandTimeoutMs: 5_000 })
    const store = (await ready(t, given)).filter({ route: 'events', windowMs: YEAR_MS, ...options })
    const client = await bareClient(t, url)
    // Nobody waits for a window's end: what was this window's becomes the one before's.
    const nextWindow = async () => {
      const [key] = await client.keys(`${given.prefix}:${given.installation}:bloom:*`)
      if (key !== undefined) await client.rename(key, key.endsWith(':0') ? key.replace(/0$/, '1') : key.replace(/1$/, '0'))
    }
    const taken = await measuredErrors({ store, nextWindow }, options, 'redis', 10_000)
    assert.ok(taken <= 100 + 30 && taken >= 100 - 60, `${taken} of 10,000`)
  })

  test('two filters of a fixed size are all that it takes, and they end by themselves', async (t) => {
    const { url } = await server()
    const options = redisOptionsOf(url)
    const filter = (await ready(t, options)).filter({ route: 'events', capacity: 10_000, errorRate: 0.01, windowMs: 600_000 })
    for (let number = 0; number < 200; number++) await filter.done(endingOf(randomBytes(32), TOKEN, 600_000))
    const client = await bareClient(t, url)
    const keys = await client.keys(`${options.prefix}:${options.installation}:bloom:*`)
    assert.equal(keys.length, 1)
    const [key = ''] = keys
    assert.ok(await client.strlen(key) <= 13_788)
    const left = await client.pttl(key)
    assert.ok(left > 600_000 - 1 && left < 1_200_000, `${left} ms`)
  })

  test('a user without the right to a command that marks need is told so each time, and locks go on', async (t) => {
    const { url } = await server()
    const options = redisOptionsOf(url)
    const admin = await bareClient(t, url)
    await admin.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', '~*', '&*', '+@all', '-setbit', '-getbit')
    const { host } = new URL(url)
    const store = await ready(t, { ...options, url: `redis://narrow:secret@${host}/0` } as RedisOptions)
    const filter = store.filter({ route: 'events', capacity: 10, errorRate: 0.1, windowMs: 600_000 })
    for (let times = 0; times < 8; times++) await assert.rejects(filter.done(endingOf(randomBytes(32), TOKEN, 600_000)), StoreUnavailable)
    assert.equal(store.available(), true)
    assert.equal(await store.marks.mark(markingOf(randomBytes(32), TOKEN, 'running', 1_000)), 'marked')
  })

  test('the rights that docs/guides/deploy-with-redis.md names are enough', async (t) => {
    const { url } = await server()
    const options = redisOptionsOf(url)
    const [, rights = ''] = /ACL SETUSER onceway on >PASSWORD (.*)/.exec(PAGE) ?? []
    const more = Array.from(PAGE.matchAll(/^\| `([^`]+)` \| `mode: drop` with `store: (?:redis|bloom)`/gm), ([, words]) => words).join(' ')
    assert.match(more, /\+get /)
    assert.match(more, /\+setbit/)
    await (await bareClient(t, url)).call('ACL', 'SETUSER', 'documented', 'on', '>secret', ...`${rights} ${more}`.split(' '))
    const store = await ready(t, { ...options, url: `redis://documented:secret@${new URL(url).host}/0` } as RedisOptions)
    const [id, filter] = [randomBytes(32), store.filter({ route: 'events', capacity: 10, errorRate: 0.1, windowMs: 600_000 })]
    assert.equal(await store.marks.mark(markingOf(id, TOKEN, 'running', 1_000)), 'marked')
    assert.equal(await store.marks.remove(id, TOKEN), true)
    await store.marks.done(endingOf(id, TOKEN, 1_000))
    await filter.done(endingOf(id, TOKEN, 600_000))
    assert.equal(await filter.mark(markingOf(id, TOKEN, 'running', 600_000)), 'done')
  })

  describe('while one scheme follows another', () => {
    const LONG_MS = 600_000
    const open = async (t: TestContext) => {
      const options = redisOptionsOf((await server()).url)
      const { marks } = await ready(t, options)
      const [id, nextId] = [randomBytes(32), randomBytes(32)]
      const under = { scheme: 2, earlierId: id }
      return {
        ...{ marks, options, id, nextId, under, client: await bareClient(t, options.url) },
        old: async (token = randomBytes(16)) => marks.mark(markingOf(id, token, 'running', LONG_MS)),
        next: async (token = randomBytes(16), keepMs = LONG_MS) => marks.mark(markingOf(nextId, token, 'running', keepMs, under))
      }
    }

    test('who dies between the note under the earlier id and the mark leaves an event to those who mark by that scheme, at once', async (t) => {
      const { marks, options, client, id, old, next, nextId, under } = await open(t)
      let calls = 0
      const dying = new RedisMarks(
        {
          available: () => true,
          call: async ({ script, keys, values }) => calls++ === 0 ? client.eval(script, keys.length, ...keys, ...values) : undefined
        },
        `${options.prefix}:${options.installation}`
      )
      await assert.rejects(
        dying.mark(markingOf(nextId, randomBytes(16), 'running', LONG_MS, under)),
        (error: unknown) => error instanceof StoreUnavailable && error.inDoubt
      )
      assert.equal(await client.get(markKey(options, id)), 'M2')
      assert.equal(await old(), 'moved')
      assert.deepEqual([await marks.stands(id), await marks.stands(nextId)], [false, false])
      assert.equal(await next(), 'marked')
      assert.equal(await next(), 'running')
    })

    test('in every order of the steps of three who mark one event, one by the first scheme and two by the next, no two have it at once', async (t) => {
      const { options, client } = await open(t)
      const prefix = `${options.prefix}:${options.installation}`
      const orders = ordersOf({ old: 2, next: 3, other: 2 })
      assert.equal(orders.length, 210)
      const outcomes = new Set<string>()
      for (const [oldEnd, nextEnd] of [['done', 'done'], ['done', 'remove'], ['remove', 'done'], ['remove', 'remove']] as const) {
        await Promise.all(orders.map(async (order) => {
          const [id, nextId, holders] = [randomBytes(32), randomBytes(32), new Set<string>()]
          const next = { id: nextId, scheme: 2, earlierId: id }
          const walkers: Record<string, Walker> = {
            old: new Walker(client, prefix, 'old', markingOf(id, randomBytes(16), 'running', LONG_MS), oldEnd, holders),
            next: new Walker(client, prefix, 'next', markingOf(nextId, randomBytes(16), 'running', LONG_MS, next), nextEnd, holders),
            other: new Walker(client, prefix, 'other', markingOf(nextId, randomBytes(16), 'running', LONG_MS, next), 'done', holders)
          }
          for (const name of order) await walkers[name]?.step()
          for (const walker of Object.values(walkers)) await walker.finish()
          outcomes.add(Object.values(walkers).map(({ found }) => found).join())
        }))
      }
      for (const outcome of [
        'marked,moved,moved', 'moved,marked,running', 'moved,marked,done', 'moved,running,marked',
        'marked,marked,running'
      ]) {
        assert.ok(outcomes.has(outcome), `${outcome} is not among ${Array.from(outcomes).join(' ')}`)
      }
    })

    test('whoever comes first to the earlier id decides, however the steps of the two fall', async (t) => {
      const { old, next, marks, id, nextId } = await open(t)
      const token = randomBytes(16)
      assert.equal(await old(token), 'marked')
      assert.equal(await next(), 'moved', 'it is under way')
      await marks.done(endingOf(id, token, LONG_MS))
      assert.equal(await next(), 'moved', 'it has gone through')
      await marks.remove(id, token)
      assert.equal(await next(), 'marked', 'it has not')
      assert.equal(await old(token), 'moved', 'nor does a reply that was lost bring back what was taken back')
      await marks.remove(id, token)
      assert.equal(await old(), 'moved', 'nobody takes back what another has left')
      assert.deepEqual([await marks.stands(id), await marks.stands(nextId)], [false, true])
    })

    test('an event that outlasted its mark is done under the earlier id whatever was noted there, and then for everybody', async (t) => {
      const { old, next, marks, options, client, id, nextId, under } = await open(t)
      const [late, token] = [randomBytes(16), randomBytes(16)]
      await old(late)
      await client.del(markKey(options, id))
      assert.equal(await next(token), 'marked', 'as it would be by the same scheme')
      await marks.done(endingOf(id, late, LONG_MS))
      assert.equal(await old(), 'done')
      assert.equal(await next(), 'running')
      await marks.done(endingOf(nextId, token, LONG_MS, under))
      assert.deepEqual([await old(), await next()], ['done', 'done'], 'the note that comes with it replaces no mark')
      await marks.remove(nextId, token)
      assert.equal(await next(), 'moved')
    })

    test('a note stands as long as the mark that it was left for, and no duplicate shortens it', async (t) => {
      const { next, marks, options, client, id, nextId, under } = await open(t)
      const token = randomBytes(16)
      await next(token, 60_000)
      const left = async () => client.pttl(markKey(options, id))
      assert.ok(await left() > 50_000 && await left() <= 60_000)
      await marks.done(endingOf(nextId, token, LONG_MS, under))
      assert.ok(await left() > LONG_MS - 10_000)
      assert.equal(await next(randomBytes(16), 60_000), 'done')
      assert.ok(await left() > LONG_MS - 10_000)
    })

    test('a build that knows no schemes is told that the event is running, and takes nothing away', async (t) => {
      const { next, marks, options, client, id, nextId } = await open(t)
      await next()
      const key = markKey(options, id)
      assert.equal(await client.eval(MARK_BEFORE, 1, key, 'R', randomBytes(16), LONG_MS), 1)
      assert.equal(await client.get(key), 'M2')
      assert.equal(await marks.stands(nextId), true)
    })

    test('a third scheme whose ids are the first one\'s begins where the second one\'s notes still stand', async (t) => {
      const { next, marks, id, nextId } = await open(t)
      const token = randomBytes(16)
      await next(token)
      await marks.remove(nextId, token)
      const third = markingOf(id, randomBytes(16), 'running', LONG_MS, { scheme: 3, earlierId: nextId })
      assert.equal(await marks.mark(third), 'marked')
      assert.equal(await next(), 'moved')
      assert.equal(await marks.mark({ ...third, token: randomBytes(16) }), 'running')
    })
  })

  test('a Redis that is gone takes no mark', async (t) => {
    const own = await startRedis()
    t.after(() => own.stop())
    const { marks } = await ready(t, redisOptionsOf(own.url))
    await own.stop()
    await assert.rejects(marks.mark(markingOf(randomBytes(32), TOKEN, 'running', 1_000)), StoreUnavailable)
  })
})

describe('marks in a Redis Cluster', needs('redis cluster'), () => {
  let cluster: RedisCluster
  before(async () => { cluster = await startRedisCluster() })
  after(async () => { await cluster?.stop() })

  markStoreConformance('redis cluster', async (t) => {
    await cluster.whole()
    const options = redisOptionsAt({ cluster: cluster.addresses })
    const [one, two] = await Promise.all([ready(t, options), ready(t, options)])
    return { store: one.marks, second: two.marks }
  })

  test('both bitmaps of a filter are in one slot, whichever it is', async (t) => {
    await cluster.whole()
    const store = await ready(t, redisOptionsAt({ cluster: cluster.addresses }))
    for (let number = 0; number < 12; number++) {
      const filter = store.filter({ route: `events-${number}`, capacity: 100, errorRate: 0.01, windowMs: 600_000 })
      const id = randomBytes(32)
      await filter.done(endingOf(id, TOKEN, 600_000))
      assert.equal(await filter.mark(markingOf(id, TOKEN, 'running', 600_000)), 'done')
    }
  })
})
