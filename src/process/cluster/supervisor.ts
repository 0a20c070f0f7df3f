/**
 * The workers that should run and those that do. Who ends is replaced at once, who ends again and again after longer and
 * longer pauses; when nobody serves and that goes on, it is given up. Knows nothing of what is said to a worker.
 */
import { StartError } from '../../ports/errors.ts'
import type { Cancel, Clock } from '../../ports/clock.ts'
import type { Log } from '../../ports/telemetry.ts'
import type { WorkerState } from '../../telemetry/process-metrics.ts'
import type { Listening } from './worker-protocol.ts'
import type { Ended, WorkerHandle, WorkerEvents } from './worker-handle.ts'

/** Whoever has served for so long did not die of its start. */
const STOOD_MS = 10_000
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
  readonly ended: (hand: WorkerHandle) => void
  /** There will be no other one. Said once. */
  readonly gaveUp: (error: StartError) => void
}

interface Place {
  readonly number: number
  hand: WorkerHandle | null
  /** loading: its process has not said hello. loaded: it waits for its turn. */
  stage: 'loading' | 'loaded' | 'started'
  /** When it began to listen; null: it does not. */
  servesSinceMs: number | null
  /** In a row, none of them after it had stood. */
  ends: number
  /** Its successor is held back. */
  cancelPause: Cancel | null
}

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #places: readonly Place[]
  #wasComplete = false
  #over = false
  #clean = true
  #allEnded: (() => void) | null = null

  constructor (options: SupervisorOptions) {
    this.#options = options
    this.#places = Array.from({ length: options.size }, (_, index) => ({
      number: index + 1,
      hand: null,
      stage: 'loading',
      servesSinceMs: null,
      ends: 0,
      cancelPause: null
    }))
  }

  get size (): number { return this.#places.length }

  /** All have listened at once. */
  get wasComplete (): boolean { return this.#wasComplete }

  /** Those that listen. */
  get serving (): WorkerHandle[] {
    return this.#places.flatMap(({ hand, servesSinceMs }) => hand === null || servesSinceMs === null ? [] : [hand])
  }

  /** Those that are there. */
  get hands (): WorkerHandle[] {
    return this.#places.flatMap(({ hand }) => hand ?? [])
  }

  /** How many are in which state; `answering`: who has just answered. */
  count (answering: ReadonlySet<number>): Record<WorkerState, number> {
    const counts = { ready: 0, starting: 0, silent: 0, waiting: 0 }
    for (const { hand, servesSinceMs } of this.#places) {
      if (hand === null) counts.waiting++
      else if (servesSinceMs === null) counts.starting++
      else counts[answering.has(hand.id) ? 'ready' : 'silent']++
    }
    return counts
  }

  /** Makes a process for every place that has none, and is not held back. */
  fill (): void {
    for (const place of this.#places) {
      if (!this.#over && place.hand === null && place.cancelPause === null) this.#fork(place)
    }
  }

  /**
   * Lets those start that have loaded. While nobody serves one goes ahead: what keeps a worker from starting is then told
   * once, the database is migrated by one, and the port is bound for one. (Node's primary dies of two that fail to bind
   * at once: queryServer in its lib/internal/cluster/primary.js looks for a handle that the first has taken away.)
   */
  #next (): void {
    for (const place of this.#places) {
      if (this.#over || place.stage !== 'loaded') continue
      if (this.serving.length === 0 && this.#places.some(({ stage, servesSinceMs }) => stage === 'started' && servesSinceMs === null)) {
        return
      }
      place.stage = 'started'
      place.hand?.start()
    }
  }

  /** Everybody drains and ends. true: by itself, with 0. Who takes longer than `withinMs` is ended. */
  async drain (withinMs: number): Promise<boolean> {
    this.#leave()
    for (const hand of this.hands) hand.drain()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#allEnded = resolve
    const cancel = this.#options.clock.after(withinMs, () => {
      this.#options.log.error({ workers: this.hands.length, withinMs }, 'workers have not drained in time; they are ended')
      this.kill()
    })
    if (this.hands.length === 0) resolve()
    await promise
    cancel()
    return this.#clean
  }

  kill (): void {
    this.#leave()
    for (const hand of this.hands) hand.kill()
  }

  /** Nobody is replaced any more. */
  #leave (): void {
    this.#over = true
    for (const { cancelPause } of this.#places) cancelPause?.()
  }

  #fork (place: Place): void {
    const { fork, log } = this.#options
    place.hand = fork(place.number, {
      loaded: () => {
        place.stage = 'loaded'
        this.#next()
      },
      listening: (listening) => { this.#listens(place, listening) },
      ended: (ended) => { this.#ended(place, ended) }
    })
    log.info({ worker: place.number, pid: place.hand.pid }, 'worker starts')
  }

  #listens (place: Place, listening: Listening): void {
    place.servesSinceMs = this.#options.clock.monotonicMs()
    this.#options.log.info({ worker: place.number, pid: place.hand?.pid }, 'worker listens')
    this.#next()
    if (this.#wasComplete || this.#over || this.serving.length < this.size) return
    this.#wasComplete = true
    this.#options.complete(listening)
  }

  #ended (place: Place, ended: Ended): void {
    const { hand, servesSinceMs } = place
    if (hand === null) return
    const { clock } = this.#options
    const stood = servesSinceMs !== null && clock.monotonicMs() - servesSinceMs >= STOOD_MS
    Object.assign(place, { hand: null, stage: 'loading', servesSinceMs: null, ends: stood ? 1 : place.ends + 1 })
    this.#tell(place, hand, ended)
    this.#options.ended(hand)
    if (this.#over) {
      if (ended.code !== 0) this.#clean = false
      if (this.hands.length === 0) this.#allEnded?.()
      return
    }
    const hopeless = this.#hopeless(place, ended)
    if (hopeless !== null) return this.#giveUp(hopeless)
    this.#replace(place)
    this.#next()
  }

  #tell ({ number, ends }: Place, { pid }: WorkerHandle, { code, signal, failed }: Ended): void {
    const { log } = this.#options
    if (this.#over && code === 0) log.info({ worker: number, pid }, 'worker ended')
    else log.error({ worker: number, pid, code, signal, inARow: ends, ...(failed !== null && { reason: failed.message }) }, 'worker ended')
  }

  /** Why there is no sense in another try; null: there is. */
  #hopeless ({ ends }: Place, { code, signal, failed }: Ended): StartError | null {
    // As one process alone: what keeps it from starting is its end, and nothing has been promised to anybody yet.
    if (!this.#wasComplete && failed !== null) return new StartError(failed.message, failed.exitCode)
    if (ends < ENDS_MAX || this.serving.length > 0) return null
    const how = failed?.message ?? `the last one with ${signal ?? `exit code ${code}`}`
    return new StartError(`workers end as soon as they have started, ${ends} times in a row: ${how}`, failed?.exitCode ?? 1)
  }

  #giveUp (error: StartError): void {
    this.#leave()
    this.#options.gaveUp(error)
  }

  #replace (place: Place): void {
    if (place.ends === 1) return this.fill()
    const pauseMs = Math.min(PAUSE_MS * 2 ** (place.ends - 2), PAUSE_LONGEST_MS)
    place.cancelPause = this.#options.clock.after(pauseMs, () => {
      place.cancelPause = null
      this.fill()
    })
  }
}
