/**
 * The process of one worker: a gateway without an admin port. It follows the primary, and drains when the primary has
 * gone. It ignores signals, because a terminal sends them to the whole process group. The primary handles them.
 */
import cluster from 'node:cluster'
import { instanceName, openGateway } from '../serving.ts'
import type { Serving } from '../serving.ts'
import type { Config } from '../../config/config.ts'
import { errorStack, StartError } from '../../ports/errors.ts'
import { createLogs } from '../../telemetry/log.ts'
import { createWorkerMetrics } from '../../telemetry/metrics.ts'
import type { WorkerMetrics } from '../../telemetry/metrics.ts'
import { receivedConfig } from './worker-protocol.ts'
import type { About, Answers, Failed, FromWorker, Question, Start, ToWorker } from './worker-protocol.ts'

/** If something keeps the process alive after its end, it is a leak. A leak must not delay a roll-out (as in ../cli/main.ts). */
const LEAK_GRACE_MS = 2_000

/** null: not started yet. */
let metrics: WorkerMetrics | null = null
/** null: not listening yet. */
let serving: Serving | null = null
/** A configuration that came during the start. */
let pendingConfig: Config | null = null
let ending = false

const { worker } = cluster
if (worker === undefined) throw new Error('this is the part of `onceway serve` that it starts by itself')
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
// Node would end the process in the same turn, together with the requests in flight.
worker.on('disconnect', () => {
  worker.exitedAfterDisconnect = true
  void drainAndEnd()
})
process.on('message', (message: ToWorker) => { receive(message) })
sendToPrimary({ kind: 'hello' })

function receive (message: ToWorker): void {
  if (message.kind === 'start') void start(message)
  else if (message.kind === 'drain') void drainAndEnd()
  else void answer(message.question).then((answer) => { sendToPrimary({ kind: 'answer', id: message.id, answer }) })
}

/** Only this worker logs what is the same for all workers. */
const LOGGING_WORKER = 1

async function start ({ config: sent, worker, leases }: Start): Promise<void> {
  const config = receivedConfig(sent)
  const instance = instanceName()
  const logs = createLogs({ ...config.log, instance, shared: true })
  metrics = createWorkerMetrics(worker)
  let opened: Serving | null = null
  try {
    opened = await openGateway(config, { logs, meter: metrics, instance, leases, logsForGateway: worker === LOGGING_WORKER })
    if (pendingConfig !== null) opened.reconfigure(pendingConfig)
    const url = await opened.listen()
    serving = opened
    if (pendingConfig !== null) opened.reconfigure(pendingConfig)
    sendToPrimary({ kind: 'listening', url, where: opened.where })
  } catch (error) {
    await opened?.close()
    sendToPrimary({ kind: 'failed', ...failureOf(error) }, () => { end(1) })
  }
}

/** As run.ts prints it: a foreseen error is a sentence. Any other error is a bug and comes with its stack. */
function failureOf (error: unknown): Failed {
  if (error instanceof StartError) return { message: error.message, exitCode: error.exitCode }
  return { message: errorStack(error), exitCode: 1 }
}

async function answer (question: Question): Promise<Answers[About]> {
  switch (question.about) {
    case 'readiness': return serving?.readiness() ?? { phase: 'starting', degraded: [], blocked: null, durability: null }
    case 'metrics': return metrics?.snapshot() ?? { ours: [], process: [] }
    case 'underWay': return serving?.underWay() ?? { executions: 0, deliveries: 0 }
    case 'take': return reconfigure(receivedConfig(question.config))
  }
}

function reconfigure (config: Config): string | null {
  try {
    if (serving === null) pendingConfig = config
    else serving.reconfigure(config)
    return null
  } catch (error) {
    return errorStack(error)
  }
}

async function drainAndEnd (): Promise<void> {
  if (ending) return
  ending = true
  // A worker that does not listen yet has no request in flight.
  if (serving === null) process.exit(0)
  await serving.drain()
  await serving.close()
  end(0)
}

/** A send fails if the primary has gone. The 'disconnect' event reports that. */
function sendToPrimary (message: FromWorker, said: () => void = () => {}): void {
  process.send?.(message, () => { said() })
}

function end (exitCode: number): void {
  ending = true
  process.exitCode = exitCode
  if (worker !== undefined) worker.exitedAfterDisconnect = true
  if (process.connected) process.disconnect()
  setTimeout(() => { process.exit() }, LEAK_GRACE_MS).unref()
}
