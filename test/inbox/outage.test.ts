/** A consumer that is down for two minutes while messages arrive: how two processes probe it, and how they recover. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { SYSTEM_RANDOM } from '../../src/process/clock.ts'
import type { InboxPolicy } from '../../src/core/policy/policy.ts'
import { accept, after, Consumer, inboxRoute, message, REFUSED, says, shared, startWorker, states } from './world.ts'
import type { Asked, Says, Shared } from './world.ts'

const OUTAGE_MS = 120_000
/** In the first half it refuses connections. Then it accepts them and never answers. */
const REFUSES_MS = OUTAGE_MS / 2
const CONCURRENCY = 8
const PROCESSES = 2
const WAITING = 2_000
const GROUPS = 5
const OF_EACH_GROUP = 12
const WORK_MS = 50
/**
 * The deliveries that began before the consumer was known to be down, and the pauses that double up to a second.
 * At most 3.6 s in 24 measured outages, with random variation.
 */
const SETTLES_DOWN_MS = 6_000
/** The pause between two tries of a consumer that is down, of any message. */
const ASKED_EVERY_MS = 1_000

interface Outage {
  readonly store: Shared
  /** One for each process. */
  readonly consumers: readonly Consumer[]
  readonly beganAtMs: number
  readonly upAtMs: number
}

/** Up to the last moment of the outage. */
async function downFor (t: TestContext, inbox: Partial<InboxPolicy> = {}): Promise<Outage> {
  const store = shared()
  const { clock } = store
  const beganAtMs = clock.monotonicMs()
  const upAtMs = beganAtMs + OUTAGE_MS
  const behave = async ({ atMs }: Asked): Promise<Says> => {
    if (atMs < beganAtMs + REFUSES_MS) return REFUSED
    if (atMs < upAtMs) return null
    await after(clock, WORK_MS)
    return says(204)
  }
  const consumers = Array.from({ length: PROCESSES }, () => new Consumer(clock, behave))
  // Real randomness: messages that failed together must not come back together.
  const workers = consumers.map((consumer) => startWorker(t, store, consumer, {
    routes: [inboxRoute({ concurrency: CONCURRENCY, ...inbox })],
    world: { random: SYSTEM_RANDOM }
  }))
  const everyMs = OUTAGE_MS / WAITING
  for (let count = 0; count < WAITING; count++) {
    const [group, place] = [count % GROUPS, Math.floor(count / GROUPS)]
    const one = place < OF_EACH_GROUP ? message(`${group}-${place}`, { group: `g${group}` }) : message(`m${count}`)
    await accept(store, workers[count % PROCESSES] ?? null, one)
    await clock.advance(everyMs)
  }
  return { store, consumers, beganAtMs, upAtMs }
}

/** The most that began within any `windowMs`. */
function mostWithin (asked: readonly Asked[], windowMs: number): number {
  let [most, first] = [0, 0]
  for (const [last, { atMs }] of asked.entries()) {
    while ((asked[first]?.atMs ?? atMs) <= atMs - windowMs) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}

test('a consumer that is down for two minutes is asked little, and drains afterwards without a stampede', async (t) => {
  const { store, consumers, beganAtMs, upAtMs } = await downFor(t)
  const down = consumers.map(({ asked }) => asked.filter(({ atMs }) => atMs < upAtMs))
  for (const asked of down) {
    const settled = asked.filter(({ atMs }) => atMs >= beganAtMs + SETTLES_DOWN_MS)
    assert.ok(
      asked.length > 0 && asked.length < OUTAGE_MS / ASKED_EVERY_MS + 2 * CONCURRENCY,
      `${asked.length} deliveries by one process while it was down`
    )
    assert.equal(mostWithin(settled, ASKED_EVERY_MS), 1, 'one at a time, a second apart')
  }
  await store.clock.advance(60_000)
  assert.deepEqual(await states(store), { delivered: WAITING })
  for (const consumer of consumers) {
    const up = consumer.asked.filter(({ atMs }) => atMs >= upAtMs)
    const firstAtMs = up[0]?.atMs ?? assert.fail('nothing was asked of it again')
    // One more for each delivery time: one, two, three, … up to the route's concurrency.
    for (let limit = 1; limit <= CONCURRENCY; limit++) {
      assert.ok(
        up.filter(({ atMs }) => atMs < firstAtMs + limit * WORK_MS).length <= limit * (limit + 1) / 2,
        `more than one more in the time of a delivery, up to ${limit}`
      )
    }
    assert.equal(mostWithin(up, WORK_MS), CONCURRENCY, 'in the end it has all its places, and never more')
  }
})

test('what has gathered comes back at the rate of its route, and in the order of each group', async (t) => {
  const ratePerSecond = 40
  const { store, consumers, upAtMs } = await downFor(t, { ratePerSecond })
  await store.clock.advance(90_000)
  assert.deepEqual(await states(store), { delivered: WAITING })
  // Its own rate, and a tenth of a second of saved budget.
  for (const { asked } of consumers) assert.ok(mostWithin(asked.filter(({ atMs }) => atMs >= upAtMs), 1_000) <= ratePerSecond * 1.1 + 1)
  const taken = consumers.flatMap(({ asked }) => asked.filter(({ atMs }) => atMs >= upAtMs)).sort((one, other) => one.atMs - other.atMs)
  assert.equal(taken.length, WAITING, 'each was taken once')
  for (let group = 0; group < GROUPS; group++) {
    const ofGroup = taken.filter(({ text }) => text.startsWith(`${group}-`))
    assert.deepEqual(ofGroup.map(({ text }) => text), Array.from({ length: OF_EACH_GROUP }, (_, place) => `${group}-${place}`))
    assert.equal(mostWithin(ofGroup, WORK_MS), 1, 'one of a group at a time')
  }
})
