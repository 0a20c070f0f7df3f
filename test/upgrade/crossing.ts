/** What is under way at a gateway while it is replaced: it is answered there, and its duplicates are told so elsewhere. */
import assert from 'node:assert/strict'
import { eventually } from '../harness/eventually.ts'
import { held } from './book.ts'
import { DRAIN_DELAY_MS, UPSTREAM_TIMEOUT_MS } from './config.ts'
import { assertProblem, assertReplay, assertStatus, DELIVERY_REACHES_MS, Key } from './tale.ts'
import { saidBy } from './world.ts'
import type { Answered, Seat, World } from './world.ts'

/** From the signal to end: the listener has closed by then, and these are still running. */
const ANSWERED_AFTER_MS = DRAIN_DELAY_MS + 500

export interface Crossing {
  /** The gateway has been told to end; in a while the upstream answers. */
  readonly leave: () => void
  /** When another one is in its place: throws what is wrong. */
  readonly check: () => Promise<void>
}

/** Resolves when all are under way, and their duplicates at the other gateway wait, or were told so. */
export async function cross (world: World, leaving: Seat): Promise<Crossing> {
  const staying = world.seats.find((seat) => seat !== leaving)
  const opened = Promise.withResolvers<void>()
  const keyOn = (route: string): Key => new Key(world, route).answeredBy(held(opened.promise))
  const [joined, busy, message] = [keyOn('hold'), keyOn('busy'), keyOn('ordered')]
  const events = world.markStores.map((store) => keyOn(`drop-${store}`))
  // First: it may wait, and what is asked is held no longer than for its timeout.
  assertStatus(await message.ask(leaving), 202, 'accepted')
  await message.reached(DELIVERY_REACHES_MS)
  const asked = [joined, busy, ...events].map((key) => ({ key, answer: key.ask(leaving) }))
  const firsts = Promise.all(asked.map(async ({ answer }) => answer))
  firsts.catch(() => {})
  await Promise.all(asked.map(underWay))
  const waiting = staying === undefined ? null : joined.ask(staying)
  waiting?.catch(() => {})
  if (staying !== undefined) {
    await Promise.all([busy, ...events].map(async (key) => {
      assertProblem(await key.ask(staying), key === busy ? 409 : 503, 'in-flight')
    }))
  }
  return {
    leave: () => { setTimeout(opened.resolve, ANSWERED_AFTER_MS) },
    check: async () => {
      const answers = await firsts
      for (const answer of answers) assertStatus(answer, 201, 'executed')
      const [first] = answers as [Answered]
      if (waiting !== null) assert.equal((await waiting).body.toString(), first.body.toString())
      assertReplay(await joined.ask(), first)
      for (const event of events) assertStatus(await event.ask(), 200, 'duplicate')
      await eventually(
        () => world.book.of(message.key).at(-1)?.status === 201,
        'the message that was being delivered is taken',
        UPSTREAM_TIMEOUT_MS
      )
      for (const key of [joined, busy, message, ...events]) assert.equal(key.attempts.length, 1, 'sent once')
    }
  }
}

/** @throws what is answered, where nothing is executed. */
async function underWay ({ key, answer }: { readonly key: Key, readonly answer: Promise<Answered> }): Promise<void> {
  const early = await Promise.race([key.reached(), answer])
  if (key.attempts.length === 0) throw new Error(early === undefined ? 'not executed' : saidBy(early))
}
