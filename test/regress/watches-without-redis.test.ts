/**
 * Every watch that was opened while the subscriptions' connection was away left a listener on it for the next connection,
 * also after it was cancelled: an outage of an hour was a leak of every request that had waited in it.
 */
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Redis } from 'ioredis'
import type { Cancel } from '../../src/ports/clock.ts'
import { Subscriptions } from '../../src/store/redis/subscriptions.ts'
import { eventually } from '../harness/eventually.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** The connection for subscriptions, as far as it is used: away until it is told to stand. */
class Connection extends EventEmitter {
  status = 'connecting'
  readonly subscribed = new Set<string>()

  subscribe = async (...names: string[]): Promise<void> => { for (const name of names) this.subscribed.add(name) }
  unsubscribe = async (name: string): Promise<void> => { this.subscribed.delete(name) }
  disconnect = (): void => {}

  stand (): void {
    this.status = 'ready'
    this.emit('ready')
  }

  get listening (): number { return this.eventNames().reduce((count, name) => count + this.listenerCount(name), 0) }
}

function start (standsWithinMs: number): { readonly wakes: Subscriptions, readonly connection: Connection } {
  const connection = new Connection()
  const connect = () => connection as unknown as Redis
  return { connection, wakes: new Subscriptions({ connect, subscribedWithinMs: standsWithinMs, onForbidden () {} }) }
}

async function openAndCancel (wakes: Subscriptions, count: number): Promise<void> {
  const opened = await Promise.all(Array.from({ length: count }, (_, at) => wakes.watch(`record-${at}`, () => {}, false)))
  for (const cancel of opened) cancel()
}

test('watches that are opened and cancelled while Redis is away leave no listeners behind', async () => {
  const { wakes, connection } = start(1)
  await openAndCancel(wakes, 1)
  const before = connection.listening
  await openAndCancel(wakes, 200)
  assert.equal(connection.listening, before)
  connection.stand()
  await eventually(() => connection.listening === before, 'as many as before')
  assert.deepEqual(Array.from(connection.subscribed), [])
  wakes.close()
})

/** A watch that leaves even its smallest promise behind leaves a hundred bytes. */
const LEFT_PER_WATCH_MAX = 50
const WATCHES = 2_000
const ROUNDS = 8

test('watches that are opened and cancelled while Redis is away leave nothing else behind either', async () => {
  const { wakes } = start(1)
  const heap: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    await openAndCancel(wakes, WATCHES)
    heap.push(await heapBytes())
  }
  // What leaks grows in round after round; what the engine has not got round to does not.
  const grown = heap.slice(1).map((bytes, at) => bytes - (heap[at] ?? 0)).sort((a, b) => a - b)
  assert.ok((grown[ROUNDS / 2 - 1] ?? 0) < LEFT_PER_WATCH_MAX * WATCHES, `${grown.join()} bytes for ${WATCHES} watches each`)
  wakes.close()
})

test('a watch that waits for the connection is answered when it is subscribed, and woken from then on', async () => {
  const { wakes, connection } = start(60_000)
  const woken: string[] = []
  const opening = [
    wakes.watch('one', () => { woken.push('one') }, false),
    wakes.watch('two', () => { woken.push('two') }, false),
    wakes.watch('one', () => { woken.push('one again') }, false)
  ]
  connection.stand()
  const cancels: Cancel[] = await Promise.all(opening)
  assert.deepEqual(Array.from(connection.subscribed), ['one', 'two'])
  woken.length = 0
  connection.emit('message', 'one')
  assert.deepEqual(woken, ['one', 'one again'])
  for (const cancel of cancels) cancel()
  assert.deepEqual(Array.from(connection.subscribed), [])
  wakes.close()
})

/** After a turn of the event loop: what has only just ended is still on its stack. */
async function heapBytes (): Promise<number> {
  await new Promise<void>((resolve) => { setImmediate(resolve) })
  collectGarbage()
  return process.memoryUsage().heapUsed
}
