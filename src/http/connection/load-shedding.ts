/**
 * Turning away what the process has no time or no place for, before it is looked at: requests while the event loop lags
 * behind itself, connections beyond their number or beyond their peer's share. Never after a claim: this stands in front of
 * the guarded way, and what is running knows nothing of it. The admin port has none of it.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Limit } from '../../core/limits/limit.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import type { ServerOptions } from '../shared/options.ts'

/**
 * The loop is asked so often how late it is. A request is shed by the last answer, so this is the longest that shedding
 * outlasts a stall: what has piled up behind it, not a second of traffic.
 */
const TICK_MS = 50
/** An overload sheds thousands in a second: the first is told at once, the others as a number. */
const LOG_EVERY_MS = 10_000

/** `options.limits` is looked at anew each time: a reload changes it. */
export class LoadShedding {
  readonly #options: ServerOptions
  readonly #requests: ShedLog
  readonly #connections: ShedLog
  readonly #slots: Limit
  #lastAt = performance.now()
  #lateMs = 0
  #timer: NodeJS.Timeout | null = null

  constructor (options: ServerOptions) {
    this.#options = options
    this.#requests = new ShedLog(options, 'eventLoopDelay', 'the event loop is too late; requests get 503 before anything is claimed')
    this.#connections = new ShedLog(options, 'connections', 'there are too many connections, or too many of one peer; new ones are closed')
    this.#slots = new Limit(options.limits.connections, options.limits.share)
  }

  /** Clients' connections. */
  get connections (): number { return this.#slots.held }

  watch (server: Server): void {
    // The first thing that a turn does is its timers: its requests see this turn's.
    this.#timer = setInterval(() => { this.#tick() }, TICK_MS).unref()
    server.on('close', () => { if (this.#timer !== null) clearInterval(this.#timer) })
    server.on('connection', (socket) => { this.#accept(socket) })
  }

  /** true: this request is to be turned away, and it is noted. */
  sheds (): boolean {
    const { eventLoopDelayMs } = this.#options.limits
    if (eventLoopDelayMs === 0 || this.#lateMs <= eventLoopDelayMs) return false
    this.#requests.note('full', { delayMs: Math.round(this.#lateMs), delayMsMax: eventLoopDelayMs })
    return true
  }

  /** How long after its time the tick came. */
  #tick (): void {
    const now = performance.now()
    this.#lateMs = Math.max(0, now - this.#lastAt - TICK_MS)
    this.#lastAt = now
  }

  /** One that is refused is closed at once: who has too many learns nothing from an answer, and to write one takes time. */
  #accept (socket: Socket): void {
    const { limits: { connections, share }, peers } = this.#options
    const holder = { caller: null, peer: peers.connectedFrom(socket) }
    this.#slots.resize(connections, share)
    const refusal = this.#slots.take(1, holder)
    if (refusal === null) {
      socket.once('close', () => { this.#slots.release(1, holder) })
      return
    }
    this.#connections.note(refusal, { connectionsMax: connections })
    socket.on('error', () => {})
    socket.destroy()
  }
}

class ShedLog {
  readonly #options: ServerOptions
  readonly #limit: 'eventLoopDelay' | 'connections'
  readonly #message: string
  #loggedAtMs = -Infinity
  #count = 0

  constructor (options: ServerOptions, limit: 'eventLoopDelay' | 'connections', message: string) {
    this.#options = options
    this.#limit = limit
    this.#message = message
  }

  note (by: Refusal, fields: object): void {
    this.#options.meter.shed(this.#limit, by)
    this.#count++
    const now = performance.now()
    if (now - this.#loggedAtMs < LOG_EVERY_MS) return
    // `count`: with this one, since the last line.
    this.#options.log.warn({ limit: this.#limit, by, count: this.#count, ...fields }, this.#message)
    this.#loggedAtMs = now
    this.#count = 0
  }
}
