/** The health of consumers: since when one fails, the pause that follows, and the trial of one message. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { HealthChange, RouteHealth } from '../../src/core/inbox/health.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import { acceptInTurn, againIn, DELIVERED, messageOf, namesOf, SHORT_MS, takeFrom, untilAfter, workerOf } from './inbox-world.ts'
import type { OpenInbox } from './inbox-world.ts'

const TRIAL_MS = 300

/** A store serves several tests, and what it keeps of a route stays. */
function routeOf (): string {
  return `hooks ${randomBytes(8).toString('hex')}`
}

async function healthOf (store: InboxStore, name: string): Promise<RouteHealth | null> {
  return (await store.health()).find(({ route }) => route === name) ?? null
}

const pauseOf = (route: string, afterMs = 0): HealthChange => ({ kind: 'pause', route, afterMs, trialMs: TRIAL_MS, why: 'it fails' })

async function pauseNow (store: InboxStore, route: string): Promise<void> {
  await store.changeHealth({ kind: 'failing', route, gapMs: 600_000 })
  assert.ok(await store.changeHealth(pauseOf(route)))
}

export function inboxHealth (open: OpenInbox): void {
  test('a consumer that fails is paused once it has failed for so long, by one process of all', async (t) => {
    const world = await open(t)
    const { store } = world
    const route = routeOf()
    assert.equal(await healthOf(store, route), null)
    assert.equal(await store.changeHealth(pauseOf(route)), false, 'one that does not fail is not paused')
    await store.changeHealth({ kind: 'failing', route, gapMs: 600_000 })
    assert.equal(await store.changeHealth(pauseOf(route, 600_000)), false, 'not for so long yet')
    await untilAfter(world, SHORT_MS, async () => ((await healthOf(store, route))?.failing?.forMs ?? 0) >= SHORT_MS, 'it fails for a while')
    await store.changeHealth({ kind: 'failing', route, gapMs: 600_000 })
    const { forMs = 0, lastMs = 0 } = (await healthOf(store, route))?.failing ?? {}
    assert.ok(forMs >= SHORT_MS && lastMs < forMs, 'since the first time')
    const paused = await Promise.all([1, 2, 3].map(async () => store.changeHealth(pauseOf(route, SHORT_MS))))
    assert.deepEqual(paused.sort(), [false, false, true])
    const health = await healthOf(store, route)
    assert.ok((health?.pause?.trialInMs ?? 0) > 0)
  })

  test('a failure long after the last one is a new one', async (t) => {
    const world = await open(t)
    const { store } = world
    const route = routeOf()
    await store.changeHealth({ kind: 'failing', route, gapMs: 600_000 })
    await untilAfter(world, SHORT_MS, async () => ((await healthOf(store, route))?.failing?.lastMs ?? 0) > SHORT_MS / 2, 'a while')
    await store.changeHealth({ kind: 'failing', route, gapMs: SHORT_MS / 2 })
    assert.ok(((await healthOf(store, route))?.failing?.forMs ?? SHORT_MS) < SHORT_MS)
    await store.changeHealth({ kind: 'well', route })
  })

  test('while it is paused nothing is taken but in a trial, which one process begins when its time has come', async (t) => {
    const world = await open(t)
    const { store } = world
    const route = routeOf()
    const messages = [messageOf({ route }), messageOf({ route, group: 'g' })]
    await store.acceptAll(messages)
    const owner = await workerOf(store)
    await pauseNow(store, route)
    assert.deepEqual(await takeFrom(store, owner, 10, route), [])
    const trial: HealthChange = { kind: 'trial', route, trialMs: TRIAL_MS }
    assert.equal(await store.changeHealth(trial), false, 'it is too early')
    await untilAfter(world, TRIAL_MS, async () => ((await healthOf(store, route))?.pause?.trialInMs ?? 1) <= 0, 'its time has come')
    assert.deepEqual((await Promise.all([store.changeHealth(trial), store.changeHealth(trial)])).sort(), [false, true])
    const taken = await store.take({ routes: [{ route, places: 1 }], owner, trial: true })
    assert.equal(taken.length, 1)
    assert.deepEqual(await takeFrom(store, owner, 10, route), [], 'a trial is no resumption')
    for (const { token } of taken) await store.settle(token, DELIVERED)
    assert.equal(await store.changeHealth({ kind: 'well', route }), true)
    assert.equal(await store.changeHealth({ kind: 'well', route }), false)
    assert.equal(await healthOf(store, route), null)
    assert.equal(namesOf(await takeFrom(store, owner, 10, route)).length, 1)
  })

  test('a trial takes what was handed out least often, so that messages that are refused do not keep others from it', async (t) => {
    const { store } = await open(t)
    const route = routeOf()
    const owner = await workerOf(store)
    await acceptInTurn(store, [{ group: 'a' }, {}, { group: 'b' }, {}].map((over) => messageOf({ route, ...over })))
    for (const { token } of await takeFrom(store, owner, 10, route)) await store.settle(token, againIn(0))
    const healthy = messageOf({ route })
    await acceptInTurn(store, [healthy])
    await pauseNow(store, route)
    const tried = async () => {
      const [message, ...others] = await store.take({ routes: [{ route, places: 1 }], owner, trial: true })
      assert.ok(message !== undefined && others.length === 0)
      await store.settle(message.token, againIn(0))
      return message.token
    }
    assert.deepEqual((await tried()).id, healthy.id)
    const next = [await tried(), await tried(), await tried(), await tried(), await tried()]
    assert.deepEqual(next.map(({ attempt }) => attempt), [2, 2, 2, 2, 2])
    assert.equal(new Set(next.map(({ id }) => id.toString('hex'))).size, 5, 'each of them')
    await store.changeHealth({ kind: 'well', route })
  })
}
