/**
 * The worker thread of SQLite. Takes batches from the main thread and runs each as one transaction. Settles and renewals
 * overtake other batches: new claims never delay an answer (P8). Claims and settles come through shared memory (lane-buffer.ts),
 * everything else as messages. The thread sleeps on the memory's bell, not in its event loop.
 */
import { parentPort, receiveMessageOnPort, workerData, type MessagePort } from 'node:worker_threads'
import { Database } from './database.ts'
import { Faulted, type Fault } from './faults.ts'
import { BATCHES, LaneReader, RUNG, type LaneMemory } from './lane-buffer.ts'
import { ALL_USUAL, revived, type Batch, type FromWorker, type ToWorker, type WorkerData } from './worker-protocol.ts'

/**
 * With nothing to do for so long, the thread takes one turn of its event loop: there its inspector and its profiler are answered. A thread
 * that has work never waits so long.
 */
const IDLE_MS = 250

// Not within the module: what its loading has to say (a warning) leaves before the thread stops listening.
if (parentPort !== null) setImmediate(serve, parentPort, workerData as WorkerData)

function serve (port: MessagePort, start: WorkerData): void {
  const answer = (message: FromWorker) => { port.postMessage(message) }
  let database: Database
  try {
    database = new Database(start)
  } catch (error) {
    return answer({ kind: 'failed', fault: carried(error) })
  }
  answer({ kind: 'open', installation: database.installation, lapsed: database.lapsedAtStart, recovered: database.recoveredAtStart })
  const desk = new Desk(database, port, start.memory, answer)
  const turn = () => {
    if (desk.work() === 'idle') setImmediate(turn)
    else database.close()
  }
  turn()
}

/** Looks for something more urgent before each batch. The main thread bounds how much waits. */
class Desk {
  readonly #database: Database
  readonly #port: MessagePort
  readonly #bell: LaneMemory['bell']
  readonly #reader: LaneReader
  readonly #answer: (message: FromWorker) => void
  readonly #urgent: Batch[] = []
  readonly #others: Batch[] = []
  /** Batches of the shared memory. */
  #done = 0
  #isClosing = false

  constructor (database: Database, port: MessagePort, memory: LaneMemory, answer: (message: FromWorker) => void) {
    this.#database = database
    this.#port = port
    this.#bell = memory.bell
    this.#reader = new LaneReader(memory)
    this.#answer = answer
  }

  work (): 'closed' | 'idle' {
    for (;;) {
      const rung = Atomics.load(this.#bell, RUNG)
      this.#receive()
      if (this.#runNext()) continue
      if (this.#isClosing) return 'closed'
      if (Atomics.wait(this.#bell, RUNG, rung, IDLE_MS) === 'timed-out') return 'idle'
    }
  }

  #receive (): void {
    for (let waiting = receiveMessageOnPort(this.#port); waiting !== undefined; waiting = receiveMessageOnPort(this.#port)) {
      const message = waiting.message as ToWorker
      if (message.kind === 'close') this.#isClosing = true
      else (isUrgent(message) ? this.#urgent : this.#others).push(revived(message))
    }
  }

  /** false: nothing waits. */
  #runNext (): boolean {
    const urgent = this.#urgent.shift()
    if (urgent === undefined && Atomics.load(this.#bell, BATCHES) !== this.#done) {
      this.#done = (this.#done + 1) | 0
      this.#answer(runLanes(this.#database, this.#reader))
      return true
    }
    const batch = urgent ?? this.#others.shift()
    if (batch === undefined) return false
    this.#answer(run(this.#database, batch))
    return true
  }
}

function runLanes (database: Database, reader: LaneReader): FromWorker {
  try {
    const { settles, claims } = reader.read()
    const unusual = database.runLanes(settles, claims, reader.nowMs, reader.believedMs)
    return unusual.length === 0 ? ALL_USUAL : { kind: 'lanes', unusual }
  } catch (error) {
    return { kind: 'lanesFault', fault: carried(error) }
  }
}

function run (database: Database, { number, calls, nowMs, believedMs }: Batch): FromWorker {
  try {
    return { kind: 'results', number, results: database.run(calls, nowMs, believedMs ?? undefined) }
  } catch (error) {
    return { kind: 'fault', number, fault: carried(error) }
  }
}

function isUrgent ({ calls }: Batch): boolean {
  const op = calls[0]?.op
  return op === 'settle' ||
    op === 'settleLost' ||
    op === 'renew' ||
    op === 'markDone' ||
    op === 'markRemove' ||
    op === 'messageSettle' ||
    op === 'workerAlive'
}

/** An unforeseen error ends the worker, and the store with it: a thread in an unknown state serves no one. */
function carried (error: unknown): Fault {
  if (error instanceof Faulted) return error.fault
  throw error
}
