/**
 * One replica of onceway for the harness of README.md: a producer, a gateway, and the consumer behind it. Settings come by the environment,
 * and samples go out as lines of JSON, as the harness's CONTRIBUTING_ADAPTERS.md says.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { eventually } from '../../test/harness/eventually.ts'
import adapter from './adapter.json' with { type: 'json' }
import { startGateway } from './gateway.ts'
import { Latency } from './latency.ts'
import { openLedger } from './ledger.ts'

interface Job { readonly key: string, readonly enqueued_at_ms: number, readonly payload_padding: string }

const setting = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)
const { DATABASE_URL = '', LEDGER_DIR = '.', PRODUCER_MODE = 'fixed', PRODUCER_RATE_CONTROL_FILE } = process.env
const instance = setting('BENCH_INSTANCE_ID', 0)
const concurrency = setting('WORKER_COUNT', 32)
const rate = setting('PRODUCER_RATE', 800)
const targetDepth = setting('TARGET_DEPTH', 1_000)
const tickMs = setting('PRODUCER_BATCH_MS', 10)
const inFlightMax = setting('PRODUCER_BATCH_MAX', 128)
const workMs = setting('JOB_WORK_MS', 1)
const everyMs = setting('SAMPLE_EVERY_S', 5) * 1_000
/** As of pg-boss's adapter: the rest of a job takes about 96 bytes. */
const padding = 'x'.repeat(Math.max(0, setting('JOB_PAYLOAD_BYTES', 256) - 96))
const ACCEPTED = 202
const RETRY_MS = 200
const DEPTH_EVERY_MS = 1_000

const replica = `onceway-${instance}-${process.pid}`
const ledger = openLedger(LEDGER_DIR, replica)
const [calls, claims, ends] = [new Latency(), new Latency(), new Latency()]
let [enqueued, completed, inFlight, jobs, target] = [0, 0, 0, 0, rate]
let depth = { waiting: 0, delivering: 0 }
const ending = new AbortController()

async function work (request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { key, enqueued_at_ms: enqueuedAt } = await json(request) as Job
  claims.add(Date.now() - enqueuedAt)
  if (workMs > 0) await sleep(workMs)
  ledger('D', key)
  response.writeHead(200).end()
  ends.add(Date.now() - enqueuedAt)
  completed += 1
}

/** The client's part of the contract: the same key until there is a 202. */
async function enqueue (pool: Pool, key: string): Promise<void> {
  const job: Job = { key, enqueued_at_ms: Date.now(), payload_padding: padding }
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key }
  while (!ending.signal.aborted) {
    const startedAt = performance.now()
    const status = await pool.request({ path: '/jobs', method: 'POST', headers, body: JSON.stringify(job) }).then(
      async ({ statusCode, body }) => {
        await body.dump()
        return statusCode
      },
      () => null
    )
    calls.add(performance.now() - startedAt)
    if (status === ACCEPTED) {
      ledger('A', key)
      enqueued += 1
      return
    }
    await sleep(RETRY_MS)
  }
}

/** Offered load is by the time that has passed, whatever a turn takes. The harness changes the rate by a file. */
async function produce (url: string): Promise<void> {
  const pool = new Pool(url, { connections: inFlightMax })
  let [last, due] = [performance.now(), 0]
  while (!ending.signal.aborted) {
    await sleep(tickMs)
    const now = performance.now()
    if (PRODUCER_RATE_CONTROL_FILE !== undefined) target = Number(readFileSync(PRODUCER_RATE_CONTROL_FILE, 'utf8')) || target
    if (PRODUCER_MODE === 'depth-target') due = targetDepth - (enqueued - completed) - inFlight
    else due += target * (now - last) / 1_000
    last = now
    for (; due >= 1 && inFlight < inFlightMax; due -= 1) {
      inFlight += 1
      void enqueue(pool, `${replica}-${jobs += 1}`).finally(() => { inFlight -= 1 })
    }
  }
}

function emit (record: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${JSON.stringify({ system: adapter.system, instance_id: instance, ...record })}\n`)
}

/** Every replica sees the same queue, so one tells of it. */
const queueMetrics = (): ReadonlyArray<readonly [string, number, number]> => instance !== 0
  ? []
  : [
      ['queue_depth', depth.waiting, 0],
      ['running_depth', depth.delivering, 0],
      ['total_backlog', depth.waiting + depth.delivering, 0],
      ['producer_target_rate', target, 0]
    ]

async function sample (): Promise<void> {
  let due = Math.ceil(Date.now() / everyMs) * everyMs
  await sleep(due - Date.now())
  let before = { enqueued, completed, at: performance.now() }
  while (!ending.signal.aborted) {
    due += everyMs
    await sleep(Math.max(1, due - Date.now()))
    const now = { enqueued, completed, at: performance.now() }
    const seconds = (now.at - before.at) / 1_000
    const metrics = [
      ...calls.metrics('producer'),
      ...claims.metrics('subscriber'),
      ...claims.metrics('claim'),
      ...ends.metrics('end_to_end'),
      ['enqueue_rate', (now.enqueued - before.enqueued) / seconds, everyMs / 1_000] as const,
      ['completion_rate', (now.completed - before.completed) / seconds, everyMs / 1_000] as const,
      ...queueMetrics()
    ]
    const t = new Date().toISOString()
    for (const [metric, value, windowS] of metrics) {
      emit({ t, kind: 'adapter', subject_kind: 'adapter', subject: '', metric, value, window_s: windowS })
    }
    before = now
  }
}

const consumer = createServer((request, response) => { work(request, response).catch(() => { response.destroy() }) })
await new Promise<void>((resolve) => { consumer.listen(0, '127.0.0.1', resolve) })
const gateway = await startGateway({
  databaseUrl: DATABASE_URL,
  consumerUrl: `http://127.0.0.1:${(consumer.address() as AddressInfo).port}`,
  concurrency,
  directory: join(LEDGER_DIR, replica)
})
void gateway.exited.then(() => {
  if (ending.signal.aborted) return
  console.error(`[${replica}] the gateway has ended by itself`)
  process.exit(1)
})

async function end (): Promise<void> {
  if (ending.signal.aborted) return
  ending.abort()
  await gateway.stop()
  await eventually(() => inFlight === 0, 'the last answers are read').catch(() => {})
  process.exit(0)
}
process.on('SIGTERM', () => { void end() }).on('SIGINT', () => { void end() })

emit({
  kind: 'descriptor',
  event_tables: adapter.event_tables,
  event_indexes: adapter.event_indexes,
  extensions: adapter.extensions,
  version: execFileSync('git', ['describe', '--always', '--dirty'], { cwd: import.meta.dirname, encoding: 'utf8' }).trim(),
  schema_version: '',
  db_name: adapter.db_name,
  started_at: new Date().toISOString()
})
void produce(gateway.url)
void sample()
for (;;) {
  depth = await gateway.depth() ?? depth
  await sleep(DEPTH_EVERY_MS)
}
