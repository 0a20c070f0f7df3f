/**
 * Turning away what the process has no time for, before it is looked at: requests while the event loop lags behind
 * itself, connections beyond their number. Never after a claim: this stands in front of the guarded way, and what is
 * running knows nothing of it. The admin port has none of it.
 */
import underPressure from '@fastify/under-pressure'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ShedLimit } from '../ports.ts'
import { problemOn } from './problem-reply.ts'
import type { ServerOptions } from './server.ts'

export interface ServerLimits {
  /** Connections at once; the next ones are closed by Node as they are accepted. */
  readonly connections: number
  /** How late the event loop may be; 0: requests are never shed. */
  readonly eventLoopDelayMs: number
}

/**
 * The loop is asked so often how late it is. A request is shed by the last answer, so this is the longest that shedding
 * outlasts a stall: what has piled up behind it, not a second of traffic.
 */
const TICK_MS = 50
/** An overload sheds thousands in a second: the first is told at once, the others as a number. */
const LOG_EVERY_MS = 10_000

/** `options.limits` is looked at anew each time: a reload changes it. */
export async function shedUnderPressure (server: FastifyInstance, options: ServerOptions, limits: () => ServerLimits): Promise<void> {
  const requests = new ShedLog(options, 'eventLoopDelay', 'the event loop is too late; requests get 503 before anything is claimed')
  const connections = new ShedLog(options, 'connections', 'there are too many connections; new ones are closed')
  const lateness = new Lateness()
  // What is returned is sent, and no later hook sees the request. (With nothing returned the plugin would go on.)
  const shed = (request: FastifyRequest, reply: FastifyReply): unknown => {
    requests.note({ delayMs: Math.round(lateness.ms), delayMsMax: limits().eventLoopDelayMs })
    return problemOn(reply, 'overloaded', request.id, options.problemBaseUri)
  }
  await server.register(underPressure, {
    // The plugin's own measure is the mean of an interval: a stall of seconds disappears in it, or is infinite, as it falls.
    healthCheck: async () => {
      const { eventLoopDelayMs } = limits()
      return lateness.tick() <= eventLoopDelayMs || eventLoopDelayMs === 0
    },
    healthCheckInterval: TICK_MS,
    // Its types know nothing of what its README says about returned values.
    pressureHandler: shed as () => void
  })
  server.server.maxConnections = limits().connections
  // A worker that is full would hand the connection back, and the primary would offer it round and round.
  // (Node 23.1 and later; its types do not know it yet.)
  Object.assign(server.server, { dropMaxConnection: true })
  server.server.on('drop', () => { connections.note({ connectionsMax: limits().connections }) })
}

/** How long after its time a tick came. The first thing that a turn does is its timers: its requests see this turn's. */
class Lateness {
  #lastAt = performance.now()
  ms = 0

  tick (): number {
    const now = performance.now()
    this.ms = Math.max(0, now - this.#lastAt - TICK_MS)
    this.#lastAt = now
    return this.ms
  }
}

class ShedLog {
  readonly #options: ServerOptions
  readonly #limit: ShedLimit
  readonly #message: string
  #toldAt = -Infinity
  #count = 0

  constructor (options: ServerOptions, limit: ShedLimit, message: string) {
    this.#options = options
    this.#limit = limit
    this.#message = message
  }

  note (fields: object): void {
    this.#options.meter.shed(this.#limit)
    this.#count++
    const now = performance.now()
    if (now - this.#toldAt < LOG_EVERY_MS) return
    // `count`: with this one, since the last line.
    this.#options.log.warn({ limit: this.#limit, count: this.#count, ...fields }, this.#message)
    this.#toldAt = now
    this.#count = 0
  }
}
