/**
 * Gateways over a Postgres that fails over: with a synchronous standby nothing is lost; with an asynchronous one the last
 * commits are, and then it matters what else knows of them. The last two tests show what is outside the promise.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { query } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startRedis } from '../harness/redis.ts'
import type { RedisServer } from '../harness/redis.ts'
import { startPair } from '../harness/replication.ts'
import type { Pair } from '../harness/replication.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { configOf } from './world.ts'

const CLIENTS = 12
/** A promotion, the pools' new connections, and one lease of unbroken contact. */
const FAILED_OVER_WITHIN_MS = 20_000

interface World { readonly pair: Pair, readonly witness: Witness, readonly one: ProcessGateway, readonly two: ProcessGateway }

describe('when Postgres fails over', needs('postgres tools', 'own redis'), () => {
  let redis: RedisServer
  const pairs: Pair[] = []
  before(async () => { redis = await startRedis() })
  after(async () => {
    for (const pair of pairs) await pair.stop()
    await redis.stop()
  })

  async function start (t: TestContext, synchronous: boolean, witness: Witness): Promise<World> {
    t.after(() => witness.close())
    const pair = await startPair({ synchronous })
    pairs.push(pair)
    const config = configOf({ database: await pair.createDatabase('replicated'), redis: redis.url, upstream: witness.url })
    const [one, two] = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
    for (const gateway of [one, two]) {
      await eventually(async () =>
        (await call(gateway.adminUrl, '/readyz', { method: 'GET' })).text.includes('"ready"'), 'both are ready', FAILED_OVER_WITHIN_MS)
    }
    return { pair, witness, one, two }
  }

  const ask = (gateway: ProcessGateway, key: string): Promise<Called> => call(gateway.url, '/things', {
    headers: { 'Idempotency-Key': key },
    body: 'one'
  })

  /** As a client that retries: the stored answer of this key. */
  async function final (gateway: ProcessGateway, key: string): Promise<Called> {
    let answer: Called | null = null
    await eventually(async () => {
      answer = await ask(gateway, key).catch(() => null)
      return answer !== null && (answer.status === 201 || answer.status === 502 || answer.status === 504)
    }, `${key} gets an answer`, FAILED_OVER_WITHIN_MS)
    return answer as unknown as Called
  }

  /** Nothing that is written from now on reaches the standby. */
  async function holdStream (pair: Pair): Promise<void> {
    await eventually(async () =>
      (await query(
        pair.primary().url,
        'select 1 from pg_stat_replication where replay_lsn = pg_current_wal_lsn()'
      )).length > 0, 'the standby has caught up')
    pair.holdStream()
  }

  async function failOver (pair: Pair): Promise<void> {
    await pair.killPrimary()
    await pair.promote()
  }

  function sentTimes (witness: Witness): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { headers } of witness.seen) {
      const record = String(headers['onceway-key'])
      counts.set(record, (counts.get(record) ?? 0) + 1)
    }
    return counts
  }

  test('synchronous: under load every key is sent once at most, and every stored answer is replayed by the new primary', async (t) => {
    const { pair, witness, one, two } = await start(t, true, await startWitness())
    const answered = new Map<string, Buffer>()
    const load = { over: false }
    const clients = Promise.all(Array.from({ length: CLIENTS }, async (_, client) => {
      for (let turn = 0; !load.over; turn++) {
        const key = `${client}-${turn}`
        const both = await Promise.all([ask(one, key), ask(two, key)].map(async (each) => each.catch(() => null)))
        for (const answer of both) {
          if (answer?.status === 201 && answer.headers['idempotency-stored'] !== 'false') answered.set(key, answer.body)
        }
      }
    }))
    await eventually(() => answered.size > CLIENTS * 5, 'some load', FAILED_OVER_WITHIN_MS)
    const before = answered.size
    await failOver(pair)
    await eventually(() => answered.size > before + CLIENTS * 5, 'it goes on with the new primary', FAILED_OVER_WITHIN_MS)
    load.over = true
    await clients
    // Past both memories: what the new primary has.
    const client = new Redis(redis.url)
    await client.flushall()
    await client.quit()
    for (const [key, body] of answered) {
      const replay = await final(two, key)
      assert.equal(replay.status, 201, `${key}: ${replay.text}`)
      assert.deepEqual(replay.body, body)
    }
    assert.deepEqual(Array.from(sentTimes(witness).values()).filter((times) => times > 1), [])
    t.diagnostic(`${answered.size} answers, ${before} of them before the failover; ${witness.seen.length} sendings`)
  })

  test('asynchronous, the claimed row lost: its lock in Redis keeps duplicates in flight, and its owner puts the outcome back', async (t) => {
    const release = Promise.withResolvers<void>()
    const { pair, witness, one, two } = await start(t, false, await startWitness(async (...args) => {
      await release.promise
      await CREATED(...args)
    }))
    await holdStream(pair)
    const first = ask(one, 'claimed')
    await witness.reached(1)
    await failOver(pair)
    // Longer than the lease in Redis would last by itself.
    for (const endsAt = performance.now() + 3_000; performance.now() < endsAt;) {
      const duplicate = await ask(two, 'claimed')
      assert.ok(duplicate.status === 409 || duplicate.status === 503, `${duplicate.status} ${duplicate.text}`)
      await new Promise((resolve) => { setTimeout(resolve, 100) })
    }
    release.resolve()
    const answer = await first
    assert.equal(answer.status, 201)
    const replay = await final(two, 'claimed')
    assert.equal(replay.headers['idempotent-replayed'], 'true')
    assert.deepEqual(replay.body, answer.body)
    assert.equal(witness.seen.length, 1)
  })

  test('asynchronous, the answered row lost: the copy in Redis is replayed while it stands', async (t) => {
    const { pair, witness, one, two } = await start(t, false, await startWitness())
    await holdStream(pair)
    const answer = await ask(one, 'answered')
    await failOver(pair)
    const replay = await final(two, 'answered')
    assert.equal(replay.headers['idempotent-replayed'], 'true')
    assert.deepEqual(replay.body, answer.body)
    assert.equal(witness.seen.length, 1)
  })

  test('asynchronous, outside the promise: the row lost and nothing of it in Redis, the request is sent again', async (t) => {
    const { pair, witness, one, two } = await start(t, false, await startWitness())
    await holdStream(pair)
    await ask(one, 'forgotten')
    const client = new Redis(redis.url)
    await client.flushall()
    await client.quit()
    await failOver(pair)
    assert.equal((await final(two, 'forgotten')).headers['idempotency-status'], 'executed')
    assert.equal(witness.seen.length, 2, 'nobody was left who knew')
  })

  test('asynchronous, outside the promise: the claimed row lost and its gateway too, a duplicate that meets the lock keeps it from being sent again', async (t) => {
    const { pair, witness, one, two } = await start(t, false, await startWitness(async (seen, response, socket, count) => {
      if (count > 1) await CREATED(seen, response, socket, count)
    }))
    await holdStream(pair)
    ask(one, 'orphaned').catch(() => {})
    await witness.reached(1)
    one.signal('SIGKILL')
    await failOver(pair)
    const duplicate = await ask(two, 'orphaned')
    assert.ok(duplicate.status === 409 || duplicate.status === 503, `${duplicate.status} ${duplicate.text}`)
    assert.equal((await final(two, 'orphaned')).json.code, 'outcome-unknown')
    assert.equal(witness.seen.length, 1)
  })
})
