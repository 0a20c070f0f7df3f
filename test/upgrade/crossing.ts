/** What is under way at a gateway while it is replaced: it is answered there, and its duplicates are told so elsewhere. */
import assert from 'node:assert/strict'
import { Key, assertProblem, assertReplay, assertStatus } from './tale.ts'
import { BRIEF_TIMEOUT_MS, DRAIN_DELAY_MS } from './config.ts'
import { eventually } from '../harness/eventually.ts'
import type { Seat, World } from './world.ts'

/** Outlasts the drain's delay: these are still running when the listener has closed. */
const SLOW_MS = DRAIN_DELAY_MS + 800
/** An event's upstream is waited for less long. */
const EVENT_MS = BRIEF_TIMEOUT_MS - 200

/** Resolves when all are under way, to what waits until all are answered and throws what is wrong. */
export async function cross (world: World, leaving: Seat): Promise<() => Promise<void>> {
  const staying = world.seats.find(seat => seat !== leaving)
  const slow = { 'X-Delay-Ms': String(SLOW_MS) }
  const [joined, busy, message] = [new Key(world, 'hold', slow), new Key(world, 'busy', slow), new Key(world, 'ordered', slow)]
  const events = world.markStores.map(store => new Key(world, `drop-${store}`, { 'X-Delay-Ms': String(EVENT_MS) }))
  const firsts = [joined, busy, ...events].map(async key => key.ask(leaving))
  assertStatus(await message.ask(leaving), 202, 'accepted')
  await Promise.all([joined, busy, message, ...events].map(async key => key.reached()))
  const waiting = staying === undefined ? null : joined.ask(staying)
  const told = staying === undefined ? [] : [busy, ...events].map(async (key, index) => assertProblem(await key.ask(staying), index === 0 ? 409 : 503, 'in-flight'))
  const asked = Promise.all([...firsts, ...told, waiting])
  asked.catch(() => {})
  return async () => {
    await asked
    const [first, ...others] = await Promise.all(firsts)
    for (const answer of [first, ...others]) assertStatus(answer as NonNullable<typeof answer>, 201, 'executed')
    if (waiting !== null) assert.equal((await waiting).body.toString(), first?.body.toString())
    assertReplay(await joined.ask(), first as NonNullable<typeof first>)
    for (const event of events) assertStatus(await event.ask(), 200, 'duplicate')
    await eventually(() => world.book.of(message.key).at(-1)?.status === 201, 'the message that was being delivered is taken', SLOW_MS + 5_000)
    for (const key of [joined, busy, message, ...events]) assert.equal(key.attempts.length, 1, 'sent once')
  }
}
