/** A lock or a write at one node of a cluster. If that node says that the key is elsewhere, the order follows it. */
import type { Found } from './batches.ts'
import type { LockOrder, RecordOrder, Server } from './server.ts'
import { Elsewhere } from './slots.ts'

type Follow<Order> = (order: Order, place: Elsewhere, from: Server) => Promise<void>

/** A lock at the server that the map names. */
export class LockThere implements LockOrder {
  readonly key: string
  readonly bytes: Buffer
  readonly ttlMs: number
  readonly askedAtMs: number
  readonly #order: LockOrder
  readonly #server: Server
  readonly #follow: Follow<LockOrder>

  constructor (order: LockOrder, server: Server, follow: Follow<LockOrder>) {
    this.key = order.key
    this.bytes = order.bytes
    this.ttlMs = order.ttlMs
    this.askedAtMs = order.askedAtMs
    this.#order = order
    this.#server = server
    this.#follow = follow
  }

  found (found: Found): void {
    if (found instanceof Elsewhere) void this.#follow(this.#order, found, this.#server)
    else this.#order.found(found)
  }
}

/** A write at the server that the map names. */
export class WriteThere implements RecordOrder {
  readonly kind = 'record'
  readonly key: string
  readonly owner: Buffer
  readonly value: Buffer | null
  readonly endsAtMs: number
  readonly endsAtWallMs: number
  readonly #order: RecordOrder
  readonly #server: Server
  readonly #follow: Follow<RecordOrder>

  constructor (order: RecordOrder, server: Server, follow: Follow<RecordOrder>) {
    this.key = order.key
    this.owner = order.owner
    this.value = order.value
    this.endsAtMs = order.endsAtMs
    this.endsAtWallMs = order.endsAtWallMs
    this.#order = order
    this.#server = server
    this.#follow = follow
  }

  get wakes (): boolean { return this.#order.wakes }

  get sent (): boolean { return this.#order.sent }

  set sent (sent: boolean) { this.#order.sent = sent }

  done (done: boolean | Elsewhere): void {
    if (done instanceof Elsewhere) void this.#follow(this.#order, done, this.#server)
    else this.#order.done(done)
  }
}

export function lockingAt ({ key, bytes, ttlMs, askedAtMs }: LockOrder, asking: boolean, found: (found: Found) => void): LockOrder {
  return { key, bytes, ttlMs, askedAtMs, asking, found }
}

export function writeAt (order: RecordOrder, asking: boolean, done: (done: boolean | Elsewhere) => void): RecordOrder {
  const { kind, key, owner, value, endsAtMs, endsAtWallMs, wakes } = order
  return { kind, key, owner, value, endsAtMs, endsAtWallMs, wakes, asking, sent: true, done }
}
