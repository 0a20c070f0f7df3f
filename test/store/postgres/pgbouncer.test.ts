/** The Postgres store through a real PgBouncer in transaction mode, where no two statements have the same session for sure. */
import assert from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { DELIVERED, idsOf, messageOf, namesOf, takeFrom, workerOf } from '../../conformance/inbox-world.ts'
import { recordStoreConformance } from '../../conformance/record-store.ts'
import { claimOf, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startPgBouncer, type PgBouncer } from '../../harness/pgbouncer.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, Worlds } from './world.ts'
import { SIGN } from '../../harness/sign.ts'

const ROUNDS = 40
const AT_ONCE = 24

interface Pooled { readonly server: PostgresServer, readonly pooler: PgBouncer, readonly pooled: PostgresServer }

async function startPooled (): Promise<Pooled> {
  const server = await startPostgres()
  const pooler = await startPgBouncer({ target: server.port })
  return { server, pooler, pooled: { ...server, url: pooler.through(server.url) } }
}

describe('records through PgBouncer', needs('own postgres', 'pgbouncer'), () => {
  let servers: Promise<Pooled> | null = null
  const starting = (): Promise<Pooled> => {
    servers ??= startPooled()
    return servers
  }
  const worlds = new Worlds({ prepared: false })
  before(async () => { await starting() })
  after(async () => {
    const { server, pooler } = await starting()
    await worlds.close()
    await pooler.stop()
    await server.stop()
  })

  recordStoreConformance('pgbouncer', async (t: TestContext) => worlds.take(t, (await starting()).pooled))

  test('many claims and settles at once, each on whatever session is free', async (t) => {
    const { store } = await openWorld(t, (await starting()).pooled, { prepared: false })
    for (let round = 0; round < ROUNDS; round++) {
      const claims = Array.from({ length: AT_ONCE }, () => claimOf())
      const won = await Promise.all([...claims, ...claims].map(async (claim) => (await store.insert(claim)).kind))
      assert.equal(won.filter((kind) => kind === 'won').length, AT_ONCE)
      const settled = await Promise.all(claims.map(async (claim) => (await store.settle(settlementOf(tokenOf(claim), 'completed'))).kind))
      assert.deepEqual(new Set(settled), new Set(['settled']))
    }
  })

  test('messages of many groups, accepted and delivered on whatever session is free', async (t) => {
    const { store: { inbox } } = await openWorld(t, (await starting()).pooled, { prepared: false })
    const messages = Array.from({ length: 4 * AT_ONCE }, (_, index) => messageOf({ group: `group ${index % AT_ONCE}` }))
    assert.deepEqual(await inbox.acceptAll(messages), messages.map(() => ({ kind: 'accepted' })))
    assert.deepEqual(
      new Set((await Promise.all(messages.map(async (message) => inbox.accept(message)))).map(({ kind }) => kind)),
      new Set(['seen'])
    )
    const owner = await workerOf(inbox)
    const delivered: string[] = []
    await until(async () => {
      const taken = await takeFrom(inbox, owner)
      assert.ok(taken.length <= AT_ONCE)
      delivered.push(...namesOf(taken))
      assert.deepEqual(
        new Set(await Promise.all(taken.map(({ token }) => inbox.settle(token, DELIVERED)))),
        new Set(taken.length === 0 ? [] : [true])
      )
      return delivered.length === messages.length
    }, 'all to be delivered')
    for (let group = 0; group < AT_ONCE; group++) {
      const order = idsOf(...messages.filter((_, index) => index % AT_ONCE === group))
      assert.deepEqual(delivered.filter((id) => order.includes(id)), order)
    }
  })

  test('with named statements a pooler of 1.18 fails, certainly unwritten, and the log says which setting mends it', async (t) => {
    const log = recordingLog()
    const { store, reopen } = await openWorld(t, (await starting()).pooled, { prepared: true, log })
    const errors: unknown[] = []
    const session = async (records: typeof store): Promise<void> => {
      const claim = claimOf()
      await records.insert(claim)
      await records.settle(settlementOf(tokenOf(claim), 'completed'))
      await records.timeSeen()
    }
    const load = async (records: typeof store): Promise<void> => {
      await Promise.all(Array.from({ length: AT_ONCE }, async () => session(records).catch((error: unknown) => { errors.push(error) })))
    }
    // Another process, so that sessions go back and forth.
    const other = await reopen()
    await until(async () => {
      await Promise.all([load(store), load(other)])
      return errors.length > 0
    }, 'a statement to be missing where it was prepared')
    for (const error of errors) assert.ok(error instanceof StoreUnavailable && !error.inDoubt, String(error))
    const told = log.lines.filter(({ message }) => message.includes('stores.postgres.prepared: false'))
    assert.ok(told.length >= 1 && told.length <= 8, `once for each purpose of each process, and not for each statement: ${told.length}`)
    assert.equal(told[0]?.level, 'error')
  })

  test('a pooler that is killed and comes back costs the statements that were under way', async (t) => {
    const { pooler, pooled } = await starting()
    const { store } = await openWorld(t, pooled, { prepared: false })
    const kept = claimOf()
    await store.insert(kept)
    await pooler.kill()
    await assert.rejects(store.beat(SIGN), StoreUnavailable)
    await pooler.restart()
    await until(async () => store.insert(claimOf()).then(({ kind }) => kind === 'won', () => false), 'a claim through the new pooler')
    assert.equal((await store.look(kept.id))?.state, 'claimed')
  })
})
