/**
 * One Redis server: its connection, its breaker, its batches. Every error, timeout, open breaker or undecodable reply is "no
 * Redis". No method rejects. It knows other servers only from what this one says.
 */
import { ReplyError } from 'ioredis'
import type { Redis } from 'ioredis'
import { Outage } from '../../core/limits/outage.ts'
import { causeOf, errorText } from '../../ports/errors.ts'
import type { Log, Meter } from '../../ports/telemetry.ts'
import { Lane, type Batch } from '../shared/lane.ts'
import { Asked, awaited, errorOf, WithoutLate } from './batch-replies.ts'
import type { Ended } from './batch-replies.ts'
import type { Batches, Calling, Found, Held, Locking, RecordWrite, Wake } from './batches.ts'
import { Breaker } from './breaker.ts'
import { isForbidden, wrongWith } from './client.ts'
import type { ServerSays } from './client.ts'
import { EndOfTick } from './exchange.ts'
import type { Elsewhere } from './slots.ts'

/** A lock that is asked for. Gets what was found, never before the call that asks has returned. */
export interface LockOrder extends Locking { found: (found: Found) => void }

/** What a write gets. `sent`: its bytes are on their way. `done` false: it was not done. */
interface Written { sent: boolean, done: (done: boolean | Elsewhere) => void }

export type RecordOrder = RecordWrite & Written
export type WakeOrder = Wake & Written
/** A write that is asked for. */
export type WriteOrder = RecordOrder | WakeOrder

export interface ServerOptions {
  readonly connect: () => Redis
  readonly batches: Batches
  readonly commandTimeoutMs: number
  /** A key of this server that is no record's. null: no key can be its own. */
  readonly probeKey: () => string | null
  /** For the log, where there are several. */
  readonly node?: string
  readonly log: Log
  readonly meter?: Pick<Meter, 'store'> | undefined
  readonly onChange?: (open: boolean) => void
  /** Gets what the server says of itself, on every new connection. */
  readonly onServer?: ((server: ServerSays) => void) | undefined
  /** The server is connected or answers, but does not serve. Called after every probe that failed like that. */
  readonly onRefusal?: () => void
}

/** One lost packet is no outage. Five timeouts in a row are. */
const FAILURES_MAX = 5
/** What the log says of a server that closed its connections without an error. */
const ENDED = 'the connections were closed'
const PROBE_EVERY_MS = 500
const PROBE_LIVES_MS = 1_000
/** Locks renewed at once. Redis serves no other client meanwhile, here for a fraction of a millisecond. */
const RENEWALS_MAX = 200
/** The same for locks, copies and unlocks, which are more work each, and for their bytes. */
const WRITES_MAX = 64
const WRITES_BYTES_MAX = 1024 * 1024
/**
 * If Redis answers at once, one batch is in flight at a time: the larger the batches, the fewer. If it is far away or busy,
 * as many run in parallel as its answers take: ten thousand locks a second at 100 ms.
 */
const BATCHES_MAX = 16
const MS_PER_PARALLEL_BATCH = 2
/** Above every default limit on executions. At the bound a copy or an unlock is left out, as if Redis were away. */
const WRITES_WAITING_MAX = 20_000

export const NOBODY_WOKEN = 'nobody can be woken by Redis: who waits for an answer asks the database now and then'

export class Server {
  readonly #options: ServerOptions
  readonly #client: Redis
  readonly #breaker: Breaker
  readonly #locks: Lane<LockOrder, Found, LockOrder>
  readonly #writes: Lane<WriteOrder, boolean | Elsewhere, WriteOrder>
  readonly #logFields: { readonly node?: string }
  #usable = false
  /** Connections that have ended. */
  #ends = 0
  /** Its first connection stands, or has failed. */
  #decided = false
  #loggedMute = false
  readonly #outage = new Outage()
  /** null: no connection is being made. */
  #connectingAtMs: number | null = performance.now()
  #lastError: string | undefined
  #closed = false

  constructor (options: ServerOptions) {
    const { node, onChange } = options
    this.#options = options
    this.#logFields = node === undefined ? {} : { node }
    this.#breaker = new Breaker({
      failuresMax: FAILURES_MAX,
      retryMs: PROBE_EVERY_MS,
      probe: () => this.#probe(),
      onChange: (open) => { this.#changed(open); onChange?.(open) }
    })
    const endOfTick = new EndOfTick(() => this.#client)
    const batching = {
      schedule: endOfTick.schedule,
      batchMax: WRITES_MAX,
      batchesMax: BATCHES_MAX,
      msPerParallelBatch: MS_PER_PARALLEL_BATCH,
      queueMax: WRITES_WAITING_MAX,
      provenRolledBack: () => false
    }
    this.#locks = new Lane<LockOrder, Found, LockOrder>({
      ...batching,
      name: 'redis locks',
      run: (batch) => { this.#sendLocks(batch) },
      idOf: ({ key }) => key,
      succeed: (order, found) => { order.found(found) },
      fail: (order) => { order.found(undefined) }
    })
    this.#writes = new Lane<WriteOrder, boolean | Elsewhere, WriteOrder>({
      ...batching,
      name: 'redis writes',
      run: (batch) => { this.#sendWrites(batch) },
      idOf: (write) => write.kind === 'record' ? write.key : write.channel,
      batchBytesMax: WRITES_BYTES_MAX,
      bytesOf: (write) => write.kind === 'record' ? write.value?.length ?? 0 : 0,
      succeed: (order, done) => { order.done(done) },
      fail: (order) => { order.done(order.kind === 'wake') }
    })
    this.#client = options.connect()
    this.#client.on('connecting', () => { this.#connectingAtMs = performance.now() })
    this.#client.on('error', (error) => { this.#decided = true; this.#connected(false); this.#missing(error) })
    this.#client.on('ready', () => { this.#connected(true); this.#breaker.probeNow() })
    this.#client.on('close', () => { this.#ends++; this.#usable = false; this.#decided = true; if (!this.#closed) this.#breaker.trip() })
  }

  get client (): Redis { return this.#client }

  /** It is known whether this server can be used at all. */
  get decided (): boolean { return this.#decided }

  get connected (): boolean { return this.#client.status === 'ready' }

  /** Locks and writes that wait for a batch. */
  get waiting (): number { return this.#locks.waiting + this.#writes.waiting }

  /** No write is on its way to it. */
  get idle (): boolean { return this.#writes.idle }

  available (): boolean { return this.#usable && !this.#closed && !this.#breaker.open }

  lock (order: LockOrder): void {
    if (this.available()) this.#locks.enter(order, order)
    else process.nextTick(findNothing, order)
  }

  /** Writes after an answer travel together with other writes, because no caller waits long for them. */
  write (order: WriteOrder): void {
    if (this.available()) this.#writes.enter(order, order)
    else order.done(false)
  }

  /** For each lock, where it is if it is not here. */
  async renew (held: readonly Held[], ttlMs: number): Promise<Array<Elsewhere | null>> {
    const places: Array<Elsewhere | null> = []
    for (let at = 0; at < held.length; at += RENEWALS_MAX) {
      const some = held.slice(at, at + RENEWALS_MAX)
      places.push(...await this.#ask('renew', () => this.#options.batches.renew(this.#client, some, ttlMs)) ?? some.map(() => null))
    }
    return places
  }

  async forget (key: string, asking: boolean): Promise<boolean | Elsewhere> {
    return await this.#ask('forget', () => this.#options.batches.forget(this.#client, { key, asking })) ?? false
  }

  /** undefined: no Redis, or no reply. If Redis refuses a call for the call's own content, that is no outage for others. */
  async call (calling: Calling): Promise<unknown> {
    return this.#ask(calling.operation, () => this.#options.batches.call(this.#client, calling), (error) => error instanceof ReplyError)
  }

  close (): void {
    this.#closed = true
    this.#breaker.stop()
    this.#client.disconnect()
  }

  #sendLocks (batch: Batch<LockOrder, Found, LockOrder>): void {
    // A lock that has waited as long as a command may take goes on without Redis (P2): the arbiter is waiting.
    const since = performance.now() - this.#options.commandTimeoutMs
    const { items } = batch
    const lockings = items.some(({ askedAtMs }) => askedAtMs < since) ? items.filter(({ askedAtMs }) => askedAtMs >= since) : items
    if (lockings.length === 0 || !this.available()) return batch.succeedEach(() => undefined)
    const asked = new Asked('lock', lockings.length, this.#ended, batch)
    try {
      this.#options.batches.lock(this.#client, lockings, lockings === items ? asked : new WithoutLate(asked, items, since))
    } catch (error) {
      asked.fail(error)
    }
  }

  #sendWrites (batch: Batch<WriteOrder, boolean | Elsewhere, WriteOrder>): void {
    for (const order of batch.items) order.sent = true
    if (!this.available()) return batch.succeedEach(({ kind }) => kind === 'wake')
    const asked = new Asked('write', batch.items.length, this.#ended, batch)
    try {
      this.#options.batches.write(this.#client, batch.items, asked)
    } catch (error) {
      asked.fail(error)
    }
  }

  /** undefined: no Redis. `answered`: Redis has refused the call for the call's own content. */
  async #ask<Reply> (
    operation: string,
    command: () => Promise<Reply>,
    answered: (error: unknown) => boolean = () => false
  ): Promise<Reply | undefined> {
    if (!this.available()) return undefined
    const began = performance.now()
    try {
      const reply = await command()
      this.#ended(operation, began, null, 0)
      return reply
    } catch (error) {
      this.#ended(operation, began, errorOf(error), answered(error) ? 0 : 1)
      return undefined
    }
  }

  /** `error` null: Redis has answered. `failures`: for so many who waited it was no answer. */
  readonly #ended: Ended = (operation, began, error, failures) => {
    const { meter, log } = this.#options
    meter?.store('redis', operation, error === null, performance.now() - began)
    if (error === null) return this.#breaker.succeeded()
    this.#lastError = messageOf(error)
    // Other commands may succeed for ever between those that this user may not use. So this needs no counting.
    if (failures > 0 && lacksRight(error)) this.#breaker.trip()
    else if (failures > 0) this.#breaker.failed(failures)
    log.debug({ event: 'redis-command-failed', ...this.#logFields, operation, error: this.#lastError }, 'Redis did not answer')
  }

  /** A new connection may lead to another server. So the server is checked again before it is used. */
  async #probe (): Promise<void> {
    const { batches, log, onServer = () => {}, onRefusal } = this.#options
    const ends = this.#ends
    try {
      const wrong = this.#usable ? null : await wrongWith(this.#client, batches.inCluster, log, onServer)
      if (wrong !== null) throw new Error(wrong)
      await this.#rehearse()
      if (this.#ends !== ends) throw new Error('its connection ended meanwhile')
      this.#usable = true
      this.#decided = true
    } catch (error) {
      // If there is no connection, its own error was logged.
      if (this.#client.status === 'ready') {
        this.#refused(messageOf(errorOf(error)))
        onRefusal?.()
      }
      throw error
    }
  }

  /**
   * Does everything that a request will need. A PING proves little: a read-only or full server answers it, and so does one
   * whose user lacks a right.
   */
  async #rehearse (): Promise<void> {
    const { batches, probeKey } = this.#options
    const key = probeKey()
    if (key === null) throw new Error('it has no slots')
    const [owner, endsAtMs, endsAtWallMs] = [
      Buffer.alloc(OWNER_LIKE_BYTES, 'probe'),
      performance.now() + PROBE_LIVES_MS,
      Date.now() + PROBE_LIVES_MS
    ]
    const lock = Buffer.concat([Buffer.from('L'), owner])
    const unlock: RecordWrite = { kind: 'record', key, owner, value: null, endsAtMs, endsAtWallMs, wakes: false }
    const locking: Locking = { key, bytes: lock, ttlMs: PROBE_LIVES_MS, askedAtMs: endsAtMs }
    await Promise.all([
      awaited<Found>((reply) => { batches.lock(this.#client, [locking], reply) }),
      batches.renew(this.#client, [{ key, owner }], PROBE_LIVES_MS),
      awaited<boolean | Elsewhere>((reply) => { batches.write(this.#client, [unlock], reply) })
    ])
    // Without it only polling remains (ports.ts). That is worth a log line, but it is no outage.
    await this.#client.publish(key, '').catch((error: unknown) => { if (isForbidden(error)) this.#mute(error.message) })
  }

  #connected (ok: boolean): void {
    if (this.#connectingAtMs !== null) this.#options.meter?.store('redis', 'connect', ok, performance.now() - this.#connectingAtMs)
    this.#connectingAtMs = null
  }

  #mute (error: string): void {
    if (!this.#loggedMute) this.#options.log.warn({ event: 'redis-notifications-forbidden', ...this.#logFields, error }, NOBODY_WOKEN)
    this.#loggedMute = true
  }

  #changed (open: boolean): void {
    const { log } = this.#options
    if (!open) {
      this.#outage.over()
      log.info({ event: 'redis-in-use', ...this.#logFields }, 'Redis is in use')
    } else if (!this.#closed) {
      this.#outage.isNews(this.#lastError ?? '', performance.now())
      log.warn(
        { event: 'redis-lost', ...this.#logFields, error: this.#lastError ?? ENDED },
        'no Redis: going on with the database alone'
      )
    }
    this.#lastError = undefined
  }

  /** Logged once per outage, and now and then while it lasts, also if it began before the start. */
  #missing (error: Error): void {
    const why = error.message === '' ? causeOf(error) : error.message
    if (this.#outage.isNews(why, performance.now())) {
      this.#options.log.warn(
        { event: 'redis-unreachable', ...this.#logFields, error: why },
        'Redis cannot be reached: going on with the database alone'
      )
    }
  }

  #refused (error: string): void {
    if (this.#outage.isNews(error, performance.now())) {
      this.#options.log.warn(
        { event: 'redis-unusable', ...this.#logFields, error },
        'Redis cannot be used: going on with the database alone'
      )
    }
  }
}

export function findNothing (order: LockOrder): void { order.found(undefined) }

/** As long as an owner, so that the scripts find it. */
const OWNER_LIKE_BYTES = 16

/** A script is refused in the words of Redis 7.0, or in those of 7.2 and its relatives, which name the command. */
function lacksRight ({ message }: Error): boolean {
  return /^NOPERM|user executing the script|^ERR ACL failure in script/.test(message)
}

function messageOf (error: Error): string {
  const message = errorText(error)
  return lacksRight(error)
    ? `${message} (docs/guides/deploy-with-redis.md has the rights that this user needs)`
    : message
}
