/**
 * Accepters and workers in two processes at once, with fates drawn by chance: nothing is lost, nothing handed out
 * twice, and every group keeps its order.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Delivery, Fate, NewMessage } from '../../../src/core/inbox/message.ts'
import type { InboxStore } from '../../../src/ports/inbox.ts'
import {
  acceptInTurn,
  againIn,
  againOf,
  DEAD,
  DELIVERED,
  EVERYTHING,
  HELD,
  idsOf,
  messageOf,
  namesOf,
  ROUTE,
  takeFrom,
  workerOf
} from '../../conformance/inbox-world.ts'
import { until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, untilBlocked } from './world.ts'

const GROUPS = 12
const OF_EACH_GROUP = 12
const ALONE = 100
const WORKERS_OF_EACH = 3
const PLACES = 4

/** What consumers would have seen. Throws where a promise is broken. */
class Consumers {
  readonly ended = new Map<string, Fate['kind']>()
  readonly #orders = new Map<string, string[]>()
  readonly #groups = new Map<string, string>()
  readonly #handedOut = new Set<string>()
  readonly #underWay = new Map<string, string>()

  expect (group: string, messages: readonly NewMessage[]): void {
    const ids = messages.map(nameOf)
    this.#orders.set(group, ids)
    for (const id of ids) this.#groups.set(id, group)
  }

  begin ({ token }: Delivery): void {
    const id = nameOf(token)
    const delivery = `${id} ${token.attempt}`
    assert.ok(!this.#handedOut.has(delivery), 'handed out twice under one attempt')
    this.#handedOut.add(delivery)
    assert.ok(!this.ended.has(id), 'handed out after its end')
    const group = this.#groups.get(id)
    if (group === undefined) return
    assert.equal(this.#underWay.get(group), undefined, 'one of a group at a time')
    this.#underWay.set(group, id)
    const order = this.#orders.get(group) ?? []
    for (const earlier of order.slice(0, order.indexOf(id))) {
      assert.ok(this.ended.has(earlier), 'before an earlier one of its group has ended')
    }
  }

  /** Before it is settled, or given up: afterwards the next may come at any moment. */
  end ({ token }: Delivery, kind: Fate['kind']): void {
    const id = nameOf(token)
    if (kind !== 'again') this.ended.set(id, kind)
    this.#underWay.delete(this.#groups.get(id) ?? '')
  }
}

const FATES: readonly Fate[] = [DELIVERED, DELIVERED, DELIVERED, againIn(1), againIn(20), DEAD, HELD]

describe('the inbox of two processes', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  test('accepters and workers at once: nothing is lost, nothing handed out twice, every group keeps its order, one at a time', async (t) => {
    const { store, reopen } = await openWorld(t, server)
    const inboxes = [store.inbox, (await reopen()).inbox] as const
    const consumers = new Consumers()
    const groups = Array.from({ length: GROUPS }, (_, group) => Array.from({ length: OF_EACH_GROUP }, () => messageOf({
      group: `group ${group}`
    })))
    const alone = Array.from({ length: ALONE }, () => messageOf())
    const all = [...groups.flat(), ...alone]
    for (const [group, messages] of groups.entries()) consumers.expect(`group ${group}`, messages)

    const work = async (inbox: InboxStore): Promise<void> => {
      let owner = await workerOf(inbox)
      while (consumers.ended.size < all.length) {
        const taken = await takeFrom(inbox, owner, PLACES)
        for (const delivery of taken) consumers.begin(delivery)
        const dies = taken.length > 0 && Math.random() < 0.05
        await Promise.all(taken.map(async (delivery) => {
          const fate = dies ? againIn(0) : FATES[Math.floor(Math.random() * FATES.length)] as Fate
          consumers.end(delivery, fate.kind)
          if (!dies) assert.equal(await inbox.settle(delivery.token, fate), true)
        }))
        if (dies) {
          await inbox.gone(owner)
          owner = await workerOf(inbox)
        }
        if (taken.length === 0) await inbox.recover(10)
      }
    }
    const acceptOnce = async (message: NewMessage): Promise<void> => {
      const results = await Promise.all(inboxes.map((inbox) => inbox.accept(againOf(message))))
      assert.deepEqual(results.map(({ kind }) => kind).sort(), ['accepted', 'seen'])
    }
    const acceptInOrder = async (messages: readonly NewMessage[]): Promise<void> => {
      for (const message of messages) await acceptOnce(message)
    }
    await Promise.all([
      ...groups.map(acceptInOrder),
      ...alone.map(acceptOnce),
      ...inboxes.flatMap((inbox) => Array.from({ length: WORKERS_OF_EACH }, () => work(inbox)))
    ])
    for (const { id, state } of await store.inbox.list(EVERYTHING)) assert.equal(state, consumers.ended.get(id.toString('hex')))
    assert.equal((await store.inbox.list(EVERYTHING)).length, all.length)
  })

  test('acceptances of one group at the same moment, and takers beside them: one at a time all the same', async (t) => {
    const { store, reopen } = await openWorld(t, server)
    const inboxes = [store.inbox, (await reopen()).inbox] as const
    const messages = Array.from({ length: 120 }, (_, index) => messageOf({ group: `group ${index % 4}` }))
    const underWay = new Map<string, number>()
    let delivered = 0
    const groupOf = new Map(messages.map((message) => [nameOf(message), message.group?.toString('hex') ?? '']))
    const work = async (inbox: InboxStore): Promise<void> => {
      const owner = await workerOf(inbox)
      while (delivered < messages.length) {
        const taken = await takeFrom(inbox, owner, PLACES)
        await Promise.all(taken.map(async ({ token }) => {
          const group = groupOf.get(nameOf(token)) ?? ''
          underWay.set(group, (underWay.get(group) ?? 0) + 1)
          assert.equal(underWay.get(group), 1)
          await new Promise((resolve) => { setImmediate(resolve) })
          underWay.set(group, 0)
          delivered++
          assert.equal(await inbox.settle(token, DELIVERED), true)
        }))
      }
    }
    await Promise.all([
      ...messages.map(async (message, index) => inboxes[index % 2]?.accept(message)),
      ...inboxes.flatMap((inbox) => Array.from({ length: WORKERS_OF_EACH }, () => work(inbox)))
    ])
    await until(async () => (await store.inbox.depths()).length === 0, 'all to be delivered')
  })

  test('of two whose acceptances overlapped the earlier one goes first, though both are due and the later one for longer', async (t) => {
    const { store: { inbox }, connect, options } = await openWorld(t, server)
    const [earlier, later] = [messageOf({ group: 'a' }), messageOf({ group: 'a' })]
    await acceptInTurn(inbox, [earlier, later])
    await (await connect()).query(
      `update ${options.schema}.messages set due_at = clock_timestamp() - interval '1 minute' where id = $1`,
      [later.id]
    )
    const owner = await workerOf(inbox)
    assert.deepEqual(namesOf(await takeFrom(inbox, owner)), idsOf(earlier))
    assert.deepEqual([await inbox.dueInMs([ROUTE]), namesOf(await takeFrom(inbox, owner))], [null, []])
  })

  test('a taker that cannot see what another one is taking of the group takes nothing of it', async (t) => {
    const world = await openWorld(t, server)
    const { store: { inbox }, connect, options } = world
    const [earlier, later, alone] = [messageOf({ group: 'a' }), messageOf({ group: 'a' }), messageOf()]
    await acceptInTurn(inbox, [earlier, later, alone])
    const owners = [await workerOf(inbox), await workerOf(inbox)] as const
    // As a taker would, to whom the earlier one's acceptance was not visible yet.
    const other = await connect()
    await other.query('begin')
    await other.query(
      `update ${options.schema}.messages set state = 'delivering', owner = $2, attempt = 1, due_at = null where id = $1`,
      [later.id, owners[0]]
    )
    const taking = takeFrom(inbox, owners[1])
    await untilBlocked(other, world, 'deliveries')
    await other.query('commit')
    assert.deepEqual(namesOf(await taking), idsOf(alone), 'and what else was due it has')
    assert.equal(await inbox.settle({ id: later.id, owner: owners[0], attempt: 1 }, DELIVERED), true)
    assert.deepEqual(namesOf(await takeFrom(inbox, owners[1])), idsOf(earlier))
  })

  test('a message whose turn is taken back while the one before it ends is called again', async (t) => {
    const world = await openWorld(t, server)
    const { store: { inbox }, connect, options: { schema } } = world
    const [earlier, later] = [messageOf({ group: 'a' }), messageOf({ group: 'a' })]
    await acceptInTurn(inbox, [earlier, later])
    const owner = await workerOf(inbox)
    const took = async () => (await takeFrom(inbox, owner))[0]?.token ?? assert.fail('nothing was taken')
    // The later one is on its way when an operator asks for the earlier one again, and comes back behind it.
    await inbox.settle(await took(), DEAD)
    const laterToken = await took()
    await inbox.retry({ id: earlier.id, limit: 1 }, { who: 'ops', why: 'a test' })
    await inbox.settle(laterToken, againIn(0))
    const earlierToken = await took()
    assert.deepEqual(earlierToken.id, earlier.id)
    const other = await connect()
    await other.query(`create function ${schema}.slow () returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(1); return new; end $$;
      create trigger slow before update on ${schema}.messages for each row when (old.due_at is not null and new.due_at is null and new.state = 'waiting') execute function ${schema}.slow()`)
    await other.query('select pg_advisory_lock(1)')
    await inbox.accept(messageOf({ group: 'a' }))
    await untilBlocked(other, world, 'deliveries')
    assert.equal(await inbox.settle(earlierToken, DELIVERED), true)
    await other.query('select pg_advisory_unlock(1)')
    await until(async () => namesOf(await takeFrom(inbox, owner)).join() === idsOf(later).join(), 'the later one to be taken')
  })

  test('a message that somebody holds locked holds up none of the others', async (t) => {
    const { store: { inbox }, connect, options } = await openWorld(t, server)
    const [held, ...others] = [messageOf(), messageOf(), messageOf()]
    await acceptInTurn(inbox, [held, ...others])
    const other = await connect()
    await other.query('begin')
    await other.query(`select from ${options.schema}.messages where id = $1 for no key update`, [held.id])
    const owner = await workerOf(inbox)
    assert.deepEqual(namesOf(await takeFrom(inbox, owner)), idsOf(...others))
    await other.query('rollback')
    assert.deepEqual(namesOf(await takeFrom(inbox, owner)), idsOf(held))
  })

  test('a take that waits too long for another one takes nothing, and is asked for again', async (t) => {
    const world = await openWorld(t, server)
    const { store: { inbox }, connect, options } = world
    const [earlier, later] = [messageOf({ group: 'a' }), messageOf({ group: 'a' })]
    await acceptInTurn(inbox, [earlier, later])
    const owner = await workerOf(inbox)
    const other = await connect()
    await other.query('begin')
    await other.query(
      `update ${options.schema}.messages set state = 'delivering', owner = $2, attempt = 1, due_at = null where id = $1`,
      [later.id, owner]
    )
    assert.deepEqual(await takeFrom(inbox, owner), [])
    await other.query('rollback')
    assert.deepEqual(namesOf(await takeFrom(inbox, owner)), idsOf(earlier))
  })

  test('operators, takers and the sweeper at once never hold each other up for good', async (t) => {
    const { store, reopen } = await openWorld(t, server)
    const inboxes = [store.inbox, (await reopen()).inbox] as const
    const messages = Array.from({ length: 60 }, (_, index) => messageOf({
      group: `group ${index % 6}`,
      stops: index % 2 === 0,
      deadKeepMs: index % 3 === 0 ? 1 : 600_000,
      keepMs: 1
    }))
    const audit = { who: 'ops', why: 'a test' }
    await store.inbox.acceptAll(messages)
    const owners = await Promise.all(inboxes.map((inbox) => workerOf(inbox)))
    const rounds = async (work: (inbox: InboxStore, owner: Buffer) => Promise<unknown>): Promise<void> => {
      await Promise.all(inboxes.map(async (inbox, index) => {
        for (let round = 0; round < 15; round++) await work(inbox, owners[index] as Buffer)
      }))
    }
    await Promise.all([
      rounds(async (inbox, owner) => Promise.all((await takeFrom(inbox, owner, PLACES)).map(({ token }) =>
        inbox.settle(token, FATES[Math.floor(Math.random() * FATES.length)] as Fate)))),
      rounds((inbox) => inbox.retry({ limit: 10 }, audit)),
      rounds((inbox) => inbox.discard({ state: 'dead', limit: 3 }, audit)),
      rounds((inbox) => inbox.sweep(5)),
      rounds((inbox) => inbox.recover(5)),
      rounds((inbox) => inbox.acceptAll(messages.slice(0, 20)))
    ])
    // Whatever they did to each other, what is open can be brought to its end.
    await until(async () => {
      await store.inbox.sweep(100)
      await store.inbox.retry(EVERYTHING, audit)
      for (const { token } of await takeFrom(store.inbox, owners[0] as Buffer)) await store.inbox.settle(token, DELIVERED)
      return (await store.inbox.depths()).length === 0
    }, 'all to be delivered')
  })
})

function nameOf ({ id }: { readonly id: Buffer }): string {
  return id.toString('hex')
}
