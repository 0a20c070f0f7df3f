/** A gateway with several workers, and what its log says of them. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { alive } from '../harness/process.ts'
import { startReloadable } from './reload-world.ts'
import type { Reloadable } from './reload-world.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { configOf } from './world.ts'
import type { Servers } from './world.ts'

/** Processes come and go on a machine that is busy with other tests. */
export const NOTICED_WITHIN_MS = 60_000
/** Where a test is not about a lease or a time-out, the machine may be as busy as it likes. */
const LEASE = '30s'
const PATIENCE = '90s'

/** A preset has functions, which no message between processes can have. */
const HOOKS = '  - { name: hooks, match: { path: /hooks }, upstream: witness, idempotency: { profile: relay, key: { from: github } } }\n'

export interface WorkersOptions {
  readonly upstream: string
  readonly workers?: number
  readonly withRedis?: boolean
  readonly drain?: string
  readonly idempotency?: string
  readonly upstreamMore?: string
  readonly lease?: string
}

/** The file for a database of its own; another file for the same one has another `options`. */
export async function fileFor (servers: Servers): Promise<(options: WorkersOptions) => string> {
  const database = await servers.postgres.createDatabase('workers')
  return ({ upstream, workers = 2, withRedis = true, drain = `{ delay: 0s, timeout: ${PATIENCE} }`, lease = LEASE, ...rest }) =>
    configOf({ ...rest, database, redis: withRedis ? servers.redis.url : null, upstream, more: `workers: ${workers}` })
      .replace(/^drain: .*$/m, `drain: ${drain}`)
      .replace('lease: 2s, answerWithin: 15s', `lease: ${lease}, answerWithin: ${PATIENCE}`)
      .replace('timeout: 20s', `timeout: ${PATIENCE}`)
      .replace('routes:\n', `routes:\n${HOOKS}`)
}

/** All of them listen, and have found their stores. */
export async function startWorkers (t: TestContext, servers: Servers, options: WorkersOptions): Promise<Reloadable> {
  const gateway = await startReloadable(t, (await fileFor(servers))(options))
  await untilReady(gateway)
  return gateway
}

/** By number, the pid of the last that listens. */
export function workersOf (gateway: ProcessGateway): Map<number, number> {
  return new Map(
    gateway.logLines().filter(({ msg }) => msg === 'worker listens').map((line) => [line['worker'] as number, line['pid'] as number])
  )
}

export async function pidOf (gateway: ProcessGateway, worker: number): Promise<number> {
  await eventually(() => workersOf(gateway).has(worker), `worker ${worker} listens`, NOTICED_WITHIN_MS)
  return workersOf(gateway).get(worker) as number
}

/** All that were ever started. */
export function pidsOf (gateway: ProcessGateway): number[] {
  return gateway.logLines().filter(({ msg }) => msg === 'worker starts').map((line) => line['pid'] as number)
}

export async function allGone (pids: readonly number[]): Promise<void> {
  await eventually(() => !pids.some(alive), () => `still there: ${pids.filter(alive).join(', ')}`, NOTICED_WITHIN_MS)
}

/** Which instances wrote a line about a guarded request. */
export function instancesOf (gateway: ProcessGateway): Set<unknown> {
  return new Set(gateway.logLines().filter(({ msg }) => msg === 'guarded').map(({ instance }) => instance))
}

export async function readyOf (gateway: ProcessGateway): Promise<[number, string]> {
  const { status, json } = await call(gateway.adminUrl, '/readyz', { method: 'GET' })
  return [status, (json as { readonly status: string }).status]
}

/** kill() returns before the process has noticed: on another core it may still answer a question. */
export async function standStill (pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  await eventually(() => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.startsWith('T') === true, 'it stands still')
}

export async function refusesConnections (gateway: ProcessGateway): Promise<boolean> {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  try {
    await once(socket, 'connect')
    return false
  } catch {
    return true
  } finally {
    socket.destroy()
  }
}

export async function untilReady (gateway: ProcessGateway): Promise<void> {
  await eventually(async () => (await readyOf(gateway))[1] === 'ready', 'all workers are ready', NOTICED_WITHIN_MS)
}

/**
 * As a client that retries: the lock in Redis becomes the copy just after the first answer has gone out, and until then the
 * other worker says in flight; a worker that stood still sheds what has piled up.
 */
export async function askSettled (gateway: ProcessGateway, key: string): Promise<Called> {
  for (;;) {
    const answer = await ask(gateway, key)
    if (answer.status !== 409 && answer.status !== 503) return answer
  }
}

export async function ask (gateway: ProcessGateway, key: string, body = 'one'): Promise<Called> {
  return call(gateway.url, '/things', { headers: { 'Idempotency-Key': key }, body })
}
