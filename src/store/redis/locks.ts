/**
 * The fast path on Redis: locks, copies, wake-ups. Every error, time-out, open breaker or reply that makes no sense means
 * "no Redis" and never "locked"; no method rejects. Losing all of it at any moment costs speed, never safety (P2).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import type { Cancel, Lock, LockResult, LockStore, LockValue, Log, Meter } from '../../ports.ts'
import { Lane } from '../lane.ts'
import { Breaker } from './breaker.ts'
import { checkServer, connectRedis, evalBuffer } from './client.ts'
import { LOCK, RENEW, WRITE } from './scripts.ts'
import { decodeValue, encodeLock, encodeValue } from './value.ts'
import { Wakes } from './wakes.ts'

export interface RedisOptions {
  readonly url: string
  readonly prefix: string
  /** The random id of the database: two deployments on one Redis never see each other. */
  readonly installation: string
  /** How long, at most, a copy of a settled answer stands, and its bytes as they are written. */
  readonly copies: { readonly ttlMs: number, readonly bytesMax: number }
  readonly commandTimeoutMs?: number
  readonly log?: Log
  readonly meter?: Pick<Meter, 'store' | 'breaker'>
}

/** Ten times what a slow round trip within one region takes; a database round trip is the alternative. */
const COMMAND_MS_MAX = 150
/** One lost packet is no outage, five time-outs in a row are. */
const FAILURES_MAX = 5
const PROBE_EVERY_MS = 500
const PROBE_LIVES_MS = 1_000
/** A watch that is not subscribed by then has cost its waiter one polling interval. */
const SUBSCRIBED_WITHIN_MS = 250
/** Locks renewed by one script: Redis serves nobody else while it runs, here a fraction of a millisecond. */
const RENEWALS_MAX = 200
/** The same for locks, copies and unlocks, which are more work each; and for their bytes. */
const WRITES_MAX = 64
const WRITES_BYTES_MAX = 1024 * 1024
/**
 * One batch at a time where Redis answers at once: the larger the batches, the fewer. Where it is far away or busy, as many
 * side by side as its answers take: ten thousand locks a second at 100 ms.
 */
const BATCHES_MAX = 16
const BATCH_MS_PER_LANE = 2
/** Above every default limit on executions. At the bound a copy or an unlock is left out, as if Redis were away. */
const WRITES_WAITING_MAX = 20_000

const CLOSING_LOOK_MS = 5

interface Locking { readonly key: string, readonly bytes: Buffer, readonly ttlMs: number, readonly askedAtMs: number }

/** `value` null: delete. A wake-up has no record. */
type Write =
  | { readonly kind: 'record', readonly key: string, readonly owner: Buffer, readonly value: Buffer | null, readonly endsAtMs: number, readonly endsAtWallMs: number }
  | { readonly kind: 'wake', readonly channel: string }

const SILENT: Log = { debug () {}, info () {}, warn () {}, error () {} }

export class RedisLocks implements LockStore {
  readonly name = 'redis'
  readonly #options: RedisOptions
  readonly #log: Log
  readonly #client: Redis
  readonly #breaker: Breaker
  readonly #wakes: Wakes
  readonly #locks: Lane<Locking, Buffer | null | undefined>
  readonly #writes: Lane<Write, boolean>
  #usable = false
  #told = false
  #closed = false

  constructor (options: RedisOptions) {
    const { url, log = SILENT, commandTimeoutMs = COMMAND_MS_MAX } = options
    this.#options = options
    this.#log = log
    this.#client = connectRedis({ url, name: 'onceway', commandTimeoutMs })
    this.#breaker = new Breaker({ failuresMax: FAILURES_MAX, retryMs: PROBE_EVERY_MS, probe: () => this.#probe(), onChange: (open) => { this.#changed(open) } })
    this.#locks = new Lane<Locking, Buffer | null | undefined>({
      name: 'redis locks',
      run: async (lockings) => this.#lock(lockings),
      idOf: ({ key }) => key,
      batchMax: WRITES_MAX,
      batchesMax: BATCHES_MAX,
      batchMsPerLane: BATCH_MS_PER_LANE,
      queueMax: WRITES_WAITING_MAX,
      provenRolledBack: () => false
    })
    this.#writes = new Lane<Write, boolean>({
      name: 'redis writes',
      run: async (writes) => this.#write(writes),
      idOf: (write) => write.kind === 'record' ? write.key : write.channel,
      batchMax: WRITES_MAX,
      batchesMax: BATCHES_MAX,
      batchMsPerLane: BATCH_MS_PER_LANE,
      queueMax: WRITES_WAITING_MAX,
      batchBytesMax: WRITES_BYTES_MAX,
      bytesOf: (write) => write.kind === 'record' ? write.value?.length ?? 0 : 0,
      provenRolledBack: () => false
    })
    this.#wakes = new Wakes({
      connect: () => connectRedis({ url, name: 'onceway wake-ups', commandTimeoutMs }),
      standsWithinMs: SUBSCRIBED_WITHIN_MS
    })
    this.#client.on('error', (error) => { this.#missing(error) })
    this.#client.on('ready', () => { this.#breaker.probeNow() })
    this.#client.on('close', () => { this.#usable = false; if (!this.#closed) this.#breaker.trip() })
  }

  async lock (id: Buffer, lock: Lock, ttlMs: number): Promise<LockResult> {
    if (!this.available()) return { kind: 'unavailable' }
    const reply = await this.#locks.push({ key: this.#key(id), bytes: encodeLock(lock), ttlMs: whole(ttlMs), askedAtMs: performance.now() }).catch(() => undefined)
    if (reply === undefined) return { kind: 'unavailable' }
    if (reply === null) return { kind: 'locked' }
    const value = decodeValue(reply)
    if (value === null) return { kind: 'unavailable' }
    return value.kind === 'lock' && value.lock.owner.equals(lock.owner) ? { kind: 'mine' } : value
  }

  async renew (held: ReadonlyArray<{ readonly id: Buffer, readonly owner: Buffer }>, ttlMs: number): Promise<void> {
    for (let at = 0; at < held.length; at += RENEWALS_MAX) {
      const some = held.slice(at, at + RENEWALS_MAX)
      const keys = some.map(({ id }) => this.#key(id))
      await this.#ask('renew', () => this.#client.eval(RENEW, keys.length, ...keys, whole(ttlMs), ...some.map(({ owner }) => owner)))
    }
  }

  async swap (id: Buffer, owner: Buffer, value: LockValue, ttlMs: number): Promise<boolean> {
    const bytes = encodedWithin(value, this.#options.copies.bytesMax)
    const livesMs = value.kind === 'copy' ? Math.min(ttlMs, this.#options.copies.ttlMs) : ttlMs
    // What may not stand here must not leave my lock behind either: others would wait for it in vain.
    if (bytes === null || livesMs < 1) {
      await this.unlock(id, owner)
      return false
    }
    return this.#push({ kind: 'record', key: this.#key(id), owner, value: bytes, endsAtMs: performance.now() + livesMs, endsAtWallMs: Date.now() + livesMs })
  }

  async unlock (id: Buffer, owner: Buffer): Promise<void> {
    await this.#push({ kind: 'record', key: this.#key(id), owner, value: null, endsAtMs: 0, endsAtWallMs: 0 })
  }

  async forget (id: Buffer): Promise<boolean> {
    return await this.#ask('forget', () => this.#client.del(this.#key(id))) !== undefined
  }

  wake (id: Buffer): void {
    void this.#push({ kind: 'wake', channel: this.#channel(id) })
  }

  async watch (id: Buffer, onWake: () => void): Promise<Cancel> {
    return this.#wakes.watch(this.#channel(id), onWake, !this.available())
  }

  available (): boolean { return this.#usable && !this.#closed && !this.#breaker.open }

  async close (): Promise<void> {
    // The last copies, for whoever asks elsewhere.
    const endsAtMs = performance.now() + (this.#options.commandTimeoutMs ?? COMMAND_MS_MAX)
    while (this.available() && !this.#writes.idle && performance.now() < endsAtMs) await sleep(CLOSING_LOOK_MS)
    this.#closed = true
    this.#breaker.stop()
    this.#wakes.close()
    this.#client.disconnect()
  }

  /** What follows an answer: nobody waits long for it, so it travels with what others have to write. false: not done. */
  async #push (write: Write): Promise<boolean> {
    if (!this.available()) return false
    return this.#writes.push(write).catch(() => false)
  }

  /** For each what stood there: null: nothing; undefined: no Redis. */
  async #lock (all: readonly Locking[]): Promise<Array<Buffer | null | undefined>> {
    // Who has waited as long as for an answer goes on without one (P2): the arbiter is waiting.
    const since = performance.now() - (this.#options.commandTimeoutMs ?? COMMAND_MS_MAX)
    const lockings = all.filter(({ askedAtMs }) => askedAtMs >= since)
    if (lockings.length === 0) return all.map(() => undefined)
    const values = lockings.flatMap(({ bytes, ttlMs }) => [ttlMs, bytes])
    const found = await this.#ask('lock', () => evalBuffer(this.#client, LOCK, lockings.map(({ key }) => key), values), lockings.length) as Array<Buffer | null> | undefined
    let at = 0
    return all.map(({ askedAtMs }) => askedAtMs >= since ? found?.[at++] : undefined)
  }

  async #write (writes: readonly Write[]): Promise<boolean[]> {
    const records = writes.filter((write) => write.kind === 'record')
    const channels = writes.filter((write) => write.kind === 'wake').map(({ channel }) => channel)
    const [now, wallMs] = [performance.now(), Date.now()]
    const values = records.flatMap(({ owner, value, endsAtMs, endsAtWallMs }) => {
      // What waited here, or slept with the machine, lives no longer for it (P10); what is over leaves no lock behind either.
      const livesMs = Math.min(endsAtMs - now, endsAtWallMs - wallMs)
      return livesMs < 1 ? [owner, '', 0] : [owner, value ?? '', whole(livesMs)]
    })
    const done = await this.#ask('write', () => this.#client.eval(WRITE, records.length, ...records.map(({ key }) => key), channels.length, ...channels, ...values), writes.length) as number[] | undefined
    let at = 0
    return writes.map((write) => write.kind === 'wake' || done?.[at++] === 1)
  }

  /** undefined: no Redis. `asked`: how many wait for the answer; so many have failed if there is none. */
  async #ask<Reply> (operation: string, command: () => Promise<Reply>, asked = 1): Promise<Reply | undefined> {
    if (!this.available()) return undefined
    const began = performance.now()
    try {
      const reply = await command()
      this.#breaker.succeeded()
      this.#options.meter?.store('redis', operation, true, performance.now() - began)
      return reply
    } catch (error) {
      this.#breaker.failed(asked)
      this.#options.meter?.store('redis', operation, false, performance.now() - began)
      this.#log.debug({ operation, error: error instanceof Error ? error.message : String(error) }, 'Redis did not answer')
      return undefined
    }
  }

  /** A new connection may be to another server: look at it again before it is used. */
  async #probe (): Promise<void> {
    this.#usable ||= await checkServer(this.#client, this.#log)
    if (!this.#usable) throw new Error('this server cannot be used')
    // A write: one that is read-only or full answers every PING and no lock.
    await this.#client.set(`${this.#options.prefix}:${this.#options.installation}:probe`, '', 'PX', PROBE_LIVES_MS)
  }

  #changed (open: boolean): void {
    this.#options.meter?.breaker(open)
    if (!open) this.#log.info({}, 'Redis is in use')
    else if (!this.#closed) this.#log.warn({}, 'no Redis: going on with the database alone')
    this.#told = open
  }

  /** Said once per outage, also when it began before the start. */
  #missing (error: Error): void {
    if (!this.#told) this.#log.warn({ error: error.message }, 'Redis cannot be reached: going on with the database alone')
    this.#told = true
  }

  #key (id: Buffer): string { return `${this.#options.prefix}:${this.#options.installation}:${id.toString('base64url')}` }

  #channel (id: Buffer): string { return `${this.#options.prefix}:${this.#options.installation}:wake:${id.toString('base64url')}` }
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

/** PX takes whole milliseconds, at least one. */
function whole (ms: number): number { return Math.max(1, Math.round(ms)) }
