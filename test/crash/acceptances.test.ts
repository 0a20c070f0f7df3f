/**
 * A request that one process executes and the other accepts, or that both accept. One of them dies, or gets a fault, at each of its
 * calls in turn. The request is executed or accepted, never both, and every 202 has its message.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Gateway } from '../../src/gateway/gateway.ts'
import { MODES } from '../../src/process/modes.ts'
import { handle } from '../harness/handled.ts'
import { heartbeat } from '../../src/background/heartbeat.ts'
import { inboxRoutes } from '../../src/gateway/shared/deps.ts'
import { NO_SUBSCRIPTIONS } from '../../src/store/shared/inbox-subscriptions.ts'
import { MemoryCounts } from '../../src/store/memory/counts.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { NO_REGISTRY } from '../../src/store/shared/no-registry.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { inboxPolicy } from '../gateway/inbox/inbox-world.ts'
import { CrashingProcess, FAULTS, NO_FAULT } from '../harness/crashing.ts'
import type { Call, Fault } from '../harness/crashing.ts'
import { countingMeter, guardedRoute, recordingLog } from '../harness/gateway.ts'
import { Timeline } from '../harness/timeline.ts'
import { requestOf, SimulatedUpstream } from './outside.ts'

const LEASE_MS = 6_000
const UPSTREAM_TIMEOUT_MS = 5_000
const WORK_MS = 40
const RETRY_MS = 1_000
/** By then leases are over, and so is the wait after an outage. */
const TRIES_MAX = 60
/** The longest time that an abandoned statement is in flight. */
const AFTERMATH_MS = 12_000
const MONOTONIC_APART_MS = 1_000_000

type Way = 'accepted' | 'executed'
interface Case {
  readonly ways: readonly Way[]
  readonly apartMs: number
  readonly fault: { readonly at: number, readonly kind: Fault } | null
}
interface Ran { readonly executions: number, readonly messages: number, readonly told: readonly string[], readonly calls: readonly Call[] }

const ROUTE = guardedRoute(
  'http://upstream.test',
  {
    leaseMs: LEASE_MS,
    retentionMs: 120_000,
    unknownRetentionMs: 1_200_000,
    answerWithinMs: 8_000,
    unknown: 'hold',
    inboxFor: 'asked',
    inbox: inboxPolicy()
  },
  { timeoutMs: UPSTREAM_TIMEOUT_MS }
)

/** The first process gets the fault. There is no deliverer: everything at the upstream was executed. */
async function run ({ ways, apartMs, fault }: Case): Promise<Ran> {
  const timeline = new Timeline()
  const clock = { nowMs: () => timeline.wallMs }
  const [records, locks, inbox] = [new MemoryStore(clock), new MemoryLocks(clock), new MemoryInbox(clock)]
  let executions = 0
  const upstream = new SimulatedUpstream(
    timeline,
    ({ kind }) => { if (kind === 'sent') executions++ },
    () => ({ kind: 'answer', status: 201, afterMs: WORK_MS, means: 'keep' })
  )
  const seats = ways.map((_, number) => {
    const plan = number === 0 && fault !== null ? ({ number: at }: Call) => at === fault.at ? fault.kind : null : NO_FAULT
    const process = new CrashingProcess({
      name: `gateway-${number}`,
      timeline,
      records,
      locks,
      inbox,
      upstream,
      plan,
      originMs: number * MONOTONIC_APART_MS
    })
    return { process, gateway: gatewayOf(process) }
  })
  const told: string[] = []
  const insist = async (way: Way, number: number): Promise<void> => {
    await timeline.sleep(number * apartMs)
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const { process, gateway } = seats[number]?.process.alive === true ? seats[number] : seats[1] as typeof seats[number]
      const request = requestOf({ key: 'k', scope: 'Bearer alice', body: 'one', startsAtMs: 0 }, ROUTE, `call-${number}-${tries}`)
      const wish = way === 'accepted' ? ['Prefer', 'respond-async'] : []
      const kind = await Promise.race([
        handle(gateway, { ...request, rawHeaders: [...request.rawHeaders, ...wish] }).then((outcome) => outcome.kind),
        process.death.then(() => 'cut' as const)
      ])
      told.push(kind)
      if (kind === 'accepted' || kind === 'executed' || kind === 'replayed') return
      await timeline.sleep(RETRY_MS)
    }
  }
  let waiting = ways.length
  for (const [number, way] of ways.entries()) void insist(way, number).finally(() => { waiting-- })
  assert.ok(await timeline.pass(() => waiting === 0, 2 * TRIES_MAX * RETRY_MS + 10 * UPSTREAM_TIMEOUT_MS), 'everybody has an answer')
  const calls = seats[0]?.process.calls.slice() ?? []
  await timeline.pass(() => false, AFTERMATH_MS)
  const messages = (await inbox.list({ limit: 10 })).length
  for (const { process } of seats) process.die()
  return { executions, messages, told, calls }
}

function gatewayOf (process: CrashingProcess): Gateway {
  assert.ok(process.inbox !== null)
  const gateway = new Gateway({
    records: process.records,
    locks: process.locks,
    inbox: process.inbox,
    wakes: NO_SUBSCRIPTIONS,
    registry: NO_REGISTRY,
    counts: new MemoryCounts(() => 0),
    marks: new RouteMarks(() => 0, false),
    upstream: process.upstream,
    tokens: { verify: async () => ({ kind: 'invalid', fault: 'malformed' }) },
    clock: process.clock,
    random: process.random,
    meter: countingMeter(),
    log: recordingLog(),
    deliveryLog: { note: () => {} },
    instance: process.name,
    limits: {
      share: 1,
      executions: 100,
      waiters: 100,
      inFlightPerScope: 0,
      bufferedBytes: 1024 * 1024,
      unsettledBytes: 64 * 1024,
      recentBytes: 1024 * 1024
    },
    claimWithinMs: 2_000,
    longestLeaseMs: LEASE_MS,
    probed: new Map(),
    inboxes: inboxRoutes([ROUTE]),
    copyTtlMs: 60_000
  }, MODES)
  void gateway.ids.refresh().catch(() => {})
  heartbeat(gateway).start()
  return gateway
}

/** null: correct. */
function wrong ({ executions, messages, told }: Ran): string | null {
  if (executions + messages > 1) return `executed ${executions} times, and ${messages} messages`
  if (told.includes('accepted') && messages !== 1) return 'a 202 without its message'
  if (told.some((kind) => kind === 'executed' || kind === 'replayed') && executions !== 1) return 'an answer that nobody gave'
  return null
}

for (const ways of [['accepted', 'executed'], ['executed', 'accepted'], ['accepted', 'accepted']] as const) {
  test(`${ways[0]} by a process that dies or is misled at any call, ${ways[1]} by another: one of both, and every 202 has its message`, async (t) => {
    const failures: string[] = []
    let count = 0
    // At the same moment, while the first runs, and after it.
    for (const apartMs of [0, 3, 2 * WORK_MS]) {
      const sound = await run({ ways, apartMs, fault: null })
      assert.deepEqual([wrong(sound), sound.executions + sound.messages], [null, 1])
      for (const { number: at, port, operation } of sound.calls) {
        for (const kind of FAULTS) {
          count++
          const ran = await run({ ways, apartMs, fault: { at, kind } })
          const said = wrong(ran)
          if (said !== null) {
            failures.push(`${kind} ${port}.${operation} (call ${at}), ${apartMs} ms apart: ${said}; told ${ran.told.join(', ')}`)
          }
        }
      }
    }
    t.diagnostic(`${count} cases`)
    assert.deepEqual(failures, [])
  })
}
