/**
 * One worker process, as the primary sees it. The handle starts it, asks it with a time limit and reports its end once.
 * The supervisor (supervisor.ts) decides about starts and successors.
 */
import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { fileURLToPath } from 'node:url'
import type { Cancel, Clock } from '../../ports/clock.ts'
import type { About, Answers, Failed, FromWorker, Listening, Question, Start, ToWorker } from './worker-protocol.ts'

/** `.ts` in the sources, `.js` in the built package. */
const WORKER_MAIN = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url))
/** Node and the modules load in half a second. A machine that needs more than this cannot serve either. */
const HELLO_WITHIN_MS = 60_000
/** The most unanswered questions to a stalled worker. More would only queue in the channel. */
const UNANSWERED_MAX = 16

export interface WorkerEnd {
  readonly code: number | null
  readonly signal: string | null
  /** The reason that the worker gave. null: none. */
  readonly failed: Failed | null
}

export interface WorkerEvents {
  /** The worker has said hello and waits for its start. */
  readonly loaded: () => void
  readonly listening: (listening: Listening) => void
  readonly ended: (ended: WorkerEnd) => void
}

/** What the supervisor needs of a worker. Tests have their own. */
export interface WorkerHandle {
  /** No other process of this gateway ever has the same id. */
  readonly id: number
  readonly pid: number
  start: () => void
  /** Resolves with null if no answer comes in time, or if the worker has ended. */
  ask: <A extends About>(question: Question<A>, withinMs: number) => Promise<Answers[A] | null>
  drain: () => void
  kill: () => void
}

/**
 * Node's round robin instead of one SO_REUSEPORT socket per worker. The kernel spreads connections by a hash, so one
 * worker may get most of the few keep-alive connections of a load balancer. Connections in the queue of a worker that
 * dies, drains or stalls are lost or stuck. Here the primary accepts, and offers each connection to a worker that has
 * taken its last one. That costs the primary one message per connection, not per request.
 */
export function prepareCluster (): void {
  cluster.schedulingPolicy = cluster.SCHED_RR
  cluster.setupPrimary({ exec: WORKER_MAIN, args: [], serialization: 'advanced' })
}

export class WorkerProcess implements WorkerHandle {
  readonly id: number
  readonly #worker: Worker
  readonly #clock: Clock
  readonly #events: WorkerEvents
  readonly #startOf: () => Start
  readonly #pendingAnswers = new Map<number, (answer: Answers[About] | null) => void>()
  readonly #cancelHello: Cancel
  #asked = 0
  #unanswered = 0
  #started = false
  #listens = false
  #failed: Failed | null = null
  #hasEnded = false

  /** `startOf` is called at the start, because a reload may have come since the fork. */
  constructor (clock: Clock, startOf: () => Start, events: WorkerEvents) {
    this.#clock = clock
    this.#startOf = startOf
    this.#events = events
    this.#worker = cluster.fork()
    this.id = this.#worker.id
    this.#worker.on('message', (message: FromWorker) => { this.#receive(message) })
    this.#worker.once('exit', (code, signal) => { this.#ended(code, signal) })
    // A process that could not be created has no exit event.
    this.#worker.on('error', () => { if (this.#worker.process.pid === undefined) this.#end(null, null) })
    closeUntakenConnections(this.#worker)
    this.#cancelHello = clock.after(HELLO_WITHIN_MS, () => { this.kill() })
  }

  get pid (): number { return this.#worker.process.pid ?? 0 }

  start (): void {
    this.#started = true
    this.#send(this.#startOf())
  }

  async ask<A extends About> (question: Question<A>, withinMs: number): Promise<Answers[A] | null> {
    // A worker that has not started will start with the configuration in force by then.
    if (this.#hasEnded || !this.#started) return null
    // A configuration must reach the worker, however late. Other answers would be too old.
    if (this.#unanswered >= UNANSWERED_MAX && question.about !== 'take') return null
    this.#unanswered++
    const id = ++this.#asked
    const { promise, resolve } = Promise.withResolvers<Answers[About] | null>()
    this.#pendingAnswers.set(id, resolve)
    const cancel = this.#clock.after(withinMs, () => { resolve(null) })
    this.#send({ kind: 'ask', id, question })
    const answer = await promise
    cancel()
    this.#pendingAnswers.delete(id)
    return answer as Answers[A] | null
  }

  drain (): void {
    this.#send({ kind: 'drain' })
  }

  kill (): void {
    this.#worker.process.kill('SIGKILL')
  }

  /** A send to a dead worker fails silently. Its end is reported anyway. */
  #send (message: ToWorker): void {
    this.#worker.process.send(message, () => {})
  }

  #receive (message: FromWorker): void {
    if (this.#hasEnded) return
    switch (message.kind) {
      case 'hello':
        this.#cancelHello()
        this.#events.loaded()
        return
      case 'listening':
        this.#listens = true
        this.#events.listening({ url: message.url, where: message.where })
        return
      case 'failed':
        this.#failed = { message: message.message, exitCode: message.exitCode }
        return
      case 'answer':
        this.#unanswered--
        this.#pendingAnswers.get(message.id)?.(message.answer)
    }
  }

  /** Node may emit the exit before the last message. A worker that never listened may have sent its reason. */
  #ended (code: number | null, signal: string | null): void {
    const end = (): void => { this.#end(code, signal) }
    if (this.#listens) return end()
    this.#worker.process.once('close', end)
    this.#clock.after(LAST_MESSAGES_MS, end)
  }

  #end (code: number | null, signal: string | null): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#cancelHello()
    for (const resolve of this.#pendingAnswers.values()) resolve(null)
    this.#events.ended({ code, signal, failed: this.#failed })
  }
}

/** The last messages are read within a turn or two of the exit. */
const LAST_MESSAGES_MS = 1_000

/** A TCP handle of Node. */
interface Connection { readonly close: () => void }
interface ClusterMessage { readonly cmd?: unknown, readonly act?: unknown, readonly seq?: unknown, readonly ack?: unknown }
type Send = (message: ClusterMessage, handle?: Connection, ...rest: unknown[]) => boolean

/**
 * If a worker dies, Node forgets connections that it was offered and did not take. The primary's end stays open, so the
 * client would wait for ever. This closes them, so the client sees it at once. (It follows the messages of Node's
 * lib/internal/cluster/: `newconn` with a number and the connection, `ack` with that number.)
 */
function closeUntakenConnections (worker: Worker): void {
  const { process: child } = worker
  const offered = new Map<number, Connection>()
  const send = child.send.bind(child) as Send
  const watched: Send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && typeof message.seq === 'number' && handle != null) offered.set(message.seq, handle)
    return send(message, handle, ...rest)
  }
  Object.assign(child, { send: watched })
  child.on('internalMessage', ({ ack }: ClusterMessage) => { if (typeof ack === 'number') offered.delete(ack) })
  // At 'close', not at 'exit': by then all messages have been read, and the remaining connections were never taken.
  // With such a connection Node does not emit `disconnect`, and would still count the worker for the port.
  child.once('close', () => {
    if (cluster.workers?.[worker.id] !== undefined) child.emit('disconnect')
    for (const connection of offered.values()) connection.close()
    offered.clear()
  })
}
