/**
 * The fast path on Redis: locks, copies, wake-ups. Every error, timeout, open breaker or undecodable reply means "no Redis" and
 * never "locked". No method rejects. Losing all of it at any moment costs speed, never safety (P2).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cancel } from '../../ports/clock.ts'
import type { Lock, LockLane, LockReply, LockResult, LockStore, LockValue } from '../../ports/locks.ts'
import type { Log, Meter, StoreUse } from '../../ports/telemetry.ts'
import type { FilterPlan } from '../shared/mark-stores.ts'
import { channelOf, type Found } from './batches.ts'
import type { ServerSays } from './client.ts'
import { RedisFilter, RedisMarks } from './marks.ts'
import type { MarkTopology } from './marks.ts'
import { RedisMirror } from './mirror.ts'
import { NOBODY_WOKEN, type LockOrder, type RecordOrder } from './server.ts'
import { CLEAR } from './scripts.ts'
import { Elsewhere } from './slots.ts'
import type { Topology } from './topology.ts'
import { beginningOfCopy, decodeValue, encodeLock, encodeValue } from './value.ts'
import { Subscriptions } from './subscriptions.ts'
import { connectTopology } from './connect.ts'
import type { RedisAt } from './topology-options.ts'

export interface RedisOptions extends RedisAt {
  readonly prefix: string
  /** The random id of the database: two deployments on one Redis never see each other. */
  readonly installation: string
  /** How long, at most, a copy of a settled answer stands, and its bytes as they are written. */
  readonly copies: { readonly ttlMs: number, readonly bytesMax: number }
  /** A gateway: nothing is used before its mirror says that this Redis is this database's alone. */
  readonly mirrored?: boolean
  readonly commandTimeoutMs?: number
  /** Gets what a server that answers says of itself. In a cluster, it gets what any of the nodes says. */
  readonly onServer?: (server: ServerSays) => void
  readonly log?: Log
  readonly meter?: Pick<Meter, 'store' | 'breaker'>
}

/** Ten times what a slow round trip within one region takes. The alternative is a database round trip. */
const COMMAND_MS_MAX = 150
/** A watch that is not subscribed by then has cost its waiter one polling interval. */
const SUBSCRIBED_WITHIN_MS = 250

const CLOSING_LOOK_MS = 5

const SILENT: Log = { debug () {}, info () {}, warn () {}, error () {} }

export class RedisLocks implements LockStore {
  readonly name = 'redis'
  readonly #options: RedisOptions
  /** Of every key and channel. */
  readonly #prefix: string
  readonly #topology: Topology
  readonly #subscriptions: Subscriptions
  /** Of mode drop, by the same connections and breakers. */
  readonly marks: RedisMarks
  readonly mirror: RedisMirror | undefined
  readonly lane: LockLane = {
    lock: (id, lock, ttlMs, reply) => { this.#lock(id, lock, ttlMs, reply) },
    swap: (id, owner, value, ttlMs) => { this.#swap(id, owner, value, ttlMs, null) }
  }

  /** The part of the topology that marks use, while it may be used. */
  readonly #markTopology: MarkTopology = { available: () => this.available(), call: async (calling) => this.#topology.call(calling) }
  #lastSwap: RecordSwap | null = null
  #broken = false
  #stranger = false
  #loggedDeaf = false
  #closed = false

  /**
   * Returns at once and connects in the background. Until then `available()` is false. Throws StartError for a URL that is
   * none.
   */
  constructor (options: RedisOptions) {
    const { prefix, installation, log = SILENT, commandTimeoutMs = COMMAND_MS_MAX, meter } = options
    const report = () => { meter?.breaker(this.#broken || this.#stranger) }
    this.#options = options
    this.#prefix = `${prefix}:${installation}`
    const breaker = (broken: boolean) => { this.#broken = broken; report() }
    this.#topology = connectTopology({
      ...options,
      keyPrefix: this.#prefix,
      commandTimeoutMs,
      log,
      meter: meter && { store: (...call) => { meter.store(...call) }, breaker }
    })
    this.mirror = options.mirrored === true
      ? new RedisMirror({
        topology: this.#topology,
        prefix: this.#prefix,
        log,
        onChange: (stranger) => { this.#stranger = stranger; report() }
      })
      : undefined
    this.marks = new RedisMarks(this.#markTopology, this.#prefix)
    this.#subscriptions = new Subscriptions({
      connect: () => this.#topology.subscribe(),
      subscribedWithinMs: SUBSCRIBED_WITHIN_MS,
      onForbidden: (error) => { this.#deaf(error, log) }
    })
  }

  /** Of the connections that locks and copies use. All of them are pipelined, so none is idle. */
  connectionUse (): StoreUse {
    const servers = this.#topology.servers()
    return {
      purpose: 'commands',
      used: servers.filter(({ connected }) => connected).length,
      idle: 0,
      waiting: servers.reduce((sum, { waiting }) => sum + waiting, 0)
    }
  }

  lock (id: Buffer, lock: Lock, ttlMs: number): Promise<LockResult> {
    return new Promise((resolve) => { this.#lock(id, lock, ttlMs, { locked: resolve }) })
  }

  async renew (held: ReadonlyArray<{ readonly id: Buffer, readonly owner: Buffer }>, ttlMs: number): Promise<void> {
    if (this.available()) await this.#topology.renew(held.map(({ id, owner }) => ({ key: this.#key(id), owner })), ttlMs)
  }

  swap (id: Buffer, owner: Buffer, value: LockValue, ttlMs: number): Promise<boolean> {
    return new Promise((resolve) => { this.#swap(id, owner, value, ttlMs, resolve) })
  }

  unlock (id: Buffer, owner: Buffer): Promise<void> {
    return new Promise((resolve) => { this.#write(id, owner, null, 0, () => { resolve() }) })
  }

  async clear (id: Buffer, generation: number): Promise<void> {
    const key = this.#key(id)
    if (this.available()) {
      await this.#topology.call({ operation: 'clear', key, keys: [key], script: CLEAR, values: [beginningOfCopy(generation)] })
    }
  }

  async forget (id: Buffer): Promise<boolean> {
    return this.available() && this.#topology.forget(this.#key(id))
  }

  /** Usually after a swap of the same record, which takes the wake-up along if it is not sent yet. */
  wake (id: Buffer): void {
    if (!this.available()) return
    const last = this.#lastSwap
    if (last?.id === id && !last.sent) last.wakes = true
    else this.#wake(this.#channel(id))
  }

  async watch (id: Buffer, onWake: () => void): Promise<Cancel> {
    return this.#subscriptions.watch(this.#channel(id), onWake, !this.available())
  }

  filter (plan: FilterPlan): RedisFilter { return new RedisFilter(this.#markTopology, this.#prefix, plan) }

  available (): boolean { return !this.#closed && this.mirror?.open !== false && this.#topology.available() }

  async close (): Promise<void> {
    // The last copies, for requests at other gateways.
    const endsAtMs = performance.now() + (this.#options.commandTimeoutMs ?? COMMAND_MS_MAX)
    while (this.available() && !this.#topology.idle() && performance.now() < endsAtMs) await sleep(CLOSING_LOOK_MS)
    this.#closed = true
    this.mirror?.close()
    this.#subscriptions.close()
    this.#topology.close()
  }

  #lock (id: Buffer, lock: Lock, ttlMs: number, reply: LockReply): void {
    if (this.available()) this.#topology.lock(new LockAsked(this.#key(id), lock, ttlMs, reply))
    else process.nextTick(lockNothing, reply)
  }

  #swap (id: Buffer, owner: Buffer, value: LockValue, ttlMs: number, done: Done | null): void {
    const bytes = encodedWithin(value, this.#options.copies.bytesMax)
    const livesMs = value.kind === 'copy' ? Math.min(ttlMs, this.#options.copies.ttlMs) : ttlMs
    // A value that may not be stored must not leave the lock behind either: others would wait for it in vain.
    if (bytes === null || livesMs < 1) this.#write(id, owner, null, 0, done === null ? null : () => { done(false) })
    else this.#write(id, owner, bytes, livesMs, done)
  }

  #write (id: Buffer, owner: Buffer, value: Buffer | null, livesMs: number, done: Done | null): void {
    if (!this.available()) return done?.(false)
    const write = new RecordSwap(id, this.#key(id), owner, value, livesMs, done, this.#wakeFor)
    this.#lastSwap = write
    this.#topology.write(write)
  }

  #wake (channel: string): void { this.#topology.write({ kind: 'wake', channel, sent: false, done: ignore }) }

  readonly #wakeFor = (id: Buffer): void => { if (this.available()) this.#wake(this.#channel(id)) }

  #deaf ({ message }: Error, log: Log): void {
    if (!this.#loggedDeaf) log.warn({ event: 'redis-notifications-forbidden', error: message }, NOBODY_WOKEN)
    this.#loggedDeaf = true
  }

  #key (id: Buffer): string { return `${this.#prefix}:${id.toString('base64url')}` }

  #channel (id: Buffer): string { return channelOf(this.#prefix, id.toString('base64url')) }
}

type Done = (done: boolean) => void

function ignore (): void {}

const LOCKED: LockResult = { kind: 'locked' }
const MINE: LockResult = { kind: 'mine' }
const UNAVAILABLE: LockResult = { kind: 'unavailable' }

function lockNothing (reply: LockReply): void { reply.locked(UNAVAILABLE) }

/** A lock on its way. */
class LockAsked implements LockOrder {
  readonly key: string
  readonly bytes: Buffer
  readonly ttlMs: number
  readonly askedAtMs = performance.now()
  readonly #lock: Lock
  readonly #reply: LockReply

  constructor (key: string, lock: Lock, ttlMs: number, reply: LockReply) {
    this.key = key
    this.bytes = encodeLock(lock)
    this.ttlMs = ttlMs
    this.#lock = lock
    this.#reply = reply
  }

  found (found: Found): void { this.#reply.locked(resultOf(found, this.#lock)) }
}

function resultOf (found: Found, lock: Lock): LockResult {
  // No cluster says so here: it has followed.
  if (found instanceof Elsewhere) return UNAVAILABLE
  if (found === undefined) return UNAVAILABLE
  if (found === null) return LOCKED
  const value = decodeValue(found)
  if (value === null) return UNAVAILABLE
  return value.kind === 'lock' && value.lock.owner.equals(lock.owner) ? MINE : value
}

/** A write of a record on its way. */
class RecordSwap implements RecordOrder {
  readonly kind = 'record'
  readonly id: Buffer
  readonly key: string
  readonly owner: Buffer
  readonly value: Buffer | null
  readonly endsAtMs: number
  readonly endsAtWallMs: number
  wakes = false
  sent = false
  readonly #done: Done | null
  readonly #wake: (id: Buffer) => void

  constructor (
    id: Buffer,
    key: string,
    owner: Buffer,
    value: Buffer | null,
    livesMs: number,
    done: Done | null,
    wake: (id: Buffer) => void
  ) {
    this.id = id
    this.key = key
    this.owner = owner
    this.value = value
    this.endsAtMs = performance.now() + livesMs
    this.endsAtWallMs = Date.now() + livesMs
    this.#done = done
    this.#wake = wake
  }

  done (done: boolean | Elsewhere): void {
    // What was never sent takes no wake-up along any more.
    this.sent = true
    // The write may have failed before it woke anybody, and elsewhere a wake-up may still go.
    if (done !== true && this.wakes) this.#wake(this.id)
    this.#done?.(done === true)
  }
}

/** null: too large, or an answer that cannot be written down. */
function encodedWithin (value: LockValue, bytesMax: number): Buffer | null {
  try {
    const bytes = encodeValue(value)
    return value.kind !== 'lock' && bytes.length > bytesMax ? null : bytes
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}
