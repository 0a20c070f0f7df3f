/** Postgres passes the suite of the operators' port; and what only it has: time limits in the server, plans, and a trigger. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import type { Position, RecordSummary } from '../../../src/ports/operator.ts'
import { Horizon } from '../../../src/store/postgres/durable.ts'
import { faultOfStatement } from '../../../src/store/postgres/faults.ts'
import { limited } from '../../../src/store/postgres/limited.ts'
import { inSnapshot } from '../../../src/store/postgres/search-step.ts'
import type { Session, Statement, Values } from '../../../src/store/postgres/statements.ts'
import { AUDIT_ROWS, auditIsReadInSteps, operators, RARE_ID, RARE_WHO } from '../../conformance/operators.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, Worlds } from './world.ts'

/** More than a first step reads are at one time, and more than any reads in all. */
const [COPIES, AT_ONE_TIME, RARE_EVERY] = [12_000, 6_000, 100]

describe('operators in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  const worlds = new Worlds()
  after(async () => {
    await worlds.close()
    await (await server)?.stop()
  })

  operators(async (t) => {
    const { store } = await worlds.take(t, await (server ??= startPostgres()))
    return { store }
  })

  test('the audit is read in steps: what is rare is reached from page to page', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()))
    const client = await world.connect()
    const { schema } = world.options
    const id = `case when i = 1 then '\\x${RARE_ID.toString('hex')}' else sha256(i::text::bytea) end`
    const common = `timestamptz '2027-01-15T08:00:00Z' + i / 3 * interval '1 microsecond',
      case when i = 1 then '${RARE_WHO}' else 'ops' end, 'a test', 'charges', 1, 'r'`
    await client.query(`insert into ${schema}.audit (at, who, why, route, attempt, request_id, action, record_id, owner, state)
      select ${common}, 'release', ${id}, '\\x00', 'released' from generate_series(1, ${AUDIT_ROWS}) i`)
    await client.query(`insert into ${schema}.message_audit (at, who, why, route, attempt, request_id, action, message_id, state)
      select ${common}, 'retry', ${id}, 'dead' from generate_series(1, ${AUDIT_ROWS}) i`)
    await auditIsReadInSteps(world.store.operator)
  })

  test('of many records at one time each is found once, from page to page, however many steps they lie apart', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()))
    const claim = claimOf()
    await world.store.insert(claim)
    await world.store.settle(settlementOf(tokenOf(claim), 'completed'))
    const client = await world.connect()
    await client.query(`insert into ${world.records}
      select (jsonb_populate_record(r, jsonb_build_object(
               'id', sha256(n::text::bytea), 'claimed_at', timestamptz '2027-01-15T08:00:00Z' + n / ${AT_ONE_TIME} * interval '1 microsecond',
               'request_id', case when n % ${RARE_EVERY} = 0 then 'rare' else 'usual' end))).*
        from ${world.records} r, generate_series(0, ${COPIES - 1}) n`)
    for (const order of ['newest', 'oldest'] as const) {
      const found: RecordSummary[] = []
      for (let after: Position | null = null; ;) {
        const page = await world.store.operator.searchRecords({ requestId: 'rare', order, limit: 7, after, withinMs: 10_000 })
        found.push(...page.rows)
        assert.equal(page.isWhole, true)
        if (page.next === null) break
        after = page.next
      }
      assert.equal(new Set(found.map(({ id }) => id.toString('hex'))).size, COPIES / RARE_EVERY)
      const times = found.map(({ claimedAtMs }) => order === 'newest' ? -claimedAtMs : claimedAtMs)
      assert.deepEqual([found.length, times], [COPIES / RARE_EVERY, times.toSorted((one, other) => one - other)])
    }
  })

  test('no row of the audit is changed, deleted or truncated, by its owner either', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()))
    await world.store.operator.pause('charges', { who: 'ops', why: 'a test' })
    const client = await world.connect()
    for (const table of ['audit', 'message_audit', 'epochs']) {
      for (
        const change of [
          `update ${world.options.schema}.${table} set who = ''`,
          `delete from ${world.options.schema}.${table}`,
          `truncate ${world.options.schema}.${table}`
        ]
      ) {
        await assert.rejects(client.query(change), /never changed/, change)
      }
    }
  })

  test('what operators read and change one at a time ends in the server when its time is over, and is not in doubt', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()), { operators: true })
    const { records, inbox, operator } = { records: world.store, inbox: world.store.inbox, operator: world.store.operator }
    const claim = claimOf()
    await records.insert(claim)
    const client = await world.connect()
    const { schema } = world.options
    await client.query(`begin; lock table ${world.records}, ${schema}.messages, ${schema}.paused_routes, ${schema}.gateways in access exclusive mode`)
    const audit = { who: 'ops', why: 'a test' }
    const began = performance.now()
    const asked = [
      () => records.list({ id: claim.id, limit: 1 }), () => inbox.list({ id: claim.id, limit: 1 }), () => inbox.depths(),
      () => operator.paused(), () => operator.gateways(), () => operator.pause('charges', audit), () => operator.resume('charges', audit),
      () => records.expire({ id: claim.id, owner: claim.owner, attempt: 1 }, { action: 'delete', ...audit }),
      () => inbox.retry({ id: claim.id, limit: 1 }, audit)
    ]
    for (const ask of asked) {
      await assert.rejects(ask(), (error) => error instanceof StoreUnavailable && !error.inDoubt, String(ask))
    }
    assert.ok(performance.now() - began < asked.length * 4_000)
    const { rows } = await client.query<{ state: string }>(
      "select state from pg_stat_activity where application_name like 'onceway operators%' and state <> 'idle'"
    )
    assert.deepEqual(rows, [])
    await client.query('rollback')
    assert.equal(await operator.pause('charges', audit), true)
    assert.deepEqual((await operator.paused()).map(({ route }) => route), ['charges'])
    assert.equal((await records.list({ id: claim.id, limit: 1 })).length, 1)
  })

  test('a change whose commit got no answer is in doubt, and a read is not', async () => {
    const run = (writes: boolean, lost: string) => limited({
      isUsable: false,
      lockTimeout: '1s',
      horizon: new Horizon(),
      run: ({ name, writes: mayWrite }) => name === lost
        ? Promise.reject(new StoreUnavailable('postgres', name, mayWrite, new Error('Query read timeout')))
        : Promise.resolve([])
    }, 'work', 2_000, (session) => session.run({ name: 'work', writes, text: () => '' }, []))
    const inDoubt = (is: boolean) => (error: unknown) => error instanceof StoreUnavailable && error.inDoubt === is
    for (const lost of ['work', 'limited_commit']) await assert.rejects(run(true, lost), inDoubt(true))
    for (const lost of ['limited_begin', 'limited_limit']) await assert.rejects(run(true, lost), inDoubt(false))
    for (const lost of ['work', 'limited_end']) await assert.rejects(run(false, lost), inDoubt(false))
  })

  test('the gateways of the database are those with a sign of life', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()))
    const client = await world.connect()
    await client.query(`insert into ${world.options.schema}.gateways (id, instance, beat, seen_at) values
      ('\\x01010101010101010101010101010101', 'one', 1, now()), ('\\x02020202020202020202020202020202', 'two', 1, now() - interval '1 minute'),
      ('\\x03030303030303030303030303030303', 'gone', 1, now() - interval '2 hours')`)
    const seen = await world.store.operator.gateways()
    assert.deepEqual(seen.map(({ instance }) => instance), ['one', 'two'])
    assert.ok(seen.every(({ seenMs }) => Math.abs(seenMs - Date.now()) < 120_000))
  })

  test('a search whose end takes longer than its last step may keeps what it found, and leaves no transaction open', async (t) => {
    const client = await (await openWorld(t, await (server ??= startPostgres()))).connect()
    const searchOf = async (slow: string, work: () => void): Promise<string> => {
      let isSlow = true
      const run: Session['run'] = async <Row extends object>({ name, writes, text }: Statement, values: Values) => {
        const isLate = name === slow && isSlow
        if (isLate) isSlow = false
        try {
          return (await client.query<Row>(isLate ? 'select pg_sleep(60)' : text(''), [...values])).rows
        } catch (error) {
          throw faultOfStatement(name, error, writes)
        }
      }
      const use = async <Result>(_operation: string, search: (session: Session) => Promise<Result>) =>
        search({ lockTimeout: '1s', horizon: new Horizon(), run })
      return inSnapshot({ use }, (snapshot) => snapshot(1_000, () => Promise.resolve(work()).then(() => 'found')))
    }
    assert.equal(await searchOf('search_commit', () => {}), 'found')
    await assert.rejects(searchOf('search_rollback', () => { throw new Error('a fault of its own') }), /a fault of its own/)
    const { rows } = await client.query<{ isolation: string }>("select current_setting('transaction_isolation') as isolation")
    assert.deepEqual(rows, [{ isolation: 'read committed' }])
  })

  test('a search that waits for a lock ends in the server when its time is over', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()))
    await world.store.insert(claimOf())
    const client = await world.connect()
    await client.query(`begin; lock table ${world.records} in access exclusive mode`)
    const page = await world.store.operator.searchRecords({ order: 'newest', limit: 10, after: null, withinMs: 300 })
    assert.deepEqual([page.rows, page.isWhole], [[], false])
    const { rows } = await client.query<{ state: string }>(
      "select state from pg_stat_activity where application_name like 'onceway search%' and state = 'active'"
    )
    assert.deepEqual(rows, [])
    await client.query('rollback')
    assert.equal((await world.store.operator.searchRecords({ order: 'newest', limit: 10, after: null, withinMs: 3_000 })).rows.length, 1)
  })
})
