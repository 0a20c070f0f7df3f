/**
 * Sheds load before a request or connection is looked at. Requests are shed while the event loop is late. Connections
 * are shed beyond their limit, or beyond the share of their peer. Nothing is shed after a claim. The admin port does
 * not shed.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Limit } from '../../core/limits/limit.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import type { ServerOptions } from '../shared/options.ts'

/**
 * How often the delay of the event loop is measured. The last value decides, so this is the longest that shedding lasts
 * after a stall.
 */
const TICK_MS = 50
/** An overload sheds thousands of requests a second. The first is logged at once, the others as a count. */
const LOG_EVERY_MS = 10_000

/** `options.limits` is read anew each time, because a reload changes it. */
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
    this.#requests = new ShedLog(options, 'eventLoopDelay', (fields) => {
      options.log.warn({ event: 'requests-shed', ...fields }, 'the event loop is too late; requests get 503 before anything is claimed')
    })
    this.#connections = new ShedLog(options, 'connections', (fields) => {
      options.log.warn(
        { event: 'connections-shed', ...fields },
        'there are too many connections, or too many of one peer; new ones are closed'
      )
    })
    this.#slots = new Limit(options.limits.connections, options.limits.share)
  }

  get connections (): number { return this.#slots.held }

  watch (server: Server): void {
    // Node runs timers first in each turn. So requests see the value of their own turn.
    this.#timer = setInterval(() => { this.#tick() }, TICK_MS).unref()
    // What came before was the start of the process, for which no client has waited.
    server.on('listening', () => {
      this.#lastAt = performance.now()
      this.#lateMs = 0
    })
    server.on('close', () => { if (this.#timer !== null) clearInterval(this.#timer) })
    server.on('connection', (socket) => { this.#accept(socket) })
  }

  /** true: the request must be shed. It is counted and logged here. */
  sheds (): boolean {
    const { eventLoopDelayMs } = this.#options.limits
    if (eventLoopDelayMs === 0 || this.#lateMs <= eventLoopDelayMs) return false
    this.#requests.note('full', { delayMs: Math.round(this.#lateMs), delayMsMax: eventLoopDelayMs })
    return true
  }

  #tick (): void {
    const now = performance.now()
    this.#lateMs = Math.max(0, now - this.#lastAt - TICK_MS)
    this.#lastAt = now
  }

  /** A refused connection is closed without an answer. An answer would take time and would not help a client with too many. */
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
  readonly #write: (fields: object) => void
  #loggedAtMs = -Infinity
  #count = 0

  constructor (options: ServerOptions, limit: 'eventLoopDelay' | 'connections', write: (fields: object) => void) {
    this.#options = options
    this.#limit = limit
    this.#write = write
  }

  note (by: Refusal, fields: object): void {
    this.#options.meter.shed(this.#limit, by)
    this.#count++
    const now = performance.now()
    if (now - this.#loggedAtMs < LOG_EVERY_MS) return
    // `count` includes this one, since the last line.
    this.#write({ limit: this.#limit, by, count: this.#count, ...fields })
    this.#loggedAtMs = now
    this.#count = 0
  }
}
