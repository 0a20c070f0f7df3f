/** A primary and its standby: what a promotion keeps, what it loses, and that nobody takes a replica for the arbiter. */
import assert from 'node:assert/strict'
import { after, describe, test, type TestContext } from 'node:test'
import type { Durability } from '../../../src/core/protocol/durability.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { connectPostgres, openPostgres, type PostgresOptions, type PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import { claimOf, rivalOf, rowAt, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { query } from '../../harness/postgres.ts'
import { startPair, type Pair } from '../../harness/replication.ts'
import { optionsOf } from './world.ts'
import { SIGN } from '../../harness/sign.ts'

const CLAIMS = 60

describe('a primary and its standby', needs('postgres tools'), () => {
  const pairs: Pair[] = []
  after(async () => { for (const pair of pairs) await pair.stop() })

  async function startNew (synchronous: boolean): Promise<Pair> {
    const pair = await startPair({ synchronous })
    pairs.push(pair)
    return pair
  }

  async function start (
    t: TestContext,
    synchronous: boolean,
    pair?: Pair
  ): Promise<{ pair: Pair, store: PostgresRecordStore, options: PostgresOptions }> {
    pair ??= await startNew(synchronous)
    const options = optionsOf(await pair.createDatabase('replicated'))
    const store = await openPostgres(options)
    t.after(() => store.close())
    return { pair, store, options }
  }

  test('synchronous: what was acknowledged outlives the primary, up to the last commit before it was killed', async (t) => {
    const { pair, store } = await start(t, true)
    assert.deepEqual(await store.durability(), { reasons: [] })
    const acknowledged: Array<{ id: Buffer, state: string }> = []
    const load = { over: false }
    const writing = Promise.all(Array.from({ length: CLAIMS }, async () => {
      while (!load.over) {
        const claim = claimOf()
        try {
          await store.insert(claim)
          acknowledged.push({ id: claim.id, state: 'claimed' })
          const last = acknowledged.length - 1
          await store.settle(settlementOf(tokenOf(claim), 'completed'))
          acknowledged[last] = { id: claim.id, state: 'completed' }
        } catch (error) {
          assert.ok(error instanceof StoreUnavailable, String(error))
        }
      }
    }))
    await until(async () => acknowledged.length > CLAIMS * 4, 'some load')
    await pair.killPrimary()
    load.over = true
    await writing
    await pair.promote()
    await untilServed(store)
    for (const { id, state } of acknowledged) {
      const row = await rowAt(store, id)
      // A settle that was in doubt when the primary was killed may have been committed.
      assert.ok(row.state === state || (state === 'claimed' && row.state === 'completed'), `${state}, and is ${row.state}`)
    }
    t.diagnostic(`${acknowledged.length} acknowledged, none lost`)
  })

  test('synchronous: a commit whose wait for the standby is cancelled is a lost reply, and is confirmed when the standby is back', async (t) => {
    const { pair, store } = await start(t, true)
    const claim = claimOf()
    await store.insert(claimOf())
    pair.standby()?.pause()
    const insert = assert.rejects(store.insert(claim), (error: unknown) => error instanceof StoreUnavailable && error.inDoubt)
    await until(async () =>
      (await query(
        pair.primary().url,
        'select pg_cancel_backend(pid) from pg_stat_activity where wait_event = \'SyncRep\''
      )).length > 0, 'the commit to wait for the standby')
    await insert
    pair.standby()?.resume()
    await until(async () => store.confirm(claim).then(({ kind }) => kind === 'won', () => false), 'the claim to be confirmed')
    assert.equal((await rowAt(store, claim.id)).state, 'claimed')
  })

  test('asynchronous: what had not been streamed is gone, and the gateway could have known', async (t) => {
    const { pair, store, options } = await start(t, false)
    assert.deepEqual(await store.durability(), { reasons: ['asynchronous-standby'] })
    assert.deepEqual(await standingOfTheLeastPrivileged(options), { reasons: ['asynchronous-standby'] })
    const [kept, lost] = [claimOf(), claimOf()]
    await store.insert(kept)
    await until(async () =>
      (await query(
        pair.primary().url,
        'select 1 from pg_stat_replication where replay_lsn = pg_current_wal_lsn()'
      )).length > 0, 'the standby to have it')
    pair.holdStream()
    await store.insert(lost)
    await pair.killPrimary()
    await pair.promote()
    await untilServed(store)
    assert.equal((await rowAt(store, kept.id)).state, 'claimed')
    assert.equal(await store.look(lost.id), null)
    assert.deepEqual(await store.durability(), { reasons: [] }, 'the new primary has no standby yet')
    // Its owner lives, and knows what came of it.
    assert.equal((await store.settle(settlementOf(tokenOf(lost), 'completed'))).kind, 'refused')
    assert.equal((await store.settleLost(settlementOf(tokenOf(lost), 'completed'), lost, 1_000)).kind, 'settled')
  })

  test('a replica is not the arbiter: it is not opened, does not count as contact, and is left as soon as there is a primary', async (t) => {
    // The first pair has lost its standby, the second is whole.
    const { pair, store, options } = await start(t, true, pairs.find((each) => each.standby() !== null))
    const standby = pair.standby()
    assert.ok(standby !== null)
    const claim = claimOf()
    await store.insert(claim)
    // From now on a retry is looked for first, on this connection.
    assert.equal((await store.insert(rivalOf(claim))).kind, 'seen')
    pair.aim(standby)
    // A connection that was cut may be found out first.
    await until(
      async () => store.beat(SIGN).then(
        () => false,
        (error: unknown) => error instanceof StoreUnavailable && /read-only, probably a replica/.test(error.message) && !error.answered
      ),
      'the replica to be recognised by a ping'
    )
    await until(
      async () => store.insert(rivalOf(claim)).then(
        () => false,
        (error: unknown) => error instanceof StoreUnavailable && /read-only, probably a replica/.test(error.message)
      ),
      'a retry not to be answered by what the replica has'
    )
    await until(
      async () => store.insert(claimOf()).then(
        () => false,
        (error: unknown) => error instanceof StoreUnavailable && /read-only, probably a replica/.test(error.message) && !error.inDoubt
      ),
      'a claim to be refused, certainly unwritten'
    )
    await assert.rejects(
      connectPostgres(options).open(),
      (error: unknown) => error instanceof StoreUnavailable && /replica/.test(error.message)
    )
    // The address leads to the primary again, and nobody cuts what is connected to the replica.
    pair.aimNewOnes(pair.primary())
    await untilServed(store)
    assert.equal((await rowAt(store, claim.id)).state, 'claimed')
  })
})

/** A role that may do no more than what the gateway needs. */
async function standingOfTheLeastPrivileged (options: PostgresOptions): Promise<Durability> {
  const { schema, url } = options
  await query(url, `create role limited login password 'of-the-user'; grant usage on schema ${schema} to limited; grant select, insert, update, delete on all tables in schema ${schema} to limited`)
  const limited = new URL(url)
  limited.username = 'limited'
  limited.password = 'of-the-user'
  const store = await openPostgres({ ...options, url: limited.href })
  try {
    return await store.durability()
  } finally {
    await store.close()
  }
}

async function untilServed (store: PostgresRecordStore): Promise<void> {
  await until(async () => store.insert(claimOf()).then(({ kind }) => kind === 'won', () => false), 'the new primary to be found')
}
