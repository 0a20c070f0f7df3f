/**
 * GET /api/v1/events: how things stand, told again whenever it changes (server-sent events). Each event has a whole state, so a client that
 * was away misses nothing. The stores are asked only while somebody listens, once for all who do.
 */
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { OperationContext } from '../../operator/context.ts'
import { inboxRoutes } from '../../operator/inbox/routes.ts'
import { OperatorProblem } from '../../operator/shared/problem.ts'
import { timeText } from '../../operator/shared/query.ts'
import type { Operator } from '../sign-in/authenticated.ts'

export const EVENT_NAMES = ['unknown-outcomes', 'dead-letters', 'paused-inboxes', 'promise'] as const
export type EventName = typeof EVENT_NAMES[number]

export interface EventsOptions {
  readonly context: () => Promise<OperationContext>
  /** null: nobody who may be told. Asked before, and again while the stream is open. */
  readonly listener: (request: FastifyRequest) => Promise<Operator | OperatorProblem>
  readonly sendProblem: (reply: FastifyReply, problem: OperatorProblem) => FastifyReply
}

/** A state that is two seconds old is new to a person. */
const EVERY_MS = 2_000
/** Browsers and proxies close a stream on which nothing comes for a minute. */
const HEARTBEAT_MS = 15_000
/** Consoles and tools of one gateway. */
const LISTENERS_MAX = 50
const FULL = `${LISTENERS_MAX} streams of events are open at this gateway, which is as many as it serves. Close one, or try again later.`
const STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
  'x-content-type-options': 'nosniff'
} as const
/** A listener that has not read so much is gone, or will not catch up. */
const UNREAD_BYTES_MAX = 64 * 1024

export function addEvents (fastify: FastifyInstance, options: EventsOptions): void {
  const desk = new EventDesk(options)
  fastify.addHook('onClose', async () => { desk.close() })
  fastify.get('/events', async (request, reply) => {
    const who = await options.listener(request)
    if (who instanceof OperatorProblem) return options.sendProblem(reply, who)
    if (desk.isFull) return options.sendProblem(reply, new OperatorProblem('too-many-requests', FULL))
    // A stream would never end for whoever asks for its head alone.
    if (request.method === 'HEAD') return reply.headers(STREAM_HEADERS).send(Readable.from([]))
    void reply.hijack()
    desk.add(request, reply, who)
  })
}

interface Listener {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** The end of its session. null: it has none. */
  readonly endsAtMs: number | null
}

class EventDesk {
  readonly #options: EventsOptions
  readonly #listeners = new Set<Listener>()
  readonly #last = new Map<EventName, string>()
  readonly #asking = new Set<EventName>()
  /** Of the next round. null: there is none, or it is running. */
  #timer: NodeJS.Timeout | null = null
  #isRunning = false
  /** While it was running, everybody left and somebody came, who has been told nothing yet. */
  #isWanted = false
  #heartbeatAtMs = 0

  constructor (options: EventsOptions) {
    this.#options = options
  }

  get isFull (): boolean { return this.#listeners.size >= LISTENERS_MAX }

  add (request: FastifyRequest, reply: FastifyReply, { expiresAtMs }: Operator): void {
    const listener: Listener = { request, reply, endsAtMs: expiresAtMs }
    this.#listeners.add(listener)
    reply.raw.writeHead(200, STREAM_HEADERS)
    reply.raw.on('close', () => { this.#remove(listener) })
    // Whatever becomes of a stream, it is that client's alone.
    reply.raw.on('error', () => { this.#remove(listener) })
    reply.raw.write('retry: 3000\n\n')
    for (const [name, data] of this.#last) write(listener, eventText(name, data))
    this.#start()
  }

  close (): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    for (const listener of this.#listeners) listener.reply.raw.end()
    this.#listeners.clear()
  }

  #remove (listener: Listener): void {
    this.#listeners.delete(listener)
    if (this.#listeners.size > 0) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    // What nobody has followed is not known.
    this.#last.clear()
  }

  /** A round that is running goes on for whoever comes meanwhile. A second one beside it would never end. */
  #start (): void {
    if (this.#isRunning && this.#listeners.size === 1) this.#isWanted = true
    if (!this.#isRunning && this.#timer === null) this.#plan(0)
  }

  #plan (inMs: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#isRunning = true
      void this.#round().catch(() => {}).finally(() => {
        this.#isRunning = false
        if (this.#listeners.size > 0) this.#plan(this.#isWanted ? 0 : EVERY_MS)
        this.#isWanted = false
      })
    }, inMs).unref()
  }

  async #round (): Promise<void> {
    await this.#endThoseWhoMayNot()
    const isHeartbeat = performance.now() - this.#heartbeatAtMs > HEARTBEAT_MS
    if (isHeartbeat) {
      this.#heartbeatAtMs = performance.now()
      for (const listener of this.#listeners) write(listener, ': still here\n\n')
    }
    const context = await this.#options.context()
    for (const name of EVENT_NAMES) void this.#tell(name, context)
  }

  /** Each by itself: while a database does not answer, the promise is told all the same. */
  async #tell (name: EventName, context: OperationContext): Promise<void> {
    if (this.#asking.has(name)) return
    this.#asking.add(name)
    try {
      const data = JSON.stringify(await STATES[name](context))
      if (data === this.#last.get(name) || this.#listeners.size === 0) return
      this.#last.set(name, data)
      for (const listener of this.#listeners) write(listener, eventText(name, data))
    } catch {
      // It is asked again in the next round.
    } finally {
      this.#asking.delete(name)
    }
  }

  /** A session ends, a token is taken back: with it the stream. */
  async #endThoseWhoMayNot (): Promise<void> {
    for (const listener of [...this.#listeners]) {
      const who = await this.#options.listener(listener.request)
      const isOver = listener.endsAtMs !== null && listener.endsAtMs <= Date.now()
      if (!(who instanceof OperatorProblem) && !isOver) continue
      // Nothing is written behind the end, which its client may read late.
      this.#remove(listener)
      listener.reply.raw.end()
    }
  }
}

function write ({ reply: { raw } }: Listener, text: string): void {
  if (raw.writableLength > UNREAD_BYTES_MAX) raw.destroy()
  else raw.write(text)
}

function eventText (name: EventName, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`
}

const STATES: Readonly<Record<EventName, (context: OperationContext) => Promise<object>>> = {
  'unknown-outcomes': async ({ stores }) => {
    const routes = await stores.operator.unknownByRoute()
    return {
      count: routes.reduce((sum, { count }) => sum + count, 0),
      routes: routes.map(({ route, count, oldestMs }) => ({ route, count, oldestAt: timeText(oldestMs) }))
    }
  },
  'dead-letters': async (context) => {
    const routes = (await inboxRoutes(context)).routes.filter(({ dead, held }) => dead + held > 0)
    return {
      count: routes.reduce((sum, { dead, held }) => sum + dead + held, 0),
      routes: routes.map(({ route, dead, held }) => ({ route, dead, held }))
    }
  },
  'paused-inboxes': async (context) => {
    const routes = (await inboxRoutes(context)).routes.flatMap(({ route, paused }) => paused === null ? [] : [{ route, ...paused }])
    return { count: routes.length, routes }
  },
  promise: async ({ gateway }) => {
    if (gateway === null) return {}
    const { status, degraded, reason, durability } = await gateway.readiness()
    return { status, degraded, reason, promise: durability?.promise ?? null, reasons: durability?.reasons ?? [] }
  }
}
