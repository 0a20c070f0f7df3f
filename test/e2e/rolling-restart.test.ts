/** A rolling restart under load, as an orchestrator does it: nobody who asks through the load balancer notices. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { Balancer } from './balancer.ts'
import type { BalancerOptions } from './balancer.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { SteadyLoad } from './steady-load.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

const ROUNDS = 2
const CLIENTS = 12
/** Every tenth of a second, believed for half a second: within a quarter of the drain's delay. */
const BALANCER: BalancerOptions = { pollEveryMs: 100, freshMs: 500 }
const DRAIN = 'drain: { delay: 2s, timeout: 20s }'
/** Outlasts the drain's delay: these requests are still running when the listener has closed. */
const SLOW_MS = 3_500
/**
 * Five times that of other tests, which wait for leases to end. One of two seconds lapses while a process or the database stands still for
 * that long on a busy machine, and whoever waits for it is told that nobody knows. No restart has to do with that.
 */
const LEASE = 'lease: 10s'
/** In a row: duplicates of the load wait as well, for some milliseconds, and are not those that are meant. */
const LOOKS = 3
/** Duplicates wait for their first one rather than be told to come back. */
const WAIT = ', inFlight: { wait: 10s }'

/** `201` with a body of its own for each execution, after as long as the request says. */
const delayed: Behaviour = (seen, response, _socket, count) => {
  setTimeout(() => { response.writeHead(201).end(`execution ${count}`) }, Number(seen.headers['x-delay-ms'] ?? 5))
}

describe('a rolling restart of two gateways under load', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  test('fails no request: what is new goes to the other one, what is in flight is answered, and every key runs once', async (t) => {
    const { witness, gateways, balancer } = await startBalanced(t, servers, { drain: DRAIN, balancer: BALANCER })
    const load = steadyLoad(t, balancer)
    for (let turn = 0; turn < ROUNDS * gateways.length; turn++) {
      const leaving = gateways[turn % gateways.length] as Restartable
      const staying = gateways[(turn + 1) % gateways.length] as Restartable
      await eventually(() => load.answers.size > 0, 'the load has begun')
      const inFlight = await leaveInFlight(load, witness, leaving, staying)
      leaving.process.signal('SIGTERM')
      assert.equal(await leaving.process.exited, 0)
      await inFlight.answered
      await leaving.start()
      await balancer.ready(leaving)
    }
    await load.stop()
    assert.deepEqual(load.failures, [], `${JSON.stringify(load.failures)}\n${said(gateways)}`)
    assertExecutedOnce(load, witness)
  })

  test('is seen to fail requests when the drain has no delay and the balancer looks too rarely', async (t) => {
    const { gateways: [leaving], balancer } = await startBalanced(t, servers, {
      drain: 'drain: { delay: 0s, timeout: 20s }',
      balancer: { pollEveryMs: 2_000, freshMs: 4_000 }
    })
    const load = steadyLoad(t, balancer)
    await eventually(() => load.answers.size > 0, 'the load has begun')
    leaving.process.signal('SIGTERM')
    assert.equal(await leaving.process.exited, 0)
    await eventually(() => load.failures.length > 0, 'somebody was sent to who had left')
    await load.stop()
  })
})

/** It ends with the test, also with one that fails. */
function steadyLoad (t: TestContext, balancer: Balancer): SteadyLoad {
  const load = new SteadyLoad(balancer, CLIENTS)
  t.after(async () => { await load.stop() })
  return load
}

interface Restartable {
  readonly url: string
  readonly adminUrl: string
  /** The one that runs now, or ran last. */
  process: ProcessGateway
  /** All that ran. */
  readonly processes: ProcessGateway[]
  readonly start: () => Promise<void>
}

interface Balanced {
  readonly witness: Witness
  readonly gateways: readonly [Restartable, Restartable]
  readonly balancer: Balancer
}

async function startBalanced (
  t: TestContext,
  servers: Servers,
  options: { readonly drain: string, readonly balancer: BalancerOptions }
): Promise<Balanced> {
  const witness = await startWitness(delayed)
  t.after(() => witness.close())
  const database = await servers.postgres.createDatabase('rolling')
  const config = configOf({ database, redis: servers.redis.url, upstream: witness.url, idempotency: WAIT }).replace(
    /^drain: .*$/m,
    options.drain
  ).replace('lease: 2s', LEASE)
  const gateways = [await restartable(t, config), await restartable(t, config)] as const
  const balancer = new Balancer(gateways, options.balancer)
  t.after(() => balancer.stop())
  for (const gateway of gateways) await balancer.ready(gateway)
  return { witness, gateways, balancer }
}

/** Comes back on the same two ports, as a balancer's configuration would have them. */
async function restartable (t: TestContext, config: string): Promise<Restartable> {
  const [port, adminPort] = [await freePort(), await freePort()]
  const onPorts = config
    .replace('listen: { host: 127.0.0.1, port: 0 }', `listen: { host: 127.0.0.1, port: ${port} }`)
    .replace('admin: { host: 127.0.0.1, port: 0 }', `admin: { host: 127.0.0.1, port: ${adminPort} }`)
  const first = await startProcess(t, { config: onPorts })
  const gateway: Restartable = {
    url: `http://127.0.0.1:${port}`,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    process: first,
    processes: [first],
    start: async () => { gateway.processes.push(gateway.process = await startProcess(t, { config: onPorts })) }
  }
  return gateway
}

/** What the gateways logged beside their requests: why somebody was told something else. */
function said (gateways: readonly Restartable[]): string {
  const lines = gateways.flatMap(({ processes }) => processes.flatMap((each) => each.logLines()))
  return lines.filter(({ event }) => event !== 'request').map((line) => JSON.stringify(line)).join('\n')
}

/**
 * At the one that leaves: a first request, a duplicate that waits for it, one without a key, and a duplicate that waits
 * for an execution of the one that stays. Resolves when all are under way, to what resolves when all are answered.
 */
async function leaveInFlight (
  load: SteadyLoad,
  witness: Witness,
  leaving: Restartable,
  staying: Restartable
): Promise<{ answered: Promise<unknown> }> {
  const slow = { headers: { 'X-Delay-Ms': String(SLOW_MS) } }
  const [here, there] = [randomUUID(), randomUUID()]
  const firsts = [
    load.keyed('in flight', here, { ...slow, to: leaving }),
    load.keyed('in flight elsewhere', there, { ...slow, to: staying }),
    load.withoutKey({ ...slow, to: leaving })
  ]
  const keyless = load.keyless.at(-1) as string
  await eventually(() => [here, there, keyless].every((body) => executionsOf(witness, body) === 1), 'the upstream has them')
  const duplicates = [
    load.keyed('waiting', here, { ...slow, to: leaving }),
    load.keyed('waiting for the other', there, { ...slow, to: leaving })
  ]
  let looks = 0
  await eventually(async () => {
    looks = totalOf(await metricsOf(leaving.adminUrl), 'onceway_waiters') >= duplicates.length ? looks + 1 : 0
    return looks === LOOKS
  }, 'their duplicates wait')
  return { answered: Promise.all([...firsts, ...duplicates]) }
}

function executionsOf (witness: Witness, body: string): number {
  return witness.seen.filter((seen) => seen.body.toString() === body).length
}

function assertExecutedOnce (load: SteadyLoad, witness: Witness): void {
  const executions = new Map<string, number>()
  for (const { body } of witness.seen) executions.set(body.toString(), (executions.get(body.toString()) ?? 0) + 1)
  assert.deepEqual(Array.from(executions).filter(([, count]) => count !== 1), [])
  const asked = [...load.answers.keys(), ...load.keyless]
  assert.deepEqual(asked.filter((body) => !executions.has(body)), [])
  assert.equal(executions.size, asked.length)
}
