/**
 * The worker thread of SQLite. Takes batches from the main thread and runs each as one transaction. Settles and renewals
 * overtake other batches: new claims never delay an answer (P8).
 */
import { parentPort, receiveMessageOnPort, workerData, type MessagePort } from 'node:worker_threads'
import { Database } from './database.ts'
import { Faulted, type Fault } from './faults.ts'
import { revived, type Batch, type FromWorker, type ToWorker, type WorkerStart } from './worker-protocol.ts'

if (parentPort !== null) serve(parentPort, workerData as WorkerStart)

function serve (port: MessagePort, start: WorkerStart): void {
  const answer = (message: FromWorker) => { port.postMessage(message) }
  try {
    const database = new Database(start)
    answer({ kind: 'open', installation: database.installation, lapsed: database.lapsedAtStart, recovered: database.recoveredAtStart })
    port.on('message', (first: ToWorker) => { work(database, port, first, answer) })
  } catch (error) {
    answer({ kind: 'failed', fault: carried(error) })
  }
}

/** Takes everything from the port before each batch. The main thread's batchers bound how much that is. */
function work (database: Database, port: MessagePort, first: ToWorker, answer: (message: FromWorker) => void): void {
  const urgent: Batch[] = []
  const others: Batch[] = []
  let closing = false
  const sort = (message: ToWorker) => {
    if (message.kind === 'close') closing = true
    else (isUrgent(message) ? urgent : others).push(revived(message))
  }
  sort(first)
  for (;;) {
    for (let waiting = receiveMessageOnPort(port); waiting !== undefined; waiting = receiveMessageOnPort(port)) {
      sort(waiting.message as ToWorker)
    }
    const batch = urgent.shift() ?? others.shift()
    if (batch === undefined) break
    answer(run(database, batch))
  }
  if (!closing) return
  database.close()
  port.close()
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
