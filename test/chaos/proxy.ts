/**
 * A TCP proxy that misbehaves on demand: it delays, cuts, half-closes, swallows, refuses, and delivers after the sender gave up.
 * It knows no protocol. A listener can see the bytes as they arrive.
 * It loses held bytes only if it must cut, like a network that delivers when it recovers.
 */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'

export interface LinkOptions {
  /** A port of 127.0.0.1. null: no target yet. Connections are refused by a reset, as well as a proxy can. */
  readonly target: number | null
  /** Sees every chunk on its way to the target when it arrives, before any delay. */
  readonly onUp?: (chunk: Buffer) => void
}

export type Direction = 'up' | 'down'

export class Link {
  #target: number | null
  readonly #onUp: ((chunk: Buffer) => void) | undefined
  readonly #pairs = new Set<Pair>()
  #server: Server | null = null
  #port = 0
  #delayMs = 0
  #holding = false

  constructor ({ target, onUp }: LinkOptions) {
    this.#target = target
    this.#onUp = onUp
  }

  get port (): number { return this.#port }
  get connections (): number { return this.#pairs.size }

  /** Where the next connections go. */
  aim (target: number | null): void { this.#target = target }

  async listen (): Promise<void> {
    if (this.#server !== null) return
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => { this.#accept(socket) })
    this.#server = server
    server.listen(this.#port, '127.0.0.1')
    await once(server, 'listening')
    this.#port = (server.address() as AddressInfo).port
  }

  /** Closes the port and resets every connection. {@link listen} opens the same port again. */
  async refuse (): Promise<void> {
    const server = this.#server
    if (server === null) return
    this.#server = null
    const closed = once(server, 'close')
    server.close()
    this.cut(1)
    await closed
  }

  /** A delay from now on, in both directions. */
  delay (ms: number): void {
    this.#delayMs = ms
    for (const pair of this.#pairs) pair.delay(ms)
  }

  /** Nothing passes any more, and new connections stop at this proxy. {@link release} delivers what came. */
  hold (): void {
    this.#holding = true
    for (const pair of this.#pairs) pair.hold()
  }

  release (): void {
    this.#holding = false
    for (const pair of this.#pairs) pair.release()
  }

  /** Resets both sides of this share of the connections. */
  cut (share: number): void {
    for (const pair of this.#some(share)) pair.cut()
  }

  /** Ends one direction of this share of the connections, and leaves the other open. */
  halfClose (direction: Direction, share: number): void {
    for (const pair of this.#some(share)) pair.halfClose(direction)
  }

  /**
   * Holds what the near side sends from now on. After `cutAfterMs` its connection is reset.
   * The far side gets all bytes `deliverAfterMs` after that.
   */
  late (share: number, cutAfterMs: number, deliverAfterMs: number): void {
    for (const pair of this.#some(share)) pair.late(cutAfterMs, deliverAfterMs)
  }

  async close (): Promise<void> {
    await this.refuse()
    this.cut(1)
  }

  /** The first ones. At least one, if there is any. */
  #some (share: number): Pair[] {
    const pairs = Array.from(this.#pairs)
    return pairs.slice(0, Math.ceil(pairs.length * share))
  }

  #accept (near: Socket): void {
    const pair = new Pair(near, () => this.#target, this.#onUp, () => { this.#pairs.delete(pair) })
    this.#pairs.add(pair)
    pair.delay(this.#delayMs)
    if (this.#holding) pair.hold()
    else pair.open()
  }
}

/** One connection and the one behind it. */
class Pair {
  readonly #near: Socket
  readonly #target: () => number | null
  readonly #onGone: () => void
  readonly #up: Pipe
  readonly #down: Pipe
  #far: Socket | null = null
  #late = false

  constructor (near: Socket, target: () => number | null, onUp: ((chunk: Buffer) => void) | undefined, onGone: () => void) {
    this.#near = near
    this.#target = target
    this.#onGone = onGone
    this.#up = new Pipe(near)
    this.#down = new Pipe(null)
    this.#down.deliverTo(near)
    near.on('data', (chunk: Buffer) => {
      onUp?.(chunk)
      this.#up.push(chunk)
    })
    near.on('end', () => { this.#up.push(FIN) })
    near.on('error', () => {})
    // What it had sent is still in flight. Its end comes after it.
    near.on('close', () => {
      this.#up.push(GONE)
      this.#goneIfBoth()
    })
  }

  open (): void {
    const target = this.#target()
    if (this.#far !== null) return
    if (target === null || this.#near.destroyed) return this.cut()
    const far = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    this.#far = far
    this.#up.deliverTo(far)
    this.#down.from = far
    far.on('data', (chunk: Buffer) => { if (!this.#late) this.#down.push(chunk) })
    far.on('end', () => { this.#down.push(FIN) })
    far.on('error', () => {})
    far.on('close', () => {
      this.#down.push(GONE)
      this.#up.drop()
      this.#goneIfBoth()
    })
  }

  delay (ms: number): void {
    this.#up.delayMs = ms
    this.#down.delayMs = ms
  }

  hold (): void {
    this.#up.hold()
    this.#down.hold()
  }

  release (): void {
    if (this.#late) return
    this.open()
    this.#up.release()
    this.#down.release()
  }

  cut (): void {
    this.#up.drop()
    this.#down.drop()
    this.#near.resetAndDestroy()
    this.#far?.resetAndDestroy()
    if (this.#far === null) this.#onGone()
  }

  /** A connection that lost only one end may still hold bytes for the other end. */
  #goneIfBoth (): void {
    if (this.#near.closed && this.#far?.closed === true) this.#onGone()
  }

  halfClose (direction: Direction): void {
    (direction === 'up' ? this.#up : this.#down).push(FIN)
  }

  late (cutAfterMs: number, deliverAfterMs: number): void {
    if (this.#late || this.#far === null) return
    this.#late = true
    this.#up.hold()
    setTimeout(() => {
      this.#near.resetAndDestroy()
      setTimeout(() => { this.#up.release() }, deliverAfterMs)
    }, cutAfterMs)
  }
}

/** The sender has ended its direction. */
const FIN = Symbol('fin')
/** The sender is gone in both directions. */
const GONE = Symbol('gone')

interface Item { readonly what: Buffer | typeof FIN | typeof GONE, readonly dueMs: number }

/** One direction: everything in its order, never before its time. */
class Pipe {
  from: Socket | null
  #to: Socket | null = null
  delayMs = 0
  #queue: Item[] = []
  #holding = false
  #dropped = false
  #timer: NodeJS.Timeout | null = null

  constructor (from: Socket | null) {
    this.from = from
  }

  /** What has come until now goes there too. */
  deliverTo (socket: Socket): void {
    this.#to = socket
    socket.on('drain', () => { this.from?.resume() })
    this.#pump()
  }

  push (what: Item['what']): void {
    if (this.#dropped) return
    this.#queue.push({ what, dueMs: performance.now() + this.delayMs })
    this.#pump()
  }

  hold (): void { this.#holding = true }

  release (): void {
    this.#holding = false
    this.#pump()
  }

  drop (): void {
    this.#dropped = true
    this.#queue = []
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #pump (): void {
    if (this.#holding || this.#to === null) return
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const waitMs = next.dueMs - performance.now()
      if (waitMs > 0) return this.#later(waitMs)
      this.#queue.shift()
      this.#deliver(this.#to, next.what)
    }
  }

  #later (ms: number): void {
    if (this.#timer !== null) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#pump()
    }, ms)
  }

  #deliver (to: Socket, what: Item['what']): void {
    if (to.destroyed) return
    if (what === FIN) to.end()
    else if (what === GONE) to.destroySoon()
    else if (to.writable && !to.write(what)) this.from?.pause()
  }
}
