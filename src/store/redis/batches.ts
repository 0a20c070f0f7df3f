/**
 * How a batch goes to one server. Locks are commands of their own, because SET does all that a lock needs, and a script around
 * it costs Redis more than the replies cost here. Writes compare first, in a script. `TOGETHER`: one script over all of the
 * batch's keys. `APART`, where every key has a slot of its own (a cluster): one script for each key, because a script may not
 * touch keys of several slots. Both do the same.
 */
import type { ChainableCommander, Redis } from 'ioredis'
import { isForbidden } from './client.ts'
import { argument, CommandBytes, exchange, NumberedText, type Replies } from './exchange.ts'
import { RENEW, WRITE } from './scripts.ts'
import { Elsewhere, elsewhereOf } from './slots.ts'

/** `asking`: the slot is moving to this node, which takes the key only after ASKING. */
interface Keyed { readonly key: string, readonly asking?: boolean }

export interface Locking extends Keyed { readonly bytes: Buffer, readonly ttlMs: number, readonly askedAtMs: number }

export interface Held extends Keyed { readonly owner: Buffer }

/** `value` null: delete. `wakes`: then wakes the watchers of the record. */
export interface RecordWrite extends Keyed {
  readonly kind: 'record'
  readonly owner: Buffer
  readonly value: Buffer | null
  readonly endsAtMs: number
  readonly endsAtWallMs: number
  readonly wakes: boolean
}

/** One script over keys of one slot, by itself. Integers as its values' replies. */
export interface Calling extends Keyed {
  readonly operation: string
  readonly script: string
  readonly keys: readonly string[]
  readonly values: ReadonlyArray<Buffer | string | number>
}

/** A wake-up has no record. */
export interface Wake { readonly kind: 'wake', readonly channel: string }

export type Write = RecordWrite | Wake

/** The value that was there. null: none, and the lock is the caller's. undefined: no Redis. */
export type Found = Buffer | null | undefined | Elsewhere

/** Gets what became of each item of a batch, in their order. An error for one item affects that item alone. One is called, once. */
export interface BatchReply<Result> {
  succeed: (results: readonly Result[]) => void
  /** No command got a reply, or Redis has refused all of them. */
  fail: (error: unknown) => void
}

export interface Batches {
  readonly inCluster: boolean
  readonly lock: (client: Redis, lockings: readonly Locking[], reply: BatchReply<Found>) => void
  /** true: done (a wake-up always is). */
  readonly write: (client: Redis, writes: readonly Write[], reply: BatchReply<boolean | Elsewhere>) => void
  /** For each key, where it is if it is not here. */
  readonly renew: (client: Redis, held: readonly Held[], ttlMs: number) => Promise<Array<Elsewhere | null>>
  readonly forget: (client: Redis, key: Keyed) => Promise<boolean | Elsewhere>
  readonly call: (client: Redis, calling: Calling) => Promise<unknown>
}

/** PX takes whole milliseconds, at least one. */
export function whole (ms: number): number { return Math.max(1, Math.round(ms)) }

// ---------------------------------------------------------------- locks

const BEFORE_KEY = new NumberedText((length) => `*7\r\n$3\r\nSET\r\n$${length}\r\n`)
const BEFORE_LOCK = new NumberedText(lengthOf)
const BEHIND_LOCK = new NumberedText((ms) => `\r\n$2\r\nPX\r\n${argument(String(ms))}$2\r\nNX\r\n$3\r\nGET\r\n`)

/** Behind a text, in front of the next one. */
function lengthOf (length: number): string { return `\r\n$${length}\r\n` }

/** More than the texts of one lock take besides its key. */
const LOCK_TEXT_BYTES_MAX = 128

function lockBytes (lockings: readonly Locking[]): CommandBytes {
  let bytesMax = 0
  for (const { key, bytes } of lockings) bytesMax += LOCK_TEXT_BYTES_MAX + key.length + bytes.length
  const out = new CommandBytes(bytesMax)
  for (const { key, bytes, ttlMs, asking } of lockings) {
    if (asking === true) out.text(ASKING)
    out.text(BEFORE_KEY.of(key.length))
    out.text(key)
    out.text(BEFORE_LOCK.of(bytes.length))
    out.bytes(bytes)
    out.text(BEHIND_LOCK.of(whole(ttlMs)))
  }
  return out
}

function sendLocks (client: Redis, lockings: readonly Locking[], reply: BatchReply<Found>, inCluster: boolean): void {
  exchange(client, 'set', lockBytes(lockings).end(), countOf(lockings), new LockReplies(lockings, reply, inCluster))
}

class LockReplies implements Replies {
  readonly #lockings: readonly Locking[]
  readonly #reply: BatchReply<Found>
  readonly #inCluster: boolean

  constructor (lockings: readonly Locking[], reply: BatchReply<Found>, inCluster: boolean) {
    this.#lockings = lockings
    this.#reply = reply
    this.#inCluster = inCluster
  }

  replied (all: readonly unknown[]): void {
    const replies = ownReplies(this.#lockings, all, this.#inCluster)
    const error = errorOfAll(replies)
    if (error !== null) this.#reply.fail(error)
    else this.#reply.succeed(replies.map(foundOf))
  }
}

function foundOf (reply: unknown): Found { return reply instanceof Error ? undefined : reply as Found }

// ---------------------------------------------------------------- writes

/** More than the texts of one record take besides its key. */
const RECORD_TEXT_BYTES_MAX = 96
/** More than the texts around all records take besides the script and the text before a channel. */
const WRITE_TEXT_BYTES_MAX = 128
const DELETED = '\r\n$0\r\n\r\n$1\r\n0\r\n'
const EVAL_WRITE = `$4\r\nEVAL\r\n${argument(WRITE)}`
/** Of the script's arguments: the script, the number of its keys, who is woken, and where an id is in a key. */
const WRITE_ARGUMENTS = 6
const ARGUMENTS_EACH = 4

function writeBytes (records: readonly RecordWrite[], channels: readonly string[]): CommandBytes {
  let bytesMax = WRITE_TEXT_BYTES_MAX + EVAL_WRITE.length
  let woken = ''
  let sample = ''
  for (const { key, owner, value, wakes } of records) {
    bytesMax += RECORD_TEXT_BYTES_MAX + 2 * key.length + owner.length + (value?.length ?? 0)
    woken += wakes ? '1' : '0'
    if (wakes) sample = key
  }
  for (const channel of channels) bytesMax += RECORD_TEXT_BYTES_MAX + channel.length
  const out = new CommandBytes(bytesMax)
  const idAt = sample.lastIndexOf(':') + 1
  out.text(`*${WRITE_ARGUMENTS + records.length * ARGUMENTS_EACH + channels.length}\r\n${EVAL_WRITE}${argument(String(records.length))}`)
  for (const { key } of records) putText(out, key)
  out.text(argument(woken) + argument(`${sample.slice(0, idAt)}${WAKE}`) + argument(String(idAt + 1)))
  const [nowMs, wallMs] = [performance.now(), Date.now()]
  for (const record of records) putRecord(out, record, nowMs, wallMs)
  for (const channel of channels) putText(out, channel)
  return out
}

const BEFORE_TEXT = new NumberedText((length) => `$${length}\r\n`)
const BEFORE_OWNER = new NumberedText((length) => `$${1 + length}\r\nL`)
const BEFORE_RECORD = new NumberedText(lengthOf)
const BEHIND_RECORD = new NumberedText((ms) => `\r\n${argument(String(ms))}`)
const LINE_END = '\r\n'

function putText (out: CommandBytes, text: string): void {
  out.text(BEFORE_TEXT.of(text.length))
  out.text(text)
  out.text(LINE_END)
}

function putRecord (out: CommandBytes, { owner, value, endsAtMs, endsAtWallMs }: RecordWrite, nowMs: number, wallMs: number): void {
  // Time in which a value waited here, or the machine slept, does not prolong its life (P10). A value that is over leaves no
  // lock behind.
  const livesMs = Math.min(endsAtMs - nowMs, endsAtWallMs - wallMs)
  out.text(BEFORE_OWNER.of(owner.length))
  out.bytes(owner)
  if (value === null || livesMs < 1) return out.text(DELETED)
  out.text(BEFORE_RECORD.of(value.length))
  out.bytes(value)
  out.text(BEHIND_RECORD.of(whole(livesMs)))
}

/** Between the prefix of all keys and the id of the record whose watchers are woken. */
const WAKE = 'wake:'

/** The channel of a record whose key is `prefix`, a colon and the id. The script makes the same name of a key. */
export function channelOf (prefix: string, id: string): string { return `${prefix}:${WAKE}${id}` }

function publishBytes ({ channel }: Wake): Buffer {
  return Buffer.from(`*3\r\n${argument('PUBLISH')}${argument(channel)}${argument('')}`)
}

/** nil, or a digit for each record. */
function isDone (reply: unknown, at: number): boolean { return reply === null || (Buffer.isBuffer(reply) && reply[at] === DONE) }

const DONE = 0x31

class TogetherReplies implements Replies {
  readonly #writes: readonly Write[]
  readonly #reply: BatchReply<boolean>

  constructor (writes: readonly Write[], reply: BatchReply<boolean>) {
    this.#writes = writes
    this.#reply = reply
  }

  replied ([reply]: readonly unknown[]): void {
    if (reply instanceof Error) return this.#reply.fail(reply)
    let at = 0
    this.#reply.succeed(this.#writes.map(({ kind }) => kind === 'wake' || isDone(reply, at++)))
  }
}

function isWake (write: Write | undefined): boolean { return write?.kind === 'wake' }

class ApartReplies implements Replies {
  readonly #writes: readonly Write[]
  readonly #reply: BatchReply<boolean | Elsewhere>

  constructor (writes: readonly Write[], reply: BatchReply<boolean | Elsewhere>) {
    this.#writes = writes
    this.#reply = reply
  }

  replied (all: readonly unknown[]): void {
    const replies = ownReplies(this.#writes, all, true)
    const error = errorOfAll(replies)
    // If the user may not publish, no one is woken, and that is no outage.
    if (error !== null && !(isForbidden(error) && this.#writes.every(isWake))) return this.#reply.fail(error)
    this.#reply.succeed(replies.map((reply, at) => reply instanceof Elsewhere ? reply : isWake(this.#writes[at]) || isDone(reply, 0)))
  }
}

// ---------------------------------------------------------------- both

/** ASKING holds for the one command behind it. */
const ASKING = '*1\r\n$6\r\nASKING\r\n'

/** Whether ASKING goes before it. */
function isAsking (item: Keyed | Write): boolean { return 'asking' in item && item.asking === true }

/** Commands, with those that ask. */
function countOf (items: ReadonlyArray<Keyed | Write>): number {
  let count = items.length
  for (const item of items) if (isAsking(item)) count++
  return count
}

/** Of the items alone. */
function ownReplies (items: ReadonlyArray<Keyed | Write>, all: readonly unknown[], inCluster: boolean): readonly unknown[] {
  if (!inCluster) return all
  let at = 0
  return items.map((item) => {
    if (isAsking(item)) at++
    const reply = all[at++]
    return reply instanceof Error ? elsewhereOf(reply) ?? reply : reply
  })
}

/** The first error, if there is nothing else. */
function errorOfAll (replies: readonly unknown[]): Error | null {
  const [first] = replies
  return first instanceof Error && replies.every((reply) => reply instanceof Error) ? first : null
}

export const TOGETHER: Batches = {
  inCluster: false,

  lock (client, lockings, reply) { sendLocks(client, lockings, reply, false) },

  write (client, writes, reply) {
    const records: RecordWrite[] = []
    const channels: string[] = []
    for (const write of writes) {
      if (write.kind === 'record') records.push(write)
      else channels.push(write.channel)
    }
    exchange(client, 'eval', writeBytes(records, channels).end(), 1, new TogetherReplies(writes, reply))
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

  lock (client, lockings, reply) { sendLocks(client, lockings, reply, true) },

  write (client, writes, reply) {
    const bytes: Buffer[] = []
    for (const write of writes) {
      if (isAsking(write)) bytes.push(Buffer.from(ASKING))
      // If the user may not publish, no one is woken. The writes beside it are done all the same.
      bytes.push(write.kind === 'record' ? writeBytes([write], []).end() : publishBytes(write))
    }
    exchange(client, 'eval', Buffer.concat(bytes), countOf(writes), new ApartReplies(writes, reply))
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
