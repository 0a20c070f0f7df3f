/** Two gateways on one Postgres without Redis: who has no place for a message tells the other, by the database. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { configOf } from './world.ts'

const WITHIN_MS = 20_000
const STORE_COUNT = 'onceway_store_duration_seconds_count'

describe('wake-ups between gateways without Redis', needs('own postgres'), () => {
  let postgres: PostgresServer
  before(async () => { postgres = await startPostgres() })
  after(async () => { await postgres.stop() })

  test('a message that finds no place where it was accepted goes out elsewhere, and the one who was full has said so', async (t) => {
    const witness = await startWitness((_seen, response, _socket, count) => {
      // The first is never answered: its gateway has no place for the next.
      if (count > 1) response.writeHead(204).end()
    })
    t.after(() => witness.close())
    const database = await postgres.createDatabase('wakes')
    const config = configOf({
      database,
      redis: null,
      upstream: witness.url,
      idempotency: ', mode: inbox, profile: relay, inbox: { concurrency: 1 }'
    })
    const gateway = () => startProcess(t, { config })
    const full = await gateway()
    const count = async (adminUrl: string, operation: string) =>
      totalOf(await metricsOf(adminUrl), `${STORE_COUNT}{store="postgres",operation="${operation}"}`)
    const listens = async (adminUrl: string) =>
      eventually(async () => await count(adminUrl, 'message_listen') === 1, 'it listens', WITHIN_MS)
    const send = async (key: string) => (await call(full.url, '/things', { headers: { 'Idempotency-Key': key }, body: key })).status
    await listens(full.adminUrl)
    assert.equal(await send('first'), 202)
    await witness.reached(1)
    const other = await gateway()
    await listens(other.adminUrl)
    assert.equal(await send('second'), 202)
    await witness.reached(2)
    await eventually(async () => await count(full.adminUrl, 'message_wake') >= 1, 'it has told the other', WITHIN_MS)
    assert.equal(witness.seen[1]?.body.toString(), 'second')
    assert.ok(await count(other.adminUrl, 'message_take') > 0)
  })
})
