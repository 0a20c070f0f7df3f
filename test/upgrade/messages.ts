/**
 * A message in each state: delivered, waiting, held, dead, discarded; behind one that stops its group; delivered by a
 * process that died.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { eventually } from '../harness/eventually.ts'
import { lost, saying, silent, usual } from './book.ts'
import { assertProblem, assertStatus, DELIVERY_REACHES_MS, Key, SOON_MS } from './tale.ts'
import type { Story, Tale } from './tale.ts'
import { saidBy } from './world.ts'
import type { Answered, Seat, World } from './world.ts'

export const MESSAGES: readonly Story[] = [delivered, waiting, held, dead, stopped]
/** Once in a play: an operator's command is a process. */
export const BY_HAND: readonly Story[] = [discarded]

/** A message that was accepted. */
class Accepted {
  readonly key: Key
  readonly #first: Answered
  readonly #world: World

  constructor (world: World, key: Key, first: Answered) {
    this.#world = world
    this.key = key
    this.#first = first
  }

  static async at (world: World, key: Key, to?: Seat): Promise<Accepted> {
    const first = await key.ask(to)
    assertStatus(first, 202, 'accepted')
    return new Accepted(world, key, first)
  }

  get id (): string { return (JSON.parse(this.#first.body.toString()) as { readonly id: string }).id }

  /** Everything that its sender is told of it. */
  async told (to?: Seat): Promise<{ readonly state: string, readonly text: string }> {
    const answer = await this.#world.ask({
      method: 'GET',
      path: String(this.#first.headers.location),
      key: null,
      body: '',
      ...to === undefined ? {} : { to }
    })
    assert.equal(answer.status, 200, saidBy(answer))
    const text = answer.body.toString()
    return { state: (JSON.parse(text) as { readonly state: string }).state, text }
  }

  async becomes (state: string, withinMs = SOON_MS): Promise<string> {
    let told = { state: '', text: '' }
    await eventually(
      async () => (told = await this.told()).state === state,
      () => `a message should be ${state}, and is ${told.text}`,
      withinMs
    )
    return told.text
  }

  /** The sender's retry finds the same message; another request does not. */
  async known (to?: Seat): Promise<void> {
    const again = await this.key.ask(to)
    assertStatus(again, 202, 'accepted')
    assert.deepEqual([again.body.toString(), again.headers.location], [this.#first.body.toString(), this.#first.headers.location])
    assertProblem(await this.key.ask(to, { path: '/ordered/others' }), 422, 'key-reused')
  }
}

/** A tale of one that is over: it says so from now on, word for word, and is sent no more. */
async function over (name: string, message: Accepted, state: string): Promise<Tale> {
  const text = await message.becomes(state)
  const { attempts } = message.key
  return {
    name,
    still: async (to) => {
      assert.equal((await message.told(to)).text, text)
      assert.deepEqual(message.key.attempts, attempts)
      assertStatus(await message.key.ask(to), 202, 'accepted')
    }
  }
}

async function delivered (world: World): Promise<Tale> {
  const message = await Accepted.at(world, new Key(world, 'ordered'))
  const tale = await over('a message that was delivered', message, 'delivered')
  return { ...tale, still: async (to) => { await tale.still?.(to); await message.known(to) } }
}

async function held (world: World): Promise<Tale> {
  return over('a message that is held', await Accepted.at(world, new Key(world, 'held').answeredBy(lost)), 'held')
}

async function dead (world: World): Promise<Tale> {
  return over('a message that is dead', await Accepted.at(world, new Key(world, 'ordered').answeredBy(saying(410))), 'dead')
}

async function discarded (world: World): Promise<Tale> {
  const message = await Accepted.at(world, new Key(world, 'held').answeredBy(lost))
  await message.becomes('held')
  await discard(world, message)
  return over('a message that was discarded', message, 'discarded')
}

async function waiting (world: World): Promise<Tale> {
  const message = await Accepted.at(world, new Key(world, 'ordered').answeredBy(saying(422)))
  await message.key.reached(DELIVERY_REACHES_MS)
  return {
    name: 'a message that waits for its next delivery',
    still: async (to) => {
      assert.match((await message.told(to)).state, /^(waiting|delivering|delivered)$/)
      await message.known(to)
    },
    next: async () => { message.key.answeredBy(usual) },
    end: async () => {
      await message.becomes('delivered')
      assertOneAfterAnother(world, message)
    }
  }
}

/** Its head is dead: the next one waits until an operator has looked at it. */
async function stopped (world: World, isFirst: boolean): Promise<Tale> {
  const group = { 'X-Group': randomUUID() }
  const head = await Accepted.at(world, new Key(world, 'stops', group).answeredBy(saying(410)))
  await head.becomes('dead')
  const behind = await Accepted.at(world, new Key(world, 'stops', group))
  return {
    name: 'a group that is stopped',
    still: async (to) => {
      assert.deepEqual([(await head.told(to)).state, (await behind.told(to)).state], ['dead', 'waiting'])
      behind.key.assertSent()
    },
    end: async () => {
      behind.key.assertSent()
      // As above.
      if (!isFirst) return
      await discard(world, head)
      await behind.becomes('delivered')
      behind.key.assertSent(1)
    }
  }
}

/** Comes again, with another number, once its worker is missed. */
export async function killedDelivery (world: World, seat: Seat): Promise<Tale> {
  const message = await Accepted.at(world, new Key(world, 'ordered').answeredBy(silent), seat)
  await message.key.reached(DELIVERY_REACHES_MS)
  return {
    name: 'a delivery of a process that was killed',
    still: async (to) => { await message.known(to) },
    next: async () => { message.key.answeredBy(usual) },
    end: async () => {
      await message.becomes('delivered')
      assertOneAfterAnother(world, message)
    }
  }
}

async function discard (world: World, message: Accepted): Promise<void> {
  await (world.seats[0] as Seat).command('inbox', 'discard', message.id, '--why', 'the test says so')
}

/** No number twice, none smaller than the one before, and nothing after it was taken. */
function assertOneAfterAnother (world: World, { key }: Accepted): void {
  const { attempts } = key
  assert.deepEqual(attempts, Array.from(new Set(attempts)).toSorted((one, other) => one - other), 'the numbers of its deliveries')
  assert.deepEqual(world.book.of(key.key).map(({ status }) => status).filter((status) => status === 201), [201], 'how often it was taken')
}
