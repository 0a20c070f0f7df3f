/** A record in each state: completed, consumed, released, indeterminate, and claimed by a process that died; and marks. */
import assert from 'node:assert/strict'
import { eventually } from '../harness/eventually.ts'
import type { Behaviour } from '../harness/witness.ts'
import { lost, saying, silent, usual } from './book.ts'
import { assertProblem, assertReplay, assertStatus, Key, SOON_MS } from './tale.ts'
import type { Story, Tale } from './tale.ts'
import { codeOf, saidBy } from './world.ts'
import type { Seat, World } from './world.ts'

/** What another request under the same key is, on a route that compares bodies, or targets only. */
const OTHER_BODY = { body: 'something else' }
const OTHER_TARGET = (route: string) => ({ path: `/${route}/others` })

export const RECORDS: readonly Story[] = [
  completed('hold', usual, OTHER_BODY),
  completed('hold', saying(500), OTHER_BODY),
  completed('relay', usual, OTHER_TARGET('relay')),
  consumed,
  released('hold', 429),
  released('relay', 422),
  unknown,
  sentAgain,
  probed
]

/** Those that are under way when their process is killed: begun at the one that will be. */
export const KILLED: ReadonlyArray<(world: World, seat: Seat) => Promise<Tale>> = [killedWhereHeld, killedWhereRetried]

export function marks ({ markStores }: World): Story[] {
  return markStores.flatMap((store) => [done(`drop-${store}`), notDone(`drop-${store}`)])
}

export function killedEvents ({ markStores }: World): typeof KILLED {
  return markStores.map((store) => async (world, seat) => killedEvent(`drop-${store}`, world, seat))
}

function completed (route: string, manner: Behaviour, other: { readonly body?: string, readonly path?: string }): Story {
  return async (world) => {
    const key = new Key(world, route).answeredBy(manner)
    const first = await key.ask()
    assertStatus(first, first.status, 'executed')
    return {
      name: `a completed record of route ${route}, ${first.status}`,
      still: async (to) => {
        assertReplay(await key.ask(to), first)
        assertProblem(await key.ask(to, other), 422, 'key-reused')
        key.assertSent(1)
      }
    }
  }
}

async function consumed (world: World): Promise<Tale> {
  const key = new Key(world, 'hold').answeredBy(saying(200, { 'Idempotency-Policy': 'no-body' }))
  assertStatus(await key.ask(), 200, 'executed')
  return {
    name: 'a tombstone',
    still: async (to) => {
      assertProblem(await key.ask(to), 409, 'answer-not-kept')
      assertProblem(await key.ask(to, OTHER_BODY), 422, 'key-reused')
      key.assertSent(1)
    }
  }
}

/** Free again; the next release executes it, once. */
function released (route: string, status: number): Story {
  return async (world) => {
    const key = new Key(world, route).answeredBy(saying(status))
    const refused = await key.ask()
    assert.equal(refused.headers['idempotency-status'], 'released', saidBy(refused))
    const tale: Tale = { name: `a released record of route ${route}`, still: null, next: async () => executedAgain(tale, key) }
    return tale
  }
}

async function unknown (world: World): Promise<Tale> {
  const key = new Key(world, 'hold').answeredBy(lost)
  assertProblem(await key.ask(), 502, 'outcome-unknown')
  return {
    name: 'an unknown outcome that is held',
    still: async (to) => {
      assertProblem(await key.ask(to), 502, 'outcome-unknown')
      assertProblem(await key.ask(to, OTHER_BODY), 422, 'key-reused')
      key.assertSent(1)
    }
  }
}

async function sentAgain (world: World): Promise<Tale> {
  const key = new Key(world, 'retry').answeredBy(lost)
  assertProblem(await key.ask(), 502, 'outcome-unknown')
  const tale: Tale = { name: 'an unknown outcome that may be sent again', still: null, next: async () => executedAgain(tale, key) }
  return tale
}

/** As attempt 2 of the same record; replayed from then on. */
async function executedAgain (tale: Tale, key: Key): Promise<void> {
  const [record] = [key.record]
  const executed = await key.answeredBy(usual).ask()
  assertStatus(executed, 201, 'executed')
  key.assertSent(1, 2)
  assert.equal(key.record, record)
  tale.still = async (to) => {
    assertReplay(await key.ask(to), executed)
    key.assertSent(1, 2)
  }
}

/** The upstream cannot say at first; when it can, its answer is replayed, and nothing was sent again. */
async function probed (world: World): Promise<Tale> {
  const key = new Key(world, 'probe').answeredBy(lost)
  assertProblem(await key.ask(), 502, 'outcome-unknown')
  return {
    name: 'an unknown outcome that is asked about',
    still: async (to) => {
      const answer = await key.ask(to)
      assert.ok(codeOf(answer) === 'outcome-unknown' || answer.headers['idempotent-replayed'] === 'true', saidBy(answer))
      key.assertSent(1)
    },
    end: async () => {
      let said = ''
      await eventually(async () => {
        const answer = await key.ask()
        said = saidBy(answer)
        return answer.status === 201 && answer.body.toString() === '{"found":true}'
      }, () => `the upstream's word about it was never taken: ${said}`, SOON_MS)
      key.assertSent(1)
    }
  }
}

async function killedWhereHeld (world: World, seat: Seat): Promise<Tale> {
  const key = await takenAlong('hold', world, seat)
  const tale: Tale = {
    name: 'a claim of a process that was killed, held',
    still: null,
    next: async () => {
      await lapsed(key)
      tale.still = async (to) => {
        assertProblem(await key.ask(to), 504, 'outcome-unknown')
        key.assertSent(1)
      }
    }
  }
  return tale
}

async function killedWhereRetried (world: World, seat: Seat): Promise<Tale> {
  const key = await takenAlong('retry', world, seat)
  const tale: Tale = {
    name: 'a claim of a process that was killed, sent again',
    still: null,
    next: async () => {
      key.answeredBy(usual)
      await eventually(async () => {
        const answer = await key.ask()
        if (answer.status !== 201) assertProblem(answer, 409, 'in-flight')
        return answer.status === 201
      }, 'its lease ends', SOON_MS)
      key.assertSent(1, 2)
    }
  }
  return tale
}

async function killedEvent (route: string, world: World, seat: Seat): Promise<Tale> {
  const key = await takenAlong(route, world, seat)
  return {
    name: `an event of a process that was killed (${route})`,
    still: null,
    next: async () => {
      key.answeredBy(usual)
      await eventually(async () => {
        const answer = await key.ask()
        if (answer.status !== 201) assertProblem(answer, 503, 'in-flight')
        return answer.status === 201
      }, 'its mark ends', SOON_MS)
      assertStatus(await key.ask(), 200, 'duplicate')
      assert.equal(key.attempts.length, 2)
    }
  }
}

/** Sent by a gateway that is killed before there is an answer. */
async function takenAlong (route: string, world: World, seat: Seat): Promise<Key> {
  const key = new Key(world, route).answeredBy(silent)
  void key.ask(seat).catch(() => {})
  await key.reached()
  return key
}

async function lapsed (key: Key): Promise<void> {
  await eventually(async () => {
    const answer = await key.ask()
    if (codeOf(answer) !== 'in-flight') assertProblem(answer, 504, 'outcome-unknown')
    return codeOf(answer) === 'outcome-unknown'
  }, 'its lease ends', SOON_MS)
  key.assertSent(1)
}

function done (route: string): Story {
  return async (world) => {
    const key = new Key(world, route)
    assertStatus(await key.ask(), 201, 'executed')
    return {
      name: `a mark that is done (${route})`,
      still: async (to) => {
        assertStatus(await key.ask(to), 200, 'duplicate')
        assert.equal(key.attempts.length, 1)
      }
    }
  }
}

/** The event was refused, and so there is no mark. */
function notDone (route: string): Story {
  return async (world) => {
    const key = new Key(world, route).answeredBy(saying(422))
    const refused = await key.ask()
    assert.equal(refused.headers['idempotency-status'], 'released', saidBy(refused))
    return {
      name: `an event that was refused (${route})`,
      still: null,
      next: async () => {
        assertStatus(await key.answeredBy(usual).ask(), 201, 'executed')
        assertStatus(await key.ask(), 200, 'duplicate')
        assert.equal(key.attempts.length, 2)
      }
    }
  }
}
