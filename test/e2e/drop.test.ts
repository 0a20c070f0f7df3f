/** Mode drop on two gateway processes: each store that they share, a process that is killed, and one that is told to drain. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

const SIMULTANEOUS = 40

describe('mode drop in two gateway processes', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  async function twoGateways (
    t: TestContext,
    witness: Witness,
    drop: string,
    upstreamTimeout = '20s'
  ): Promise<[ProcessGateway, ProcessGateway]> {
    const database = await servers.postgres.createDatabase('drop')
    const config = configOf({
      database,
      redis: servers.redis.url,
      upstream: witness.url,
      idempotency: `, profile: relay, mode: drop, drop: ${drop}`
    })
      .replace('timeout: 20s', `timeout: ${upstreamTimeout}`).replace(/(postgres: \{ url: "[^"]*")/, '$1, claimTimeout: 500ms')
    return Promise.all([startProcess(t, { config }), startProcess(t, { config })])
  }

  const ask = (gateway: ProcessGateway, key: string): Promise<Called> => call(gateway.url, '/things', {
    headers: { 'Idempotency-Key': key },
    body: 'one'
  })

  for (const store of ['database', 'redis', 'bloom']) {
    test(`of many at once one goes through, and all others are told so, with marks in ${store}`, async (t) => {
      const witness = await startWitness()
      t.after(() => witness.close())
      const gateways = await twoGateways(t, witness, `{ store: ${store} }`)
      // Redis is reached a moment after the start.
      await eventually(async () =>
        (await ask(gateways[0], 'probe')).status < 500 && (await ask(gateways[1], 'probe')).status < 500, 'both serve')
      const before = witness.seen.length
      // A filter knows nothing that runs: those at the other process come when it is done.
      const first = store === 'bloom' ? [await ask(gateways[0], 'event')] : []
      const answers = [
        ...first,
        ...await Promise.all(Array.from({ length: SIMULTANEOUS }, (_, index) => ask(gateways[index % 2] as ProcessGateway, 'event')))
      ]
      const told = Map.groupBy(answers, ({ headers }) => headers['idempotency-status'])
      assert.deepEqual([told.get('executed')?.length, told.get('duplicate')?.length], [1, answers.length - 1])
      assert.equal(witness.seen.length - before, 1)
    })
  }

  test('what a killed process forwarded goes through again when its mark has ended, and not before', async (t) => {
    const witness = await startWitness((seen, response, socket, count) => { if (count > 1) return CREATED(seen, response, socket, count) })
    t.after(() => witness.close())
    const [one, two] = await twoGateways(t, witness, '{ store: database }', '1s')
    const cut = ask(one, 'event').catch(() => 'cut')
    await witness.reached(1)
    one.signal('SIGKILL')
    assert.equal(await cut, 'cut')
    assert.equal(witness.seen.length, 1)
    const answers: Called[] = []
    await eventually(async () => {
      answers.push(await ask(two, 'event'))
      return answers.at(-1)?.status === 201
    }, 'the event goes through', 20_000)
    assert.ok(answers.slice(0, -1).every(({ status, json }) => status === 503 && json.code === 'in-flight'))
    assert.equal((await ask(two, 'event')).headers['idempotency-status'], 'duplicate')
    assert.equal(witness.seen.length, 2)
  })

  test('a process that is told to end lets its event through and marks it first', async (t) => {
    const letGo = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => { await letGo.promise; await CREATED(...args) })
    t.after(() => witness.close())
    const [one, two] = await twoGateways(t, witness, '{ store: database }')
    const asked = ask(one, 'event')
    await Promise.race([
      witness.reached(1),
      asked.then((answer) => { throw new Error(`answered ${answer.status} before it was sent: ${answer.text}`) })
    ])
    one.signal('SIGTERM')
    await one.logged(({ msg }) => msg === 'draining')
    letGo.resolve()
    assert.equal((await asked).status, 201)
    assert.equal(await one.exited, 0)
    assert.equal((await ask(two, 'event')).headers['idempotency-status'], 'duplicate')
    const metrics = await (await fetch(`${two.adminUrl}/metrics`)).text()
    assert.match(metrics, /onceway_requests_total\{route="things",outcome="duplicate"\} 1/)
  })
})
