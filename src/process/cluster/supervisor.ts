/**
 * The workers that should run and those that do. Who ends is replaced at once, who ends again and again after longer and
 * longer pauses; when nobody serves and that goes on, it is given up. Knows nothing of what is said to a worker.
 */
import { StartError } from '../../ports/errors.ts'
import type { Cancel, Clock } from '../../ports/clock.ts'
import type { Log } from '../../ports/telemetry.ts'
import type { WorkerState } from '../../telemetry/process-metrics.ts'
import type { Listening } from './worker-protocol.ts'
import type { WorkerEnd, WorkerHandle, WorkerEvents } from './worker-handle.ts'

/** Whoever has served for so long did not die of its start. */
const STABLE_AFTER_MS = 10_000
/** Before a second try in a row; each further pause is twice as long, up to the longest. */
const PAUSE_MS = 200
const PAUSE_LONGEST_MS = 10_000
/** Ends in a row at one place, none of them after it had stood: six starts and three seconds of pauses. */
const ENDS_MAX = 6

export interface SupervisorOptions {
  readonly size: number
  readonly fork: (number: number, events: WorkerEvents) => WorkerHandle
  readonly clock: Clock
  readonly log: Log
  /** Every worker listens, for the first time. */
  readonly complete: (listening: Listening) => void
  /** This process is gone; its successor is on its way, if there is to be one. */
  readonly ended: (handle: WorkerHandle) => void
  /** There will be no other one. Said once. */
  readonly gaveUp: (error: StartError) => void
}

interface Slot {
  readonly number: number
  handle: WorkerHandle | null
  /** loading: its process has not said hello. loaded: it waits for its turn. */
  stage: 'loading' | 'loaded' | 'started'
  /** When it began to listen; null: it does not. */
  servesSinceMs: number | null
  /** In a row, none of them after it had stood. */
  endsInARow: number
  /** Its successor is held back. */
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

  /** All have listened at once. */
  get wasComplete (): boolean { return this.#wasComplete }

  /** Those that listen. */
  get serving (): WorkerHandle[] {
    return this.#slots.flatMap(({ handle, servesSinceMs }) => handle === null || servesSinceMs === null ? [] : [handle])
  }

  /** Those that are there. */
  get handles (): WorkerHandle[] {
    return this.#slots.flatMap(({ handle }) => handle ?? [])
  }

  /** How many are in which state; `answering`: who has just answered. */
  countStates (answering: ReadonlySet<number>): Record<WorkerState, number> {
    const counts = { ready: 0, starting: 0, silent: 0, waiting: 0 }
    for (const { handle, servesSinceMs } of this.#slots) {
      if (handle === null) counts.waiting++
      else if (servesSinceMs === null) counts.starting++
      else counts[answering.has(handle.id) ? 'ready' : 'silent']++
    }
    return counts
  }

  /** Makes a process for every place that has none, and is not held back. */
  fill (): void {
    for (const slot of this.#slots) {
      if (!this.#over && slot.handle === null && slot.cancelPause === null) this.#fork(slot)
    }
  }

  /**
   * Lets those start that have loaded. While nobody serves one goes ahead: what keeps a worker from starting is then told
   * once, the database is migrated by one, and the port is bound for one. (Node's primary dies of two that fail to bind
   * at once: queryServer in its lib/internal/cluster/primary.js looks for a handle that the first has taken away.)
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

  /** Everybody drains and ends. true: by itself, with 0. Who takes longer than `withinMs` is ended. */
  async drain (withinMs: number): Promise<boolean> {
    this.#stopReplacing()
    for (const handle of this.handles) handle.drain()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#allEnded = resolve
    const cancel = this.#options.clock.after(withinMs, () => {
      this.#options.log.error({ workers: this.handles.length, withinMs }, 'workers have not drained in time; they are ended')
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

  /** Nobody is replaced any more. */
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
    log.info({ worker: slot.number, pid: slot.handle.pid }, 'worker starts')
  }

  #onListening (slot: Slot, listening: Listening): void {
    slot.servesSinceMs = this.#options.clock.monotonicMs()
    this.#options.log.info({ worker: slot.number, pid: slot.handle?.pid }, 'worker listens')
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
    if (this.#over && code === 0) log.info({ worker: number, pid }, 'worker ended')
    else log.error({ worker: number, pid, code, signal, inARow: ends, ...(failed !== null && { reason: failed.message }) }, 'worker ended')
  }

  /** Why there is no sense in another try; null: there is. */
  #reasonToGiveUp ({ endsInARow }: Slot, { code, signal, failed }: WorkerEnd): StartError | null {
    // As one process alone: what keeps it from starting is its end, and nothing has been promised to anybody yet.
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
