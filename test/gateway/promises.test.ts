/**
 * The usual way makes no promise for a request: a first request and a replay, counted in a gateway's own process. What is counted besides
 * is made by timers and batches, which do not grow with requests.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import { SAYS } from '../harness/count-promises.ts'
import type { Counted } from '../harness/count-promises.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { configOf, startServers } from '../e2e/world.ts'
import type { Servers } from '../e2e/world.ts'

const REQUESTS = 500
const AT_ONCE = 16
/**
 * The least of these rounds counts. What background services make, up to 360 promises in one of them, falls into some and not into others.
 * What a request makes is in all of them. Nothing is subtracted: background services make as many in a pause of the same length, and that
 * would hide what a request makes.
 */
const ROUNDS = 5
/** A promise for each request would be one, and a promise for each batch of claims or settles a sixteenth at least. */
const EACH_MAX = 0.5

/** Answers are believed in memory for no longer than a lease. The load takes less than this one. */
const LEASE = 'lease: 60s'

const COUNTER = new URL('../harness/count-promises.ts', import.meta.url).href

/** What the gateway counts while `work` goes on. */
async function countedDuring (gateway: ProcessGateway, work: () => Promise<void>): Promise<Counted> {
  const said = (): string[] => gateway.output().split('\n').slice(0, -1).filter((line) => line.startsWith(SAYS))
  const before = said().length
  gateway.signal('SIGUSR2')
  await work()
  gateway.signal('SIGUSR2')
  await eventually(() => said().length > before, 'it says how many')
  return JSON.parse((said().at(-1) ?? '').slice(SAYS.length)) as Counted
}

async function ask (gateway: ProcessGateway, keys: readonly string[], status: string): Promise<void> {
  const left = [...keys]
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let key = left.pop(); key !== undefined; key = left.pop()) {
      const { headers } = await call(gateway.url, '/things', { headers: { 'Idempotency-Key': key }, body: 'one' })
      assert.equal(headers['idempotency-status'], status)
    }
  }))
}

async function assertNone (t: TestContext, gateway: ProcessGateway): Promise<void> {
  const keysOf = (round: number): string[] => Array.from({ length: REQUESTS }, (_, at) => `${round}-${at}`)
  await ask(gateway, keysOf(0), 'executed')
  for (const [what, status] of [['first request', 'executed'], ['replay', 'replayed']] as const) {
    const rounds: Counted[] = []
    for (let round = 1; round <= ROUNDS; round++) {
      rounds.push(await countedDuring(gateway, async () => { await ask(gateway, keysOf(round), status) }))
    }
    const [{ count, places }] = rounds.toSorted((one, other) => one.count - other.count) as [Counted]
    const each = count / REQUESTS
    t.diagnostic(`${each.toFixed(2)} promises for a ${what}`)
    assert.ok(each <= EACH_MAX, `${each.toFixed(2)} for a ${what}:\n${places.map(([seen, place]) => `${seen} ${place}`).join('\n')}`)
  }
}

const env = { COUNT_PROMISES: '1', NODE_OPTIONS: `--import ${COUNTER}` }

test('embedded store: no promise for a first request, and none for a replay', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const gateway = await startProcess(t, { args: ['--port', '0', '--upstream', witness.url], env: { ...env, ONCEWAY_ADMIN_PORT: '0' } })
  await assertNone(t, gateway)
})

describe('with servers', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  for (const [stores, withRedis] of [
    ['Postgres', false],
    ['Redis and Postgres', true]
  ] as const) {
    test(`${stores}: no promise for a first request, and none for a replay`, async (t) => {
      const witness = await startWitness()
      t.after(() => witness.close())
      const config = configOf({
        database: await servers.postgres.createDatabase('promises'),
        redis: withRedis ? servers.redis.url : null,
        upstream: witness.url
      }).replace('lease: 2s', LEASE)
      await assertNone(t, await startProcess(t, { config, env }))
    })
  }
})
