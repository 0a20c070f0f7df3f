/**
 * What is wrong with a run: the invariants of the protocol, and what only this simulation can see, because it knows what happened to each
 * client. Pure. It runs nothing.
 */
import { livesOf } from '../harness/history.ts'
import type { EventOf, History, Life } from '../harness/history.ts'
import { staleReplays, violationsOf } from '../harness/checker.ts'
import type { Violation } from '../harness/checker.ts'
import { identityWrongs } from './judge-identities.ts'
import type { Run } from './run.ts'
import type { Schedule } from './schedule.ts'

export interface Wrong {
  /** An invariant's number, or the name of a further rule. */
  readonly rule: string
  readonly detail: string
}

/** `done`: executions that the upstream has really done. `wronged`: owners that lived and lost their lease. */
export function wrongsOf (schedule: Schedule, run: Run): Wrong[] {
  const { history, done, accepted, cutOff, wronged, trouble, reach, identities } = run
  // Whoever starts behind a step of the arbiter's clock that nobody who lives has found yet takes the time as it is.
  if (reach.turns.has('clock stepped, and nobody knew') || isForgotten(schedule, history)) {
    return trouble.map((detail) => ({ rule: 'trouble', detail }))
  }
  return [
    ...violationsOf(history)
      .filter((violation) => !isTombstoneOfThePast(history, cutOff, violation))
      .map(({ invariant, detail }) => ({ rule: invariant, detail })),
    // Outside the promise is who cannot reach the arbiter, beside a Redis from before a delete
    // (docs/concepts/guarantees.md): nothing is executed.
    ...staleReplays(history).filter(({ call }) => !cutOff.has(call)).map(({ detail }) => ({ rule: 'P10', detail })),
    ...unknownUnsent(schedule, history),
    ...doneTwice(schedule, history, done),
    ...pagesKept(schedule, history),
    ...executedAndAccepted(schedule, history, { accepted, identities }),
    ...identityWrongs(schedule, run),
    ...wronged.map((detail) => ({ rule: 'E2b', detail })),
    ...trouble.map((detail) => ({ rule: 'trouble', detail }))
  ]
}

/** Outside the promise: what Redis still knows of a claim that was lost is found by its id, which is another one behind a switch. */
function isForgotten ({ faults }: Schedule, { events }: History): boolean {
  return faults.some(({ action }) => action.kind === 'amnesia') && events.some(({ kind }) => kind === 'switched')
}

/** As above: of a tombstone nobody can say which life's it is. */
function isTombstoneOfThePast (history: History, cutOff: ReadonlySet<string>, { invariant, record, call }: Violation): boolean {
  if (invariant !== 'I11' || call === undefined || !cutOff.has(call)) return false
  const isTombstone = history.events.some((event) => event.kind === 'told' && event.call === call && event.told.kind === 'tombstone')
  return isTombstone &&
    (livesOf(history).get(record) ?? []).some(({ deleted, settles }) =>
      deleted.length > 0 && settles.some(({ outcome }) => outcome === 'consumed'))
}

/**
 * I12: who asks the upstream has it do nothing twice, whatever it says of itself while it is at work. An operator who releases is
 * believed. I1: nor does who holds what he does not know, whatever a hop says of it. A relay's route says: until it succeeds.
 */
function doneTwice ({ policy, variants }: Schedule, history: History, done: ReadonlySet<number>): Wrong[] {
  if ([policy, ...variants].some(({ unknown }) => unknown === 'retry') || policy.profile === 'relay') return []
  const rule = policy.unknown === 'probe' ? 'I12' : 'I1'
  return Array.from(livesOf(history).values()).flat().flatMap(({ record, number, sendings, settles, deleted }) => {
    const twice = sendings.filter(({ execution }) => done.has(execution))
    // A word that a clock is right which was ahead ends the time that an upstream has, too.
    const byHand = settles.some(({ by, outcome }) => by === 'operator' && outcome === 'released') ||
      deleted.some(({ early }) => early === true)
    if (twice.length < 2 || byHand) return []
    return [{ rule, detail: `record ${record.slice(0, 8)}, life ${number}: the upstream did executions ${twice.map(({ execution }) => execution).join(' and ')}` }]
  })
}

/** A page that a hop wrote is no answer of the upstream: nobody is told that it is stored. Its words name no execution. */
function pagesKept ({ policy }: Schedule, { events }: History): Wrong[] {
  if (policy.profile === 'relay') return []
  return events.flatMap((event) => {
    const kept = event.kind === 'told' && (event.told.kind === 'stored' || event.told.kind === 'replayed') && event.told.execution === null
    return kept ? [{ rule: 'I11', detail: `call ${event.call} was told that a hop's page is the upstream's answer` }] : []
  })
}

/**
 * N5: what was accepted is delivered some day. It was not executed in that life, unless it may be sent again: by its
 * policy, or as an operator or the upstream, asked, has said.
 */
function executedAndAccepted (
  { policy, variants }: Schedule,
  history: History,
  { accepted, identities }: Pick<Run, 'accepted' | 'identities'>
): Wrong[] {
  if (accepted.size === 0) return []
  const mayRetry = [policy, ...variants].some(({ unknown }) => unknown === 'retry')
  const records = new Map(history.events
    .filter((event): event is EventOf<'asked'> => event.kind === 'asked')
    .map(({ call, record }) => [call, record]))
  const byRecord = livesOf(history)
  return Array.from(accepted).flatMap((record) => {
    // Under whichever id.
    const own = new Set([record, ...identities.all.filter(({ records }) => records.includes(record)).flatMap(({ records }) => records)])
    const lives = Array.from(own).flatMap((each) => byRecord.get(each) ?? [])
    const acceptedAtMs = history.events.find((event) =>
      event.kind === 'told' && event.told.kind === 'accepted' && records.get(event.call) === record)?.atMs ?? Infinity
    const bound = lives.filter((life) => !isOver(life, acceptedAtMs)).flatMap(({ sendings, settles }) => {
      const isKept = (attempt: number): boolean => settles.some((settled) =>
        settled.attempt === attempt && (settled.outcome === 'completed' || settled.outcome === 'consumed'))
      const isFreed = (attempt: number): boolean => settles.some((settled) =>
        settled.attempt === attempt && settled.outcome === 'released' && (settled.by === 'operator' || settled.by === 'probe'))
      return sendings.filter(({ attempt }) => mayRetry ? isKept(attempt) : !isFreed(attempt))
    }).find(({ execution }) => !isRelease(history, execution))
    return bound === undefined
      ? []
      : [{ rule: 'N5', detail: `record ${record.slice(0, 8)} was accepted, and execution ${bound.execution} did not free its key` }]
  })
}

function isOver ({ settles, deleted }: Life, atMs: number): boolean {
  const last = settles.at(-1)
  return deleted.some((each) => each.atMs <= atMs) || (last !== undefined && last.atMs + last.keepMs <= atMs)
}

function isRelease ({ events }: History, execution: number): boolean {
  return events.some((event) => event.kind === 'replied' && event.execution === execution && event.means === 'release')
}

/** Faults after which nobody is left who could say in time that nothing was sent. */
const SILENCING: ReadonlySet<string> = new Set(['crash', 'drain', 'pause', 'cut', 'amnesia', 'hang', 'row-lock', 'step'])

/** One message may get lost or come late: whoever doubts its claim confirms it or takes it back. After two the lease may end first. */
const LOST_MESSAGES_MAX = 1
/**
 * A released row that is swept, or deleted by hand and swept, while its own claim is still on its way is claimed once
 * more, until the second release.
 */
const ON_ITS_WAY_MS = 12_000

/** P6: where everybody lives and reaches the stores, what was never sent is not called unknown. */
function unknownUnsent ({ faults, network, policy }: Schedule, { events }: History): Wrong[] {
  if (events.some(({ kind }) => kind === 'deleted') || faults.some(({ action }) => action.kind === 'switch' && action.isLost)) return []
  const lost = faults.filter(({ action }) => action.kind === 'message' && action.fault !== 'refused').length
  if (
    lost > LOST_MESSAGES_MAX ||
    policy.retentionMs < ON_ITS_WAY_MS ||
    network.lossShare > 0 ||
    network.slow.share > 0 ||
    faults.some(({ action }) => SILENCING.has(action.kind))
  ) {
    return []
  }
  const sent = new Set(events.filter((event): event is EventOf<'sent'> => event.kind === 'sent').map(({ record }) => record))
  const records = new Map(events
    .filter((event): event is EventOf<'asked'> => event.kind === 'asked')
    .map(({ call, record }) => [call, record]))
  return events.flatMap((event) => {
    if (event.kind !== 'told' || event.told.kind !== 'unknown' || sent.has(records.get(event.call) ?? '')) return []
    return [{ rule: 'P6', detail: `call ${event.call} was told that the outcome is not known, and nothing was ever sent` }]
  })
}
