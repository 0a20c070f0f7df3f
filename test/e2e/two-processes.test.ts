import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { needs } from '../harness/needs.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

/** The lock in Redis becomes the copy just after the first answer has gone out: until then the other process says in flight. */
async function afterFlight (ask: () => Promise<Called>): Promise<Called> {
  for (;;) {
    const answer = await ask()
    if (answer.status !== 409) return answer
  }
}

/** Two gateway processes on one Postgres and one Redis. */
describe('two gateway processes', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  async function twoGateways (
    t: TestContext,
    witness: Witness,
    idempotency = '',
    withRedis = true
  ): Promise<[ProcessGateway, ProcessGateway]> {
    const database = await servers.postgres.createDatabase('two')
    const config = configOf({ database, redis: withRedis ? servers.redis.url : null, upstream: witness.url, idempotency })
    return Promise.all([startProcess(t, { config }), startProcess(t, { config })])
  }

  const ask = (gateway: ProcessGateway, key: string, body = 'one'): Promise<Called> => call(gateway.url, '/things', {
    headers: { 'Idempotency-Key': key },
    body
  })

  for (const withRedis of [true, false]) {
    const stores = withRedis ? 'Redis and Postgres' : 'Postgres alone'

    test(`50 simultaneous duplicates of one key are one execution and 49 in-flight or replayed answers, on ${stores}`, async (t) => {
      const witness = await startWitness(async (...args) => {
        await new Promise((resolve) => setTimeout(resolve, 300))
        await CREATED(...args)
      })
      t.after(() => witness.close())
      const gateways = await twoGateways(t, witness, '', withRedis)
      const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => ask(gateways[i % 2] as ProcessGateway, 'dup')))
      assert.equal(witness.seen.length, 1)
      const executed = answers.filter(({ status, headers }) => status === 201 && headers['idempotency-status'] === 'executed')
      assert.equal(executed.length, 1)
      for (const answer of answers) {
        if (answer === executed[0]) continue
        assert.ok(answer.status === 409 || answer.status === 201, `${answer.status} ${answer.text}`)
        if (answer.status === 201) assert.deepEqual(answer.body, executed[0]?.body)
        else assert.ok(Number(answer.headers['retry-after']) >= 1)
      }
      const replays = await Promise.all(gateways.map(async (gateway) => afterFlight(() => ask(gateway, 'dup'))))
      for (const replay of replays) {
        assert.equal(replay.headers['idempotent-replayed'], 'true')
        assert.deepEqual(replay.body, executed[0]?.body)
      }
      assert.equal(witness.seen.length, 1)
    })

    test(`a duplicate at the other process waits and is woken with the answer, on ${stores}`, async (t) => {
      const release = Promise.withResolvers<void>()
      const witness = await startWitness(async (...args) => {
        await release.promise
        await CREATED(...args)
      })
      t.after(() => witness.close())
      const [one, two] = await twoGateways(t, witness, ', inFlight: { wait: 10s }', withRedis)
      const first = ask(one, 'wait')
      await witness.reached(1)
      const duplicate = ask(two, 'wait')
      setTimeout(() => { release.resolve() }, 500)
      assert.equal((await first).status, 201)
      const replay = await duplicate
      assert.equal(replay.headers['idempotent-replayed'], 'true')
      assert.deepEqual(replay.body, (await first).body)
      assert.equal(witness.seen.length, 1)
    })
  }

  test('a process killed between forward and settle: in flight until the lease ends, then outcome-unknown, and one request', async (t) => {
    const witness = await startWitness(() => {})
    t.after(() => witness.close())
    const [one, two] = await twoGateways(t, witness)
    const lost = ask(one, 'killed').catch((error: Error) => error)
    await witness.reached(1)
    one.signal('SIGKILL')
    assert.ok(await lost instanceof Error)
    const inFlight = await ask(two, 'killed')
    assert.equal(inFlight.status, 409)
    assert.equal(inFlight.json.code, 'in-flight')
    let later = inFlight
    while (later.status === 409) {
      await new Promise((resolve) => setTimeout(resolve, 200))
      later = await ask(two, 'killed')
    }
    assert.equal(later.status, 504)
    assert.equal(later.json.code, 'outcome-unknown')
    assert.equal(later.headers['idempotency-status'], 'indeterminate')
    assert.equal(later.headers['retry-after'], undefined)
    assert.equal((await ask(two, 'killed')).json.code, 'outcome-unknown')
    assert.equal(witness.seen.length, 1)
    await two.logged((line) => line.level === 'error' && line['stage'] === 'lease')
  })

  test('a client that disconnects in mid-flight cancels nothing: its retry at the other process replays', async (t) => {
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => {
      await release.promise
      await CREATED(...args)
    })
    t.after(() => witness.close())
    const [one, two] = await twoGateways(t, witness, ', inFlight: { wait: 5s }')
    const client = new AbortController()
    const gone = call(one.url, '/things', { headers: { 'Idempotency-Key': 'gone' }, body: 'one', signal: client.signal }).catch(
      (error: Error) => error
    )
    await witness.reached(1)
    client.abort()
    assert.ok(await gone instanceof Error)
    release.resolve()
    const retry = await ask(two, 'gone')
    assert.equal(retry.status, 201)
    assert.equal(retry.headers['idempotent-replayed'], 'true')
    assert.equal(witness.seen.length, 1)
  })

  test('the same key with another body is refused in flight and afterwards, at both processes', async (t) => {
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => {
      await release.promise
      await CREATED(...args)
    })
    t.after(() => witness.close())
    const [one, two] = await twoGateways(t, witness)
    const first = ask(one, 'mixed')
    await witness.reached(1)
    assert.equal((await ask(two, 'mixed', 'other')).status, 422)
    assert.equal((await ask(one, 'mixed', 'other')).status, 422)
    release.resolve()
    assert.equal((await first).status, 201)
    assert.equal((await ask(two, 'mixed', 'other')).status, 422)
    assert.equal(witness.seen.length, 1)
  })

  test('two deployments on one Redis never see each other: two executions', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const configs = await Promise.all(['a', 'b'].map(async (name) => configOf({
      database: await servers.postgres.createDatabase(name),
      redis: servers.redis.url,
      upstream: witness.url
    })))
    const [one, two] = await Promise.all(configs.map(async (config) => startProcess(t, { config }))) as [ProcessGateway, ProcessGateway]
    assert.equal((await ask(one, 'same')).headers['idempotency-status'], 'executed')
    assert.equal((await ask(two, 'same')).headers['idempotency-status'], 'executed')
    assert.equal(witness.seen.length, 2)
  })
})
