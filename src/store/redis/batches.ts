/**
 * How a batch goes to one server. `TOGETHER`: one script over all of its keys. `APART`, where every key has a slot of its own
 * (a cluster): one pipeline of commands with one key each. Both do the same. A script may not touch keys of several slots. An
 * error for one key affects that key alone. If no command got a reply, the batch rejects.
 */
import type { ChainableCommander, Redis } from 'ioredis'
import { evalBuffer } from './client.ts'
import { LOCK, RENEW, WRITE } from './scripts.ts'
import { Elsewhere, elsewhereOf } from './slots.ts'

/** `asking`: the slot is moving to this node, which takes the key only after ASKING. */
interface Keyed { readonly key: string, readonly asking?: boolean }

export interface Locking extends Keyed { readonly bytes: Buffer, readonly ttlMs: number, readonly askedAtMs: number }

export interface Held extends Keyed { readonly owner: Buffer }

/** `value` null: delete. */
export interface RecordWrite extends Keyed {
  readonly kind: 'record'
  readonly owner: Buffer
  readonly value: Buffer | null
  readonly endsAtMs: number
  readonly endsAtWallMs: number
}

/** One script over keys of one slot, by itself. Integers as its values' replies. */
export interface Calling extends Keyed {
  readonly operation: string
  readonly script: string
  readonly keys: readonly string[]
  readonly values: ReadonlyArray<Buffer | string | number>
}

/** A wake-up has no record. */
export type Write = RecordWrite | { readonly kind: 'wake', readonly channel: string }

/** The value that was there. null: none, and the lock is the caller's. undefined: no Redis. */
export type Found = Buffer | null | undefined | Elsewhere

export interface Batches {
  readonly inCluster: boolean
  readonly lock: (client: Redis, lockings: readonly Locking[]) => Promise<Found[]>
  /** true: done (a wake-up always is). */
  readonly write: (client: Redis, writes: readonly Write[]) => Promise<Array<boolean | Elsewhere>>
  /** For each key, where it is if it is not here. */
  readonly renew: (client: Redis, held: readonly Held[], ttlMs: number) => Promise<Array<Elsewhere | null>>
  readonly forget: (client: Redis, key: Keyed) => Promise<boolean | Elsewhere>
  readonly call: (client: Redis, calling: Calling) => Promise<unknown>
}

/** PX takes whole milliseconds, at least one. */
export function whole (ms: number): number { return Math.max(1, Math.round(ms)) }

/** Owner, new value (empty: delete), milliseconds to live. */
function valuesOf (
  { owner, value, endsAtMs, endsAtWallMs }: RecordWrite,
  nowMs: number,
  wallMs: number
): [Buffer, Buffer | string, number] {
  // Time in which a value waited here, or the machine slept, does not prolong its life (P10). A value that is over leaves no
  // lock behind.
  const livesMs = Math.min(endsAtMs - nowMs, endsAtWallMs - wallMs)
  return livesMs < 1 ? [owner, '', 0] : [owner, value ?? '', whole(livesMs)]
}

export const TOGETHER: Batches = {
  inCluster: false,

  async lock (client, lockings) {
    const values = lockings.flatMap(({ bytes, ttlMs }) => [whole(ttlMs), bytes])
    return await evalBuffer(client, LOCK, lockings.map(({ key }) => key), values) as Array<Buffer | null>
  },

  async write (client, writes) {
    const records = writes.filter((write) => write.kind === 'record')
    const channels = writes.filter((write) => write.kind === 'wake').map(({ channel }) => channel)
    const [nowMs, wallMs] = [performance.now(), Date.now()]
    const values = records.flatMap((record) => valuesOf(record, nowMs, wallMs))
    const done = await client.eval(
      WRITE,
      records.length,
      ...records.map(({ key }) => key),
      channels.length,
      ...channels,
      ...values
    ) as number[]
    let at = 0
    return writes.map((write) => write.kind === 'wake' || done[at++] === 1)
  },

  async renew (client, held, ttlMs) {
    await client.eval(RENEW, held.length, ...held.map(({ key }) => key), whole(ttlMs), ...held.map(({ owner }) => owner))
    return held.map(() => null)
  },

  async forget (client, { key }) {
    await client.del(key)
    return true
  },

  async call (client, { script, keys, values }) {
    return client.eval(script, keys.length, ...keys, ...values)
  }
}

type Command = (pipeline: ChainableCommander) => unknown

export const APART: Batches = {
  inCluster: true,

  async lock (client, lockings) {
    const replies = await askEach(client, lockings.map(({ key, bytes, ttlMs, asking }) =>
      ({ asking, command: (pipeline) => pipeline.callBuffer('SET', key, bytes, 'PX', whole(ttlMs), 'NX', 'GET') })))
    return replies.map((reply) => reply instanceof Error ? undefined : reply as Found)
  },

  async write (client, writes) {
    const [nowMs, wallMs] = [performance.now(), Date.now()]
    const replies = await askEach(client, writes.map((write) => write.kind === 'record'
      ? { asking: write.asking, command: (pipeline) => pipeline.eval(WRITE, 1, write.key, 0, ...valuesOf(write, nowMs, wallMs)) }
      // If the user may not publish, no one is woken. The writes beside it are done all the same.
      : { command: (pipeline) => pipeline.publish(write.channel, '') }))
    return replies.map((reply, at) =>
      reply instanceof Elsewhere ? reply : writes[at]?.kind === 'wake' || (Array.isArray(reply) && reply[0] === 1))
  },

  async renew (client, held, ttlMs) {
    const replies = await askEach(client, held.map(({ key, owner, asking }) =>
      ({ asking, command: (pipeline) => pipeline.eval(RENEW, 1, key, whole(ttlMs), owner) })))
    return replies.map((reply) => reply instanceof Elsewhere ? reply : null)
  },

  async forget (client, { key, asking }) {
    const [reply] = await askEach(client, [{ asking, command: (pipeline) => pipeline.del(key) }])
    return reply instanceof Elsewhere ? reply : true
  },

  async call (client, { script, keys, values, asking }) {
    const [reply] = await askEach(client, [{ asking, command: (pipeline) => pipeline.eval(script, keys.length, ...keys, ...values) }])
    return reply
  }
}

/** One round trip for all of them. Throws the first error if none was answered. */
async function askEach (
  client: Redis,
  asked: ReadonlyArray<{ readonly asking?: boolean | undefined, readonly command: Command }>
): Promise<unknown[]> {
  const pipeline = client.pipeline()
  // ASKING holds for the one command behind it.
  const places = asked.map(({ asking = false, command }) => {
    if (asking) pipeline.call('ASKING')
    command(pipeline)
    return pipeline.length - 1
  })
  const all = await pipeline.exec() ?? []
  const replies = places.map((at) => {
    const [error, reply] = all[at] ?? [new Error('no reply')]
    return error === null ? reply : elsewhereOf(error) ?? error
  })
  const [first] = replies
  if (first instanceof Error && replies.every((reply) => reply instanceof Error)) throw first
  return replies
}
