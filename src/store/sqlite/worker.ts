/**
 * The worker thread of SQLite. Takes batches from the main thread and runs each as one transaction. Settles and renewals
 * overtake other batches: new claims never delay an answer (P8). Claims and settles come through shared memory (lane-buffer.ts),
 * everything else as messages. The thread sleeps on the memory's bell, never in its event loop.
 */
import { parentPort, receiveMessageOnPort, workerData, type MessagePort } from 'node:worker_threads'
import { Database } from './database.ts'
import { Faulted, type Fault } from './faults.ts'
import { BATCHES, LaneReader, RUNG, type LaneMemory } from './lane-buffer.ts'
import { ALL_USUAL, revived, type Batch, type FromWorker, type ToWorker, type WorkerData } from './worker-protocol.ts'

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
  work(database, port, start.memory, answer)
  database.close()
}

/** Until `close`. Looks for something more urgent before each batch. The main thread bounds how much waits. */
function work (database: Database, port: MessagePort, memory: LaneMemory, answer: (message: FromWorker) => void): void {
  const urgent: Batch[] = []
  const others: Batch[] = []
  const reader = new LaneReader(memory)
  let done = 0
  let isClosing = false
  for (;;) {
    const rung = Atomics.load(memory.bell, RUNG)
    for (let waiting = receiveMessageOnPort(port); waiting !== undefined; waiting = receiveMessageOnPort(port)) {
      const message = waiting.message as ToWorker
      if (message.kind === 'close') isClosing = true
      else (isUrgent(message) ? urgent : others).push(revived(message))
    }
    const first = urgent.shift()
    if (first !== undefined) {
      answer(run(database, first))
    } else if (Atomics.load(memory.bell, BATCHES) !== done) {
      done = (done + 1) | 0
      answer(runLanes(database, reader))
    } else {
      const other = others.shift()
      if (other !== undefined) answer(run(database, other))
      else if (isClosing) return
      else Atomics.wait(memory.bell, RUNG, rung)
    }
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
