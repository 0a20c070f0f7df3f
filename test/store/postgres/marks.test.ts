/** Marks in Postgres pass the suite of their port, on a real server; and what only they have: a sweep, batches of rivals. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test, type TestContext } from 'node:test'
import { endingOf, markingOf } from '../../conformance/mark-world.ts'
import { markStoreConformance } from '../../conformance/marks.ts'
import { until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld } from './world.ts'

describe('marks in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })
  const open = async (t: TestContext) => openWorld(t, await (server ??= startPostgres()))

  markStoreConformance('postgres', async (t) => {
    const { store, reopen, switchScheme } = await open(t)
    return { store: store.marks, second: (await reopen()).marks, switchScheme }
  })

  test('what is over is swept, and nothing else', async (t) => {
    const { store: { marks }, connect, options } = await open(t)
    const client = await connect()
    const left = async () => (await client.query(`select 1 from ${options.schema}.marks`)).rowCount
    const token = randomBytes(16)
    await Promise.all(Array.from({ length: 10 }, () => marks.done(endingOf(randomBytes(32), token, 1))))
    await marks.done(endingOf(randomBytes(32), token, 600_000))
    await marks.mark(markingOf(randomBytes(32), token, 'running', 600_000))
    let swept = await marks.sweep(4)
    assert.ok(swept <= 4)
    await until(async () => { swept += await marks.sweep(4); return swept === 10 }, 'ten marks to be swept')
    assert.equal(await left(), 2)
  })

  test('processes that mark, end and take back the same events in batches never hold each other up for good', async (t) => {
    const { store, reopen } = await open(t)
    const stores = [store.marks, (await reopen()).marks]
    const ids = Array.from({ length: 40 }, () => randomBytes(32))
    const won = new Map<string, number>()
    await Promise.all(stores.flatMap((marks) => ids.map(async (id, index) => {
      for (let round = 0; round < 5; round++) {
        const token = randomBytes(16)
        const found = await marks.mark(markingOf(id, token, 'running', 600_000))
        if (found !== 'marked') continue
        if (index % 2 === 0) {
          won.set(id.toString('hex'), (won.get(id.toString('hex')) ?? 0) + 1)
          await marks.done(endingOf(id, token, 600_000))
        } else {
          await marks.remove(id, token)
        }
      }
    })))
    assert.deepEqual(Array.from(won.values()), Array.from({ length: 20 }, () => 1), 'what is done went through once')
  })
})
