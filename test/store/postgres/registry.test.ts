/**
 * A claim and an acceptance of one key that overlap in time do not see each other. Who executes registers behind a barrier, and
 * beside it nobody accepts without a claim: each statement is held up here in the midst of the other.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Client } from 'pg'
import type { Aspects } from '../../../src/core/protocol/aspects.ts'
import type { Registering } from '../../../src/ports/registry.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { BELIEVED, type Session, type Statement, type Values } from '../../../src/store/postgres/statements.ts'
import { Horizon } from '../../../src/store/postgres/durable.ts'
import { acceptAll } from '../../../src/store/postgres/inbox-accept.ts'
import { messageOf, ROUTE } from '../../conformance/inbox-world.ts'
import { claimOf, until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { blocked, openWorld, untilBlocked, type PostgresWorld } from './world.ts'

const POLICY: Aspects = {
  mode: 'enforce',
  key: 'header:idempotency-key',
  scope: 'public',
  host: 'not part of the record',
  marks: 'records',
  fingerprint: 'method',
  unknown: 'hold',
  keep: 'api',
  retention: '1 ms',
  lease: '1 ms'
}
const INBOX: Aspects = { ...POLICY, mode: 'inbox' }

/** Longer than any test waits. */
const LONG_MS = 10_000

function orderOf (over: Partial<Registering> = {}, policy: Aspects = POLICY, route = ROUTE): Registering {
  return {
    gateway: randomBytes(16),
    instance: 'old',
    schemes: ['1'],
    routes: [{ route, executes: policy.mode === 'enforce', policy }],
    barrierMs: LONG_MS,
    ...over
  }
}

describe('gateways that tell each other what they execute', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })
  const open = async (t: TestContext, prepared = true): Promise<PostgresWorld> => openWorld(t, await (server ??= startPostgres()), {
    prepared,
    claimTimeoutMs: LONG_MS
  })

  /** Somebody else's transaction in which a message stands under this id: an acceptance of it waits for its end. */
  async function holdUp ({ connect, options: { schema } }: PostgresWorld, id: Buffer): Promise<Client> {
    const client = await connect()
    await client.query('begin')
    await client.query(`insert into ${schema}.messages (id, number, state, blocks, due_at, route, holds, stops, keep_ms, dead_keep_ms, received_at, bytes, fp_alg, fingerprint, scope_hash,
       method, path, request_id, instance, key_hash, target, headers, body)
      values ($1, 0, 'waiting', true, now(), 'r', false, false, 0, 0, now(), 0, 1, '', $1, '', '', '', '', '', '', '', '')`, [id])
    return client
  }

  test('beside a living gateway that executes its route a message is accepted under a claim only', async (t) => {
    const { store, connect, options: { schema } } = await open(t)
    const order = orderOf()
    assert.equal(await store.registry.registered(order.gateway), false)
    await store.registry.register(order)
    assert.equal(await store.registry.registered(order.gateway), true)
    const message = messageOf()
    assert.deepEqual(await store.inbox.accept(message), { kind: 'contended' })
    assert.deepEqual(
      (await store.inbox.acceptAll([messageOf(), messageOf({ route: 'other' })])).map(({ kind }) => kind),
      ['contended', 'accepted']
    )
    assert.deepEqual(await store.inbox.list({ limit: 9 }), [], 'of several none')
    assert.equal((await store.inbox.accept(messageOf({ route: 'other' }))).kind, 'accepted')
    const claim = claimOf({ id: message.id })
    await store.insert(claim)
    assert.equal((await store.inbox.accept({ ...message, underClaim: { owner: claim.owner, attempt: 1 } })).kind, 'accepted')
    const client = await connect()
    const silentFor = async (minutes: number): Promise<void> => {
      await client.query(`update ${schema}.gateways set seen_at = now() - $1 * interval '1 minute'`, [minutes])
    }
    await silentFor(59)
    assert.equal((await store.inbox.accept(messageOf())).kind, 'contended')
    await silentFor(61)
    assert.equal((await store.inbox.accept(messageOf())).kind, 'accepted', 'who has given no sign of life for an hour executes nothing')
    await store.beat({ gateway: order.gateway, instance: 'old', beat: 1, aheadMs: 0 })
    assert.equal((await store.inbox.accept(messageOf())).kind, 'contended')
    await store.registry.register({ ...order, routes: [{ route: ROUTE, executes: false, policy: INBOX }], barrierMs: null })
    assert.equal((await store.inbox.accept(messageOf())).kind, 'accepted')
    await store.registry.register(order)
    await store.registry.withdraw(order.gateway)
    assert.equal((await store.inbox.accept(messageOf())).kind, 'accepted')
  })

  test('an acceptance under a claim that is being lapsed comes to nothing, and one that is under way is lapsed by nobody', async (t) => {
    const world = await open(t)
    const { store, connect, options: { schema } } = world
    const [late, inTime] = [messageOf(), messageOf()]
    const [over, stands] = [claimOf({ id: late.id, leaseMs: 1 }), claimOf({ id: inTime.id, leaseMs: 1 })]
    for (const claim of [over, stands]) await store.insert(claim)
    const client = await connect()
    await client.query('begin')
    await client.query(`update ${schema}.records set state = 'indeterminate', lease_until = null, settled_at = now(), settled_by = 'lease', expires_at = now() + interval '1 h', unknown_stage = 'lease', unknown_code = 'LEASE' where id = $1`, [over.id])
    const accepting = store.inbox.accept({ ...late, underClaim: { owner: over.owner, attempt: 1 } })
    await untilBlocked(await connect(), world, 'inbox')
    await client.query('commit')
    assert.deepEqual(await accepting, { kind: 'recorded' })
    assert.equal(await store.inbox.look(late.id), null)
    const held = await holdUp(world, inTime.id)
    const coming = store.inbox.accept({ ...inTime, underClaim: { owner: stands.owner, attempt: 1 } })
    await untilBlocked(await connect(), world, 'inbox')
    assert.deepEqual(await store.lapse({ ids: [stands.id], running: [], limit: 1, still: () => true }), [])
    await held.query('rollback')
    assert.deepEqual(await coming, { kind: 'accepted' })
  })

  for (const prepared of [true, false]) {
    test(`a registration waits for the acceptances under way, and is not made where they take too long (${prepared ? 'named' : 'unnamed'} statements)`, async (t) => {
      const world = await open(t, prepared)
      const { store } = world
      const message = messageOf()
      const other = await holdUp(world, message.id)
      const accepting = store.inbox.accept(message)
      const watching = await world.connect()
      await untilBlocked(watching, world, 'inbox')
      const order = orderOf()
      await assert.rejects(
        store.registry.register({ ...order, barrierMs: 50 }),
        (error: unknown) => error instanceof StoreUnavailable && error.answered && !error.inDoubt
      )
      assert.equal(await store.registry.registered(order.gateway), false)
      const registering = store.registry.register(order)
      await untilBlocked(watching, world, 'background')
      await other.query('rollback')
      assert.deepEqual(await accepting, { kind: 'accepted' })
      await registering
      // Whoever claims from now on sees it.
      assert.equal((await store.insert(claimOf({ id: message.id }))).kind, 'message')
    })

    test(`an acceptance that has waited behind a registration knows of it (${prepared ? 'named' : 'unnamed'} statements)`, async (t) => {
      const world = await open(t, prepared)
      const { store, connect, options: { schema } } = world
      // Enough for every plan that the server may keep of the statement.
      for (let count = 0; count < 20; count++) assert.equal((await store.inbox.accept(messageOf())).kind, 'accepted')
      const order = orderOf()
      const client = await connect()
      await client.query('begin')
      await client.query(`lock table ${schema}.gateway_routes in exclusive mode`)
      await client.query(`insert into ${schema}.gateways (id, instance, beat, seen_at) values ($1, 'old', 0, now())`, [order.gateway])
      await client.query(`insert into ${schema}.gateway_routes values ($1, $2, true, '{}')`, [order.gateway, ROUTE])
      const accepting = Array.from({ length: 3 }, async () => store.inbox.accept(messageOf()))
      const together = store.inbox.acceptAll([messageOf(), messageOf()])
      const watching = await connect()
      await until(async () => (await blocked(watching, world, 'inbox')).length === 2, 'both kinds of acceptances to wait')
      await client.query('commit')
      assert.deepEqual((await Promise.all(accepting)).map(({ kind }) => kind), ['contended', 'contended', 'contended'])
      assert.equal((await together)[0]?.kind, 'contended')
    })
  }

  test('of a batch none is taken in, and none called so, where an event is claimed between the look and the insert', async (t) => {
    const { store, connect, options: { schema } } = await open(t)
    const client = await connect()
    const [one, claimed] = [messageOf(), messageOf()]
    const session: Session = {
      lockTimeout: '1s',
      horizon: new Horizon(),
      run: async <Row extends object>({ name, text, idsAsText = false }: Statement, values: Values): Promise<Row[]> => {
        if (name === 'message_accept_all') await store.insert(claimOf({ id: claimed.id }))
        const { rows } = await client.query<Record<string, unknown>>(
          text(schema).replaceAll(BELIEVED, "'infinity'::timestamptz"),
          [...values]
        )
        return rows.map((row) => idsAsText && Buffer.isBuffer(row.id) ? { ...row, id: row.id.toString('hex') } : row) as Row[]
      }
    }
    assert.deepEqual((await acceptAll(session, [one, claimed], new Set())).map(({ kind }) => kind), ['accepted', 'recorded'])
    assert.deepEqual(await store.inbox.list({ limit: 9 }), [])
  })

  test('a backup that reads everything for hours holds up no registration', async (t) => {
    const { store, connect, options: { schema } } = await open(t)
    const backup = await connect()
    await backup.query('begin')
    await backup.query(`lock table ${schema}.gateway_routes, ${schema}.gateways in access share mode`)
    await store.registry.register(orderOf({ barrierMs: 100 }))
    await backup.query('rollback')
  })

  test('what another living gateway has otherwise, or this one has not, is told, and what is alike is not', async (t) => {
    const { store, connect, options: { schema } } = await open(t)
    const [mine, alike, other] = [
      orderOf({ instance: 'mine' }),
      orderOf({ instance: 'alike' }),
      orderOf({ instance: 'other' }, { ...POLICY, scope: 'credential' })
    ]
    for (const each of [mine, alike, other]) await store.registry.register(each)
    await store.registry.register(orderOf({ instance: 'elsewhere' }, POLICY, 'renamed'))
    const told = async () => (await store.registry.differing(mine.gateway)).map(({ instance, route, policy: { scope } }) => [
      instance,
      route,
      scope
    ])
    assert.deepEqual(await told(), [['elsewhere', 'renamed', POLICY.scope], ['other', ROUTE, 'credential']])
    await (await connect()).query(`update ${schema}.gateways set seen_at = now() - interval '2 minutes' where instance <> 'mine'`)
    assert.deepEqual(await store.registry.differing(mine.gateway), [])
  })

  test('registrations of gateways that are long gone are taken away by those that come', async (t) => {
    const { store, connect, options: { schema } } = await open(t)
    await store.registry.register(orderOf())
    const client = await connect()
    await client.query(`update ${schema}.gateways set seen_at = now() - interval '25 hours'`)
    await store.registry.register(orderOf())
    assert.equal((await client.query(`select from ${schema}.gateway_routes`)).rowCount, 1)
  })
})
