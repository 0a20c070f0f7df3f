/**
 * The main thread's end of the worker: batches out, results back by number. If the worker ends unasked, everything in flight is
 * in doubt and later calls fail at once. It is never restarted behind the store's back, because what was in doubt must be
 * reported first.
 */
import { Worker } from 'node:worker_threads'
import { errorText, StoreUnavailable } from '../../ports/errors.ts'
import { errorOf, type Fault } from './faults.ts'
import { BATCHES, LaneWriter, newLaneMemory, RUNG, type LaneMemory } from './lane-buffer.ts'
import {
  ALL_USUAL,
  packed,
  revived,
  type Call,
  type FromWorker,
  type ToWorker,
  type Unusual,
  type WorkerData,
  type WorkerStart
} from './worker-protocol.ts'
import type { Lapsed } from '../../ports/records.ts'
import type { Recovered } from '../../ports/inbox.ts'

interface Waiting {
  readonly operation: string
  readonly resolve: (results: unknown[]) => void
  readonly reject: (error: Error) => void
}

export interface StartedWorker {
  readonly client: WorkerClient
  readonly installation: string
  readonly lapsed: readonly Lapsed[]
  readonly recovered: Recovered
}

/** `.ts` in the sources, `.js` in the built package. */
const WORKER_URL = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url)

/** Rejects with StartError. */
export function startWorker (start: WorkerStart): Promise<StartedWorker> {
  // No execArgv of ours: a debugger's port or a test runner's loader is the main thread's alone.
  const memory = newLaneMemory()
  const workerData: WorkerData = { ...start, memory }
  const worker = new Worker(WORKER_URL, { workerData, name: 'onceway-sqlite', execArgv: [] })
  return new Promise((resolve, reject) => {
    worker.once('error', reject)
    worker.once('message', (message: FromWorker) => {
      if (message === ALL_USUAL) return
      if (message.kind === 'open') {
        resolve({
          client: new WorkerClient(worker, memory),
          installation: message.installation,
          lapsed: revived(message.lapsed),
          recovered: revived(message.recovered)
        })
      } else if (message.kind === 'failed') {
        reject(errorOf(message.fault))
      }
    })
  })
}

/** Gets the reply to a batch in shared memory. One method is called, once. */
export interface BatchReceiver {
  /** `unusual`: by their index. */
  committed: (unusual: readonly Unusual[]) => void
  failed: (fault: Fault) => void
}

const NONE: readonly Unusual[] = []

export class WorkerClient {
  /** For the next batch in shared memory, after the reply to the one before. */
  readonly writer: LaneWriter
  readonly #worker: Worker
  readonly #bell: LaneMemory['bell']
  /** Waits for the batch in shared memory. */
  #receiver: BatchReceiver | null = null
  readonly #waiting = new Map<number, Waiting>()
  readonly #exited: Promise<void>
  #sent = 0
  /** Why nothing can be sent any more. */
  #ended: Error | null = null

  constructor (worker: Worker, memory: LaneMemory) {
    this.#worker = worker
    this.#bell = memory.bell
    this.writer = new LaneWriter(memory)
    worker.on('message', (message: FromWorker) => { this.#receive(message) })
    worker.on('error', (error) => { this.#end(error) })
    this.#exited = new Promise((resolve) => {
      worker.once('exit', () => {
        this.#end(new Error('the SQLite worker ended'))
        resolve()
      })
    })
  }

  /** Why the thread is gone, or null while it is there. */
  get ended (): Error | null { return this.#ended }

  /**
   * Sends one batch, which is one transaction. Resolves with one result per call. The store's batchers bound how much is
   * sent.
   */
  send (calls: readonly Call[], nowMs: number, believedMs: number | null = null): Promise<unknown[]> {
    const operation = calls[0]?.op ?? 'nothing'
    if (this.#ended !== null) return Promise.reject(new StoreUnavailable('sqlite', operation, false, this.#ended))
    const number = ++this.#sent
    return new Promise((resolve, reject) => {
      this.#post({ kind: 'batch', number, nowMs, believedMs, calls })
      this.#waiting.set(number, { operation, resolve, reject })
    })
  }

  /** Runs what `writer` has written. Called only while `ended` is null, and after the reply to the batch before. */
  runBatch (receiver: BatchReceiver): void {
    this.#receiver = receiver
    Atomics.add(this.#bell, BATCHES, 1)
    this.#ring()
  }

  /** Resolves when what was sent is done, the file is closed and the thread is gone. */
  async close (): Promise<void> {
    if (this.#ended === null) this.#post({ kind: 'close' })
    await this.#exited
  }

  /** Ends the thread where it stands, as a crash would. */
  async kill (): Promise<void> {
    await this.#worker.terminate()
  }

  #post (message: ToWorker): void {
    const transfer: ArrayBuffer[] = []
    const body = packed(message, transfer)
    this.#worker.postMessage(body, transfer)
    this.#ring()
  }

  /** The worker sleeps on this word, not in its event loop: it wakes in half the time. */
  #ring (): void {
    Atomics.add(this.#bell, RUNG, 1)
    Atomics.notify(this.#bell, RUNG)
  }

  #receive (message: FromWorker): void {
    if (message === ALL_USUAL) return this.#taken()?.committed(NONE)
    if (message.kind === 'lanes') return this.#taken()?.committed(revived(message.unusual))
    if (message.kind === 'lanesFault') return this.#taken()?.failed(message.fault)
    if (message.kind !== 'results' && message.kind !== 'fault') return
    const waiting = this.#waiting.get(message.number)
    this.#waiting.delete(message.number)
    if (message.kind === 'results') waiting?.resolve(revived(message.results))
    else waiting?.reject(errorOf(message.fault))
  }

  #taken (): BatchReceiver | null {
    const receiver = this.#receiver
    this.#receiver = null
    return receiver
  }

  #end (reason: Error): void {
    this.#ended ??= reason
    this.#taken()?.failed({ kind: 'unavailable', operation: 'batch', message: errorText(this.#ended), inDoubt: true })
    for (const { operation, reject } of this.#waiting.values()) reject(new StoreUnavailable('sqlite', operation, true, this.#ended))
    this.#waiting.clear()
  }
}
