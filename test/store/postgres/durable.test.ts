/**
 * Rows that are visible and not durable: the wait of their commit for the standby was cancelled, or the primary has restarted
 * meanwhile. Whoever sees one proves it by a write before he says anything of it, and where no standby is waited for nobody does.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { Client } from 'pg'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { openPostgres, type PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import { switchSchemeOf } from '../../../src/store/postgres/scheme-switch.ts'
import { messageOf } from '../../conformance/inbox-world.ts'
import { bring, claimOf, resolutionOf, rivalOf, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { SWITCH } from '../../conformance/record-schemes.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres } from '../../harness/postgres.ts'
import { startPair, type Pair } from '../../harness/replication.ts'
import { openWorld, optionsOf } from './world.ts'

interface Watched {
  readonly store: PostgresRecordStore
  readonly url: string
  /** How often each statement was run. */
  readonly runs: (operation: string) => number
}

/** Of the looks that write, all kinds. */
const PROOFS = ['claim_look_durably', 'message_look_durably']

function counting (): { readonly meter: { store: (store: string, operation: string) => void }, readonly runs: Watched['runs'] } {
  const counts = new Map<string, number>()
  return {
    meter: { store: (_, operation) => { counts.set(operation, (counts.get(operation) ?? 0) + 1) } },
    runs: (operation) => counts.get(operation) ?? 0
  }
}

const SCHEMA = 'durable'

const IN_DOUBT = (error: unknown): boolean => error instanceof StoreUnavailable && error.inDoubt

describe('a row that is visible and not durable', needs('postgres tools'), () => {
  let pair: Pair
  before(async () => { pair = await startPair({ synchronous: true }) })
  after(() => pair.stop())

  async function start (t: TestContext): Promise<Watched> {
    const { meter, runs } = counting()
    const url = await pair.createDatabase(`durable${String(++databases)}`)
    const store = await openPostgres(optionsOf(url, { schema: SCHEMA, meter, claimTimeoutMs: 1_000 }))
    t.after(() => store.close())
    return { store, url, runs }
  }
  let databases = 0

  /** The commit of `write` is made and not waited for: everybody sees it, and no standby has it until the returned function is called. */
  async function cancelled (t: TestContext, write: () => Promise<unknown>): Promise<() => void> {
    const standby = pair.standby()
    t.after(() => { standby?.resume() })
    standby?.pause()
    const written = assert.rejects(write(), IN_DOUBT)
    await until(async () =>
      (await query(
        pair.primary().url,
        "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
      )).length > 0, 'the commit to wait for the standby')
    await written
    return () => { standby?.resume() }
  }

  test('is neither replayed nor taken for a settle that was stored, until the standby has it', async (t) => {
    const { store } = await start(t)
    const claim = claimOf()
    await store.insert(claim)
    const resume = await cancelled(t, async () => store.settle(settlementOf(tokenOf(claim), 'completed')))
    await Promise.all([
      assert.rejects(store.insert(rivalOf(claim)), IN_DOUBT, 'a claim'),
      assert.rejects(store.confirm(rivalOf(claim)), IN_DOUBT, 'a claim in doubt'),
      assert.rejects(store.look(claim.id), StoreUnavailable, 'a look'),
      assert.rejects(store.settle(settlementOf(tokenOf(claim), 'completed')), IN_DOUBT, 'the same settle again'),
      assert.rejects(store.settleLost(settlementOf(tokenOf(claim), 'completed'), claim, 0), IN_DOUBT, 'as if its row were lost')
    ])
    resume()
    await until(async () => store.look(claim.id).then((row) => row?.state === 'completed', () => false), 'the row to be durable')
    const [seen, refused] = [await store.insert(rivalOf(claim)), await store.settle(settlementOf(tokenOf(claim), 'completed'))]
    assert.deepEqual([seen.kind === 'seen' && seen.row.state, refused.kind === 'refused' && refused.row?.state], ['completed', 'completed'])
  })

  test('is no reason for a 202, nor for a status, until the standby has it', async (t) => {
    const { store: { inbox } } = await start(t)
    const message = messageOf()
    const resume = await cancelled(t, async () => inbox.accept(message))
    await Promise.all([
      assert.rejects(inbox.accept(message), IN_DOUBT, 'the same message again'),
      assert.rejects(inbox.acceptAll([message]), IN_DOUBT, 'a batch of it'),
      assert.rejects(inbox.look(message.id), StoreUnavailable, 'a look')
    ])
    resume()
    await until(async () => inbox.look(message.id).then((found) => found !== null, () => false), 'the message to be durable')
    assert.equal((await inbox.accept(message)).kind, 'seen')
  })

  test('is no reason to tell an operator that it stands so', async (t) => {
    const { store } = await start(t)
    const claim = claimOf()
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
    const resolution = resolutionOf(tokenOf(claim), 'completed')
    const resume = await cancelled(t, async () => store.resolve(resolution))
    const again = assert.rejects(store.resolve(resolution), IN_DOUBT)
    await until(async () =>
      (await query(
        pair.primary().url,
        "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
      )).length > 0, 'the refusal to wait for the standby')
    await again
    resume()
    await until(async () =>
      store
        .resolve(resolution)
        .then((result) => result.kind === 'refused' && result.row?.state === 'completed', () => false), 'the refusal')
  })

  test('is no scheme by which ids are made', async (t) => {
    const { store, url } = await start(t)
    assert.equal((await store.schemes()).current, null)
    const standby = pair.standby()
    t.after(() => { standby?.resume() })
    const client = new Client({ connectionString: url })
    await client.connect()
    t.after(async () => { await client.end() })
    standby?.pause()
    let isDone = false
    const switching = switchSchemeOf(client, SCHEMA, { ...SWITCH, name: '2' }).finally(() => { isDone = true })
    await until(async () => {
      await query(pair.primary().url, "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
      return isDone
    }, 'the switch to be made, and not waited for')
    assert.equal((await switching).kind, 'switched')
    await assert.rejects(store.schemes(), StoreUnavailable)
    standby?.resume()
    await until(async () => store.schemes().then(({ current }) => current?.name === '2', () => false), 'the switch to be durable')
  })

  test('holds up no look at a row that needs no proof', async (t) => {
    const { store } = await start(t)
    const [old, claim, running] = [claimOf(), claimOf(), claimOf()]
    for (const each of [old, claim, running]) await store.insert(each)
    await store.settle(settlementOf(tokenOf(old), 'completed'))
    assert.equal((await store.look(old.id))?.state, 'completed')
    await cancelled(t, async () => store.settle(settlementOf(tokenOf(claim), 'completed')))
    const doubtful = assert.rejects(store.look(claim.id), StoreUnavailable)
    const beganAt = performance.now()
    assert.equal((await store.look(running.id))?.state, 'claimed')
    assert.equal((await store.look(old.id))?.state, 'completed', 'proven by an earlier one')
    assert.ok(performance.now() - beganAt < 500)
    await doubtful
  })

  test('is proven once: what is older than an acknowledged proof costs no other', async (t) => {
    const { store, runs } = await start(t)
    const claims = Array.from({ length: 8 }, () => claimOf())
    for (const claim of claims) await store.insert(claim)
    for (const claim of claims) await store.settle(settlementOf(tokenOf(claim), 'completed'))
    await Promise.all(claims.map(async ({ id }) => store.look(id)))
    const proofs = runs('claim_look_durably')
    assert.ok(proofs >= 1 && proofs <= 2, `${proofs} writes for a batch`)
    for (const { id } of claims) assert.equal((await store.look(id))?.state, 'completed')
    assert.equal(runs('claim_look_durably'), proofs)
  })
})

describe('where no standby is waited for', needs('postgres'), () => {
  test('no look writes', async (t) => {
    const server = await startPostgres()
    t.after(() => server.stop())
    const { meter, runs } = counting()
    const world = await openWorld(t, server, { meter })
    const { store } = world
    const claim = await bring(world, 'completed')
    const message = messageOf()
    await store.inbox.accept(message)
    assert.equal((await store.insert(rivalOf(claim))).kind, 'seen')
    assert.equal((await store.settle(settlementOf(tokenOf(claim), 'completed'))).kind, 'refused')
    assert.equal((await store.inbox.accept(message)).kind, 'seen')
    assert.deepEqual(PROOFS.map(runs), [0, 0])
  })
})
