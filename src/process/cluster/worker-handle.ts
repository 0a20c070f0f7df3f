/**
 * One worker process as the primary sees it: told to start, asked with an end to the patience, and heard of once when it
 * has ended. Decides nothing about when it starts, nor about its successor (supervisor.ts).
 */
import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { fileURLToPath } from 'node:url'
import type { Cancel, Clock } from '../../ports/clock.ts'
import type { About, Answers, Failed, FromWorker, Listening, Question, Start, ToWorker } from './worker-protocol.ts'

/** `.ts` in the sources, `.js` in the built package. */
const WORKER_MAIN = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url))
/** Node itself and the modules take half a second; a machine that needs more than this for them does not serve either. */
const HELLO_WITHIN_MS = 60_000
/** Questions that a worker which stands still has not answered: the next ones would only queue up in the channel. */
const UNANSWERED_MAX = 16

export interface WorkerEnd {
  readonly code: number | null
  readonly signal: string | null
  /** What it said for itself; null: nothing. */
  readonly failed: Failed | null
}

export interface WorkerEvents {
  /** It has said hello, and waits for its start. */
  readonly loaded: () => void
  readonly listening: (listening: Listening) => void
  readonly ended: (ended: WorkerEnd) => void
}

/** What the crew needs of a worker; tests bring their own. */
export interface WorkerHandle {
  /** No other process of this gateway ever has it. */
  readonly id: number
  readonly pid: number
  start: () => void
  /** The answer, or null: none in time, or none any more. */
  ask: <A extends About>(question: Question<A>, withinMs: number) => Promise<Answers[A] | null>
  drain: () => void
  kill: () => void
}

/**
 * Node's round robin rather than one SO_REUSEPORT socket for each worker: the kernel spreads connections by a hash, so
 * of a load balancer's few keep-alive connections one worker may get most; what waits in the queue of a worker that dies,
 * drains or stands still is lost or stuck with it. Here the primary accepts, and offers each connection to a worker that
 * has taken its last one. It costs the primary one message for each connection, not for each request.
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

  /** `startOf`: looked at when it starts: a reload may have come since it was made. */
  constructor (clock: Clock, startOf: () => Start, events: WorkerEvents) {
    this.#clock = clock
    this.#startOf = startOf
    this.#events = events
    this.#worker = cluster.fork()
    this.id = this.#worker.id
    this.#worker.on('message', (message: FromWorker) => { this.#receive(message) })
    this.#worker.once('exit', (code, signal) => { this.#ended(code, signal) })
    // A process that could not be made has no end either.
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
    // Who has not started will, with the configuration that counts by then.
    if (this.#hasEnded || !this.#started) return null
    // A configuration must reach it, however late; what it would say of itself now, it will not.
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

  /** What cannot be told any more is followed by its end, of which everybody hears. */
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

  /** Node may tell of an end before the last message: one that never came to listen may have said why. */
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

/** What a process has said is read within a turn or two of its end. */
const LAST_MESSAGES_MS = 1_000

/** A TCP handle of Node's. */
interface Connection { readonly close: () => void }
interface ClusterMessage { readonly cmd?: unknown, readonly act?: unknown, readonly seq?: unknown, readonly ack?: unknown }
type Send = (message: ClusterMessage, handle?: Connection, ...rest: unknown[]) => boolean

/**
 * Node forgets a connection that was offered to a worker and not yet taken when the worker dies, and its client would wait
 * for nobody, because the primary's end of it stays open. So that is closed, and the client sees it at once. (By the
 * messages of Node's own lib/internal/cluster/: `newconn` with a number and the connection, `ack` with that number.)
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
  // Not at its exit: whatever it had said has been read by now, and what is left was never taken. With such a connection
  // Node does not say `disconnect` either, and would go on to count the worker among those that share the port.
  child.once('close', () => {
    if (cluster.workers?.[worker.id] !== undefined) child.emit('disconnect')
    for (const connection of offered.values()) connection.close()
    offered.clear()
  })
}
