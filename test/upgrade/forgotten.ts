/**
 * A gateway of the release before that runs on while ids are upgraded. It registers nothing: its connections alone show it, and the
 * command is refused, until somebody takes it for gone. From then on it has nothing claimed any more, and so sends nothing: nothing
 * is executed under two ids.
 */
import assert from 'node:assert/strict'
import { eventually } from '../harness/eventually.ts'
import { held, saying, usual } from './book.ts'
import { UPSTREAM_TIMEOUT_MS } from './config.ts'
import { wrongNames } from './names.ts'
import { TREE } from './release.ts'
import type { Release } from './release.ts'
import { assertProblem, assertReplay, assertStatus, Key } from './tale.ts'
import { saidBy, startWorld } from './world.ts'
import type { Answered, Ending, Seat, Stores } from './world.ts'

const RECORDS = ['hold', 'busy', 'retry', 'probe', 'relay']
const ACCEPTED = ['ordered', 'held']
/** So long the upstream may hold a request while the command starts and is through, on a busy machine. */
const HELD_MAX_MS = 60_000

export async function assertForgottenClaimsNothing (ending: Ending, stores: Stores, earlier: Release): Promise<void> {
  const world = await startWorld(ending, stores, earlier, HELD_MAX_MS)
  const [forgotten, upgraded] = world.seats as [Seat, Seat]
  const on = (route: string): Key => new Key(world, route)

  const [done, free, waiting] = [on('hold'), on('hold').answeredBy(saying(429)), on('ordered').answeredBy(saying(422))]
  const first = await done.ask(forgotten)
  assertStatus(first, 201, 'executed')
  assert.equal((await free.ask(forgotten)).headers['idempotency-status'], 'released')
  assertStatus(await waiting.ask(forgotten), 202, 'accepted')
  await upgraded.terminate()
  await upgraded.start(TREE)
  const opened = Promise.withResolvers<void>()
  const running = on('hold').answeredBy(held(opened.promise))
  const ran = running.ask(forgotten)
  await running.reached()

  const begunAtMs = Date.now()
  const upgrade = async (...more: readonly string[]): Promise<void> =>
    upgraded.command('ids', 'upgrade', '--yes', '--why', 'every gateway that is known can', ...more)
  const [, name = ''] = /refused, nothing changed\. Not every gateway can make ids by this scheme: (\S+) \(seen 0 s ago\)\./.exec(
    String(await upgrade().catch(textOf))
  ) ??
    assert.fail('it should be refused')
  await upgrade('--without', name)
  const switched = { begunAtMs, endedAtMs: Date.now(), secret: upgraded.secret }
  // What it has claimed by then is its own still, and found by the others under the id that it has.
  opened.resolve()
  const answered = await ran
  assertStatus(answered, 201, 'executed')

  for (const route of [...RECORDS, ...ACCEPTED, 'drop-database']) {
    const key = on(route)
    assertRefused(await key.ask(forgotten), route)
    key.assertSent()
    assertStatus(await key.ask(upgraded), ACCEPTED.includes(route) ? 202 : 201, ACCEPTED.includes(route) ? 'accepted' : 'executed')
    await key.reached()
    assertRefused(await key.ask(forgotten), route)
    assert.equal(key.attempts.length, 1, route)
  }
  assertReplay(await running.ask(upgraded), answered)
  assertReplay(await done.ask(upgraded), first)
  done.assertSent(1)
  assertRefused(await free.answeredBy(usual).ask(forgotten), 'a released record')
  free.assertSent(1)
  assertStatus(await free.ask(upgraded), 201, 'executed')
  free.assertSent(1, 2)
  waiting.answeredBy(usual)
  await eventually(() => world.book.of(waiting.key).at(-1)?.status === 201, 'the message that waited is taken', UPSTREAM_TIMEOUT_MS)
  // Where the mark is in Redis alone no database refuses it: whoever comes second finds what the first one has left.
  for (const seats of stores.redis === null ? [] : [[forgotten, upgraded], [upgraded, forgotten]] as const) {
    const event = on('drop-redis')
    assertStatus(await event.ask(seats[0]), 201, 'executed')
    const second = await event.ask(seats[1])
    if (second.status !== 200) assertProblem(second, 503, 'in-flight')
    assert.equal(event.attempts.length, 1)
  }
  assert.deepEqual(wrongNames(world, switched).filter((each) => !each.includes('/drop-redis/')), [])

  await forgotten.terminate()
  assert.match(
    await forgotten.refused(earlier),
    /was migrated by a newer release and needs a build that knows migration 9; this one ends at 7: install the newer release/
  )
}

function textOf (error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function assertRefused (answer: Answered, what: string): void {
  assert.ok(answer.status >= 500, `${what}: ${saidBy(answer)}`)
}
