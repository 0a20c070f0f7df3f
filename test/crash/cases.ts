/**
 * All cases of a scenario. A first run without a fault counts the calls of each gateway. Then each call gets each fault in turn.
 * The name of a case runs exactly that case again (`CRASH_CASE`).
 */
import assert from 'node:assert/strict'
import { violationsOf } from '../harness/checker.ts'
import type { Call, Fault } from '../harness/crashing.ts'
import type { HistoryEvent } from '../harness/history.ts'
import type { StoreKind } from './durable.ts'
import type { Scenario } from './scenarios.ts'
import { run } from './simulation.ts'
import type { Case, Run } from './simulation.ts'

export interface Sweep {
  readonly scenario: Scenario
  readonly store: StoreKind
  readonly locks: Case['locks']
  readonly faults: readonly Fault[]
}

/** Runs every case of the sweep. Rejects with all failures. Returns the number of cases. */
export async function runAll (sweep: Sweep): Promise<number> {
  const { scenario, store, locks, faults } = sweep
  const only = process.env['CRASH_CASE']
  const untroubled: Case = { scenario, store, locks, fault: null }
  const first = await run(untroubled)
  assertSound(untroubled, first)
  assert.equal(first.executions, scenario.executions, `${nameOf(untroubled)}: the story is not the one that its name tells`)
  const failures: string[] = []
  let count = 1
  for (const fault of faultsOf(first, faults)) {
    const theCase: Case = { ...untroubled, fault }
    if (only !== undefined && only !== nameOf(theCase)) continue
    count++
    failures.push(...failuresOf(theCase, await run(theCase)))
  }
  assert.equal(failures.length, 0, failures.slice(0, FAILURES_SHOWN).join('\n') + `\n${failures.length} failures in ${count} cases`)
  return count
}

/** One mistake fails hundreds of cases. The first ones suffice. */
const FAILURES_SHOWN = 6

function faultsOf ({ calls, history }: Run, kinds: readonly Fault[]): Array<NonNullable<Case['fault']>> {
  const times = history.events.filter(({ kind }) => kind !== 'asked' && kind !== 'told').map(({ atMs }) => atMs)
  return calls.flatMap((made, gateway) => apart(made, times).flatMap((call) => {
    return kinds
      .filter((kind) => isFelt(call, kind))
      .map((kind) => ({ gateway: gateway === 0 ? 0 as const : 1 as const, at: call.number, kind }))
  }))
}

const READS: ReadonlySet<string> = new Set(['beat', 'look', 'unresolved'])

/** A read with a lost reply is like a refused read. Swaps, unlocks and wakes need no reply, so a lost or slow one changes nothing. */
function isFelt ({ port, operation }: Call, fault: Fault): boolean {
  if (READS.has(operation)) return fault !== 'lost' && fault !== 'late'
  return port !== 'locks' || operation === 'lock' || (fault !== 'lost' && fault !== 'slow')
}

const BACKGROUND: ReadonlySet<string> = new Set(['beat', 'lapse', 'sweep', 'unresolved'])

/** The heartbeat and the sweeper also run while nothing is written or sent. One round of each such pause stands for all. */
function apart (calls: readonly Call[], times: readonly number[]): Call[] {
  const seen = new Set<string>()
  return calls.filter(({ operation, atMs }) => {
    if (!BACKGROUND.has(operation)) return true
    const pause = `${operation} ${times.filter((time) => time <= atMs).length}`
    return !seen.has(pause) && seen.add(pause)
  })
}

export function nameOf ({ scenario, store, locks, fault }: Case): string {
  return `${scenario.name}/${store}/${locks}/${fault === null ? 'untroubled' : `${fault.gateway}:${fault.at}:${fault.kind}`}`
}

function assertSound (theCase: Case, done: Run): void {
  const failures = failuresOf(theCase, done)
  assert.equal(failures.length, 0, failures.join('\n'))
}

function failuresOf (theCase: Case, done: Run): string[] {
  const { fault } = theCase
  const met = fault === null ? undefined : done.calls[fault.gateway]?.[fault.at - 1]
  const where = met === undefined ? '' : ` (${fault?.kind} ${met.port}.${met.operation} at ${met.atMs} ms)`
  const said = [
    ...violationsOf(done.history).map(({ invariant, detail }) => `${invariant}: ${detail}`),
    ...unknownUnsent(theCase, done),
    ...done.trouble
  ]
  if (said.length === 0) return []
  const events = process.env['CRASH_CASE'] === undefined
    ? ''
    : `\n${done.history.events.map(lineOf).join('\n')}\n${JSON.stringify(done.history.rows)}`
  return [`${said.join('; ')}${where}\n  again: CRASH_CASE=${nameOf(theCase)} node --test test/crash/${theCase.store === 'memory' ? 'memory' : 'sqlite'}.test.ts${events}`]
}

/**
 * No numbered invariant, but the point of P6: if no process died, a request that was never sent is not called unknown. (A process that
 * dies between its claim and its sending looks like one that died after the sending.)
 */
function unknownUnsent ({ fault }: Case, { history: { events } }: Run): string[] {
  if (fault?.kind === 'before' || fault?.kind === 'after' || events.some(({ kind }) => kind === 'sent')) return []
  return events.some((event) => event.kind === 'told' && event.told.kind === 'unknown')
    ? ['a client was told that the outcome is not known, and nothing was ever sent']
    : []
}

function lineOf (event: HistoryEvent): string {
  const { kind, atMs, ...rest } = event
  return `  ${String(atMs).padStart(8)} ${kind.padEnd(8)} ${JSON.stringify(rest)}`
}
