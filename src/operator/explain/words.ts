/** Records, messages and what follows from them, in sentences for operators. None of them has a key, a credential or a part of a body. */
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { RecordDetail, UnknownReason } from '../../core/record/record.ts'
import { problemOf } from '../../gateway/shared/problem-answer.ts'
import type { Known } from './prediction.ts'

const MS_PER_SECOND = 1_000
const MS_PER_MINUTE = 60 * MS_PER_SECOND
const MS_PER_HOUR = 60 * MS_PER_MINUTE
const MS_PER_DAY = 24 * MS_PER_HOUR

/** In the largest unit that leaves no fraction, as the configuration spells it. */
export function durationText (ms: number): string {
  for (const [unit, name] of [[MS_PER_DAY, 'd'], [MS_PER_HOUR, 'h'], [MS_PER_MINUTE, 'm'], [MS_PER_SECOND, 's']] as const) {
    if (ms >= unit && ms % unit === 0) return `${ms / unit}${name}`
  }
  return `${ms}ms`
}

export function timeText (ms: number): string {
  return new Date(ms).toISOString()
}

/** How the record stands. */
export function recordWords (record: RecordDetail): readonly string[] {
  const { state, past, expiresAtMs } = record
  if (state === 'undecodable') return ['The record has a value that this build does not understand, so that its outcome counts as unknown.']
  if (past) return [`The record is over since ${whenText(expiresAtMs)}. It counts as no record, and will be deleted.`]
  return [stateSentence(record, state), ...keptWords(record)]
}

function stateSentence (record: RecordDetail, state: Exclude<RecordDetail['state'], 'undecodable'>): string {
  const { about: { instance }, claimedAtMs, attempt, lapsed, status, settledBy, reason } = record
  switch (state) {
    case 'claimed':
      return lapsed
        ? `Gateway ${instance} claimed it at ${timeText(claimedAtMs)} (attempt ${attempt}), and its lease is over: the gateway has not renewed it.`
        : `Its request is in flight at gateway ${instance} since ${timeText(claimedAtMs)} (attempt ${attempt}).`
    case 'completed': return `Its answer is stored: status ${status ?? 0}, ${BY[settledBy ?? 'owner']}.`
    case 'consumed': return `It was executed, and of its answer only the status is kept: ${status ?? 0}, ${BY[settledBy ?? 'owner']}.`
    case 'released': return releasedSentence(record)
    case 'indeterminate': return `Its outcome is unknown: ${reason === null ? 'no reason is stored' : reasonText(reason)}.`
  }
}

const BY = {
  owner: 'as the upstream answered',
  lease: 'by the end of its lease',
  probe: 'as the upstream answered to a probe',
  operator: 'as an operator said'
} as const

function releasedSentence ({ settledBy, status }: RecordDetail): string {
  if (settledBy === 'operator') return 'An operator has released it: its key is free again.'
  if (settledBy === 'probe') return 'The upstream said twice to probes that it does not know the request: its key is free again.'
  return status === null
    ? 'Nothing of it was sent, so that its key is free again.'
    : `The upstream answered ${status}, which says on this route that nothing was done: its key is free again.`
}

const STAGES: Readonly<Record<UnknownReason['stage'], string>> = {
  during: 'the sending broke off after a byte may have reached the upstream',
  hop: 'the answer came from a hop that cannot tell whether the upstream has done it',
  lease: 'its gateway stopped renewing its lease',
  settle: 'its answer could not be stored',
  drain: 'its gateway shut down while the request was under way',
  restore: 'the database was restored to an earlier state'
}

function reasonText ({ stage, code }: UnknownReason): string {
  return `${STAGES[stage]} (${stage}/${code})`
}

function keptWords (record: RecordDetail): readonly string[] {
  const { state, expiresAtMs, settledBy } = record
  if (state === 'claimed') return []
  const kept = `It is kept until ${whenText(expiresAtMs)}.`
  if (state !== 'released' || settledBy === 'owner') return [kept]
  return [kept, 'If the first sending ends with an answer after all, that answer is stored, unless somebody has claimed the key since.']
}

/** How the message stands. */
export function messageWords ({ state, receivedAtMs, attempt, dueAtMs, error }: MessageDetail): readonly string[] {
  return [
    `It was accepted into the inbox at ${timeText(receivedAtMs)}. The message is ${state}, after ${attempt} deliveries.`,
    ...dueAtMs === null ? [] : [`Its next delivery is due at ${timeText(dueAtMs)}.`],
    ...error === null ? [] : [`Its last delivery ended with ${error}.`]
  ]
}

/** Why nothing stands in the way of an execution. */
export function executionWords ({ record, route: { name } }: Known, attempt: number): readonly string[] {
  const sent = 'It is sent to the upstream, and its own answer decides what is stored.'
  if (record === null || record.past || record.state === 'released') return [sent]
  return [
    `The route ${name} says unknown: retry. So the request is sent again, with Idempotency-Attempt: ${attempt}.`,
    ...record.state === 'claimed' ? contactWords(name) : [],
    sent
  ]
}

/** Why an unknown outcome stays so, and what ends it. */
export function unknownWords (known: Known): readonly string[] {
  const { record, comparison, route: { idempotency: { unknown, inboxFor } } } = known
  if (comparison === 'unknown') {
    return ['Its fingerprint was made by another build or another policy. So this request cannot be compared, and is not executed.']
  }
  if (record === null || record.state === 'undecodable') return ['It is never executed again under this key.']
  if (record.state === 'completed') return ['The stored answer cannot be read, so that it is neither replayed nor executed again.']
  const held = unknown === 'retry' && inboxFor === 'all'
    ? 'It was executed before the route had an inbox, and is not sent again: unknown: retry is about deliveries here.'
    : `It is not sent again, because the route says unknown: ${unknown}.`
  return [held, ...record.state === 'claimed' ? inFlightMeanwhile(known) : endWords(record)]
}

/** Only a process in unbroken contact with the store ends the lease of another. */
function inFlightMeanwhile ({ route: { idempotency } }: Known): readonly string[] {
  const { status, code } = problemOf({ kind: 'in-flight', retryAfterMs: 0, starter: false, elsewhere: true }, idempotency)
  return [`A gateway that has not been in contact with the store for a whole lease yet answers ${status} \`${code}\` instead.`]
}

function contactWords (name: string): readonly string[] {
  return [`A gateway waits with that until it has been in contact with the store for the longest lease of its routes, ${name} among them.`]
}

function endWords ({ settledAtMs, claimedAtMs, ageMs, quarantineMs, expiresAtMs, probe }: RecordDetail): readonly string[] {
  const nowMs = claimedAtMs + ageMs
  const freeFromMs = (settledAtMs ?? nowMs) + quarantineMs
  return [
    ...probe === null
      ? []
      : [
          probe.againAtMs === null
            ? `The upstream was asked ${probe.tries} times, and is not asked any more. An operator decides.`
            : `The upstream was asked ${probe.tries} times, and is asked again at ${timeText(probe.againAtMs)}.`,
          ...probe.absentSinceMs === null
            ? []
            : [`It said at ${timeText(probe.absentSinceMs)} that it does not know the request. A second such answer frees the key.`]
        ],
    freeFromMs > nowMs
      ? `An operator may release it from ${timeText(freeFromMs)} on. Until then the first sending may still be under way.`
      : 'An operator may resolve or release it.',
    `Its key can run again after ${whenText(expiresAtMs)}.`
  ]
}

function whenText (ms: number | null): string {
  return ms === null ? 'a time that is not stored' : timeText(ms)
}
