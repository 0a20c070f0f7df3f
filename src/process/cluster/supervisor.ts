/**
 * Keeps the wanted number of workers running. A worker that ends is replaced at once. If it ends again and again, the
 * pauses get longer. If no worker serves and that goes on, the supervisor gives up. It knows nothing of the messages to
 * a worker.
 */
import { StartError } from '../../ports/errors.ts'
import type { Cancel, Clock } from '../../ports/clock.ts'
import type { Log } from '../../ports/telemetry.ts'
import type { WorkerState } from '../../telemetry/process-metrics.ts'
import type { Listening } from './worker-protocol.ts'
import type { WorkerEnd, WorkerHandle, WorkerEvents } from './worker-handle.ts'

/** A worker that has served for this long did not fail at its start. */
const STABLE_AFTER_MS = 10_000
/** The pause before a second try in a row. Each further pause is twice as long, up to the longest. */
const PAUSE_MS = 200
const PAUSE_LONGEST_MS = 10_000
/** The most ends in a row in one slot, none of them after a stable time. That is six starts and three seconds of pauses. */
const ENDS_MAX = 6

export interface SupervisorOptions {
  readonly size: number
  readonly fork: (number: number, events: WorkerEvents) => WorkerHandle
  readonly clock: Clock
  readonly log: Log
  /** All workers listen for the first time. */
  readonly complete: (listening: Listening) => void
  /** This process has ended. Its successor is on its way, if there will be one. */
  readonly ended: (handle: WorkerHandle) => void
  /** No worker will be started again. Called once. */
  readonly gaveUp: (error: StartError) => void
}

interface Slot {
  readonly number: number
  handle: WorkerHandle | null
  /** loading: the process has not said hello. loaded: it waits for its start. */
  stage: 'loading' | 'loaded' | 'started'
  /** When it began to listen. null: it does not listen. */
  servesSinceMs: number | null
  /** Ends in a row, none of them after a stable time. */
  endsInARow: number
  /** Set while the successor waits for the end of its pause. */
  cancelPause: Cancel | null
}

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #slots: readonly Slot[]
  #wasComplete = false
  #over = false
  #clean = true
  #allEnded: (() => void) | null = null

  constructor (options: SupervisorOptions) {
    this.#options = options
    this.#slots = Array.from({ length: options.size }, (_, index) => ({
      number: index + 1,
      handle: null,
      stage: 'loading',
      servesSinceMs: null,
      endsInARow: 0,
      cancelPause: null
    }))
  }

  get size (): number { return this.#slots.length }

  /** All workers have listened at the same time. */
  get wasComplete (): boolean { return this.#wasComplete }

  /** Workers that listen. */
  get serving (): WorkerHandle[] {
    return this.#slots.flatMap(({ handle, servesSinceMs }) => handle === null || servesSinceMs === null ? [] : [handle])
  }

  /** Workers that have a process. */
  get handles (): WorkerHandle[] {
    return this.#slots.flatMap(({ handle }) => handle ?? [])
  }

  /** Counts workers by state. `answering`: ids of workers that have just answered. */
  countStates (answering: ReadonlySet<number>): Record<WorkerState, number> {
    const counts = { ready: 0, starting: 0, silent: 0, waiting: 0 }
    for (const { handle, servesSinceMs } of this.#slots) {
      if (handle === null) counts.waiting++
      else if (servesSinceMs === null) counts.starting++
      else counts[answering.has(handle.id) ? 'ready' : 'silent']++
    }
    return counts
  }

  /** Forks a process for every slot that has none and is not in a pause. */
  fill (): void {
    for (const slot of this.#slots) {
      if (!this.#over && slot.handle === null && slot.cancelPause === null) this.#fork(slot)
    }
  }

  /**
   * Starts the loaded workers. While no worker serves, one goes first. So an error of the start is logged once, one
   * worker migrates the database, and the port is bound for one. (If two workers fail to bind at once, Node's primary
   * crashes: queryServer in lib/internal/cluster/primary.js looks for a handle that the first has removed.)
   */
  #startLoaded (): void {
    for (const slot of this.#slots) {
      if (this.#over || slot.stage !== 'loaded') continue
      if (this.serving.length === 0 && this.#slots.some(({ stage, servesSinceMs }) => stage === 'started' && servesSinceMs === null)) {
        return
      }
      slot.stage = 'started'
      slot.handle?.start()
    }
  }

  /**
   * All workers drain and end. true: all ended by themselves with exit code 0. Workers that take longer than `withinMs`
   * are killed.
   */
  async drain (withinMs: number): Promise<boolean> {
    this.#stopReplacing()
    for (const handle of this.handles) handle.drain()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#allEnded = resolve
    const cancel = this.#options.clock.after(withinMs, () => {
      this.#options.log.error(
        { event: 'workers-killed', workers: this.handles.length, withinMs },
        'workers have not drained in time; they are ended'
      )
      this.kill()
    })
    if (this.handles.length === 0) resolve()
    await promise
    cancel()
    return this.#clean
  }

  kill (): void {
    this.#stopReplacing()
    for (const handle of this.handles) handle.kill()
  }

  /** From now on no worker is replaced. */
  #stopReplacing (): void {
    this.#over = true
    for (const { cancelPause } of this.#slots) cancelPause?.()
  }

  #fork (slot: Slot): void {
    const { fork, log } = this.#options
    slot.handle = fork(slot.number, {
      loaded: () => {
        slot.stage = 'loaded'
        this.#startLoaded()
      },
      listening: (listening) => { this.#onListening(slot, listening) },
      ended: (ended) => { this.#onEnded(slot, ended) }
    })
    log.info({ event: 'worker-started', worker: slot.number, pid: slot.handle.pid }, 'worker starts')
  }

  #onListening (slot: Slot, listening: Listening): void {
    slot.servesSinceMs = this.#options.clock.monotonicMs()
    this.#options.log.info({ event: 'worker-ready', worker: slot.number, pid: slot.handle?.pid }, 'worker listens')
    this.#startLoaded()
    if (this.#wasComplete || this.#over || this.serving.length < this.size) return
    this.#wasComplete = true
    this.#options.complete(listening)
  }

  #onEnded (slot: Slot, ended: WorkerEnd): void {
    const { handle, servesSinceMs } = slot
    if (handle === null) return
    const { clock } = this.#options
    const wasStable = servesSinceMs !== null && clock.monotonicMs() - servesSinceMs >= STABLE_AFTER_MS
    Object.assign(slot, { handle: null, stage: 'loading', servesSinceMs: null, endsInARow: wasStable ? 1 : slot.endsInARow + 1 })
    this.#logEnd(slot, handle, ended)
    this.#options.ended(handle)
    if (this.#over) {
      if (ended.code !== 0) this.#clean = false
      if (this.handles.length === 0) this.#allEnded?.()
      return
    }
    const hopeless = this.#reasonToGiveUp(slot, ended)
    if (hopeless !== null) return this.#giveUp(hopeless)
    this.#replace(slot)
    this.#startLoaded()
  }

  #logEnd ({ number, endsInARow: ends }: Slot, { pid }: WorkerHandle, { code, signal, failed }: WorkerEnd): void {
    const { log } = this.#options
    if (this.#over && code === 0) {
      log.info({ event: 'worker-ended', worker: number, pid }, 'worker ended')
    } else {
      log.error(
        { event: 'worker-died', worker: number, pid, code, signal, inARow: ends, ...(failed !== null && { reason: failed.message }) },
        'worker ended'
      )
    }
  }

  /** The reason why another try makes no sense. null: it does. */
  #reasonToGiveUp ({ endsInARow }: Slot, { code, signal, failed }: WorkerEnd): StartError | null {
    // As with a single process: an error of the first start ends it. No client has been served yet.
    if (!this.#wasComplete && failed !== null) return new StartError(failed.message, failed.exitCode)
    if (endsInARow < ENDS_MAX || this.serving.length > 0) return null
    const how = failed?.message ?? `the last one with ${signal ?? `exit code ${code}`}`
    return new StartError(`workers end as soon as they have started, ${endsInARow} times in a row: ${how}`, failed?.exitCode ?? 1)
  }

  #giveUp (error: StartError): void {
    this.#stopReplacing()
    this.#options.gaveUp(error)
  }

  #replace (slot: Slot): void {
    if (slot.endsInARow === 1) return this.fill()
    const pauseMs = Math.min(PAUSE_MS * 2 ** (slot.endsInARow - 2), PAUSE_LONGEST_MS)
    slot.cancelPause = this.#options.clock.after(pauseMs, () => {
      slot.cancelPause = null
      this.fill()
    })
  }
}
