/** The result of an execution, judged: what is written, and what the waiters get. */
import { encodeHeaders } from '../../core/protocol/codec.ts'
import { judge } from '../../core/protocol/disposition.ts'
import type { Judgement } from '../../core/protocol/disposition.ts'
import { explained } from '../../core/forward/upstream-fault.ts'
import { answerHeaders, keptHeaders } from '../../core/headers/headers.ts'
import { acceptedAnswer } from '../../core/inbox/acceptance.ts'
import type { Answer, Settlement, SettledState, UnknownReason } from '../../core/record/record.ts'
import type { StreamedResult } from '../../ports/upstream.ts'
import type { RecordCounts } from '../authorise/record-counts.ts'
import { TEXT_BYTES_MAX } from '../execution/replay-cache.ts'
import type { Executed, Execution, ExecutionResult, Plan } from '../execution/execution.ts'
import { noteIndeterminate } from '../execution/indeterminate.ts'
import { INBOX_UNREACHED } from '../execution/modes.ts'
import type { RecordWrites } from '../execution/record-writes.ts'
import type { Deps } from '../shared/deps.ts'
import type { Notices } from '../shared/notices.ts'
import type { Stored } from './write.ts'

export interface PlanContext {
  readonly deps: Deps
  readonly writes: RecordWrites
  readonly recordCounts: RecordCounts
  readonly notices: Notices
}

export function planOf (context: PlanContext, execution: Execution, result: Executed): Plan {
  if (result.kind === 'unsent') execution.sentAtMs = null
  else if (result.kind === 'answer' || result.kind === 'stream') execution.answeredAtMs = context.deps.clock.monotonicMs()
  switch (result.kind) {
    case 'accepted': return planAccepted(execution, result.isNew)
    case 'taken-by-another': return planTakenByAnother(execution)
    case 'unsent':
      // The caller is not charged for an upstream that is away.
      if (execution.countsAnew) context.recordCounts.count(execution.keyed, -1)
      return planUnsent(execution, result)
    case 'lost': {
      const reason: UnknownReason = { stage: result.code === 'DRAIN' ? 'drain' : 'during', code: result.code }
      noteIndeterminate(context, execution, reason, result.status)
      return planUnknown(execution, reason, result.status, { kind: 'unknown', timedOut: result.timedOut })
    }
    case 'answer': return planAnswer(context, execution, result.answer)
    case 'stream': return planStream(context, execution, result)
  }
}

function planUnsent (execution: Execution, unsent: Extract<Executed, { kind: 'unsent' }>): Plan {
  const { code } = unsent
  execution.keyed.steps.reason = explained(code, execution.keyed.route.upstream.name)
  // A lease that ran out before the first byte is the gateway's fault, not the upstream's.
  const ours = code === 'LEASE' || code === 'DRAIN' || code === INBOX_UNREACHED
  return {
    settlement: settlementOf(execution, 'released', execution.keyed.route.idempotency.retentionMs),
    unstored: ours ? { kind: 'unavailable' } : unsent,
    kept: null,
    isSimple: false
  }
}

/** The record says what the inbox says: every request with this key gets the same 202, whether it asks for it or not. */
function planAccepted (execution: Execution, isNew: boolean): Plan {
  const kept = acceptedAnswer(execution.keyed.name)
  return {
    settlement: {
      ...settlementOf(execution, 'completed', execution.keyed.retentionMs),
      status: kept.status,
      headers: encodeHeaders(kept.headers),
      body: kept.body
    },
    unstored: { kind: 'accepted', name: execution.keyed.name, isNew },
    kept,
    isSimple: false
  }
}

/** The message has outlived its record. The record has the wrong fingerprint by now, so its key is free again soon. */
function planTakenByAnother (execution: Execution): Plan {
  return {
    settlement: settlementOf(execution, 'released', LEASES_KEPT_MIN * execution.keyed.claim.leaseMs),
    unstored: { kind: 'mismatch' },
    kept: null,
    isSimple: false
  }
}

/** The shortest time that any record is kept (config/routes/check.ts). */
const LEASES_KEPT_MIN = 2

function planUnknown (execution: Execution, reason: UnknownReason, status: number | null, unstored: ExecutionResult): Plan {
  execution.keyed.steps.reason = `${reason.stage}:${reason.code}`
  return {
    settlement: {
      ...settlementOf(execution, 'indeterminate', execution.keyed.route.idempotency.unknownRetentionMs),
      status: storable(status),
      reason
    },
    unstored,
    kept: null,
    isSimple: false
  }
}

function planAnswer (context: PlanContext, execution: Execution, raw: Answer): Plan {
  const policy = execution.keyed.route.idempotency
  const { status, body } = raw
  // It is kept in memory as text, and leaves as the same text.
  const text = policy.keep.body && body.length <= TEXT_BYTES_MAX ? { text: body.toString('latin1') } : NO_TEXT
  const answer: Answer = { status, headers: answerHeaders(raw.headers), body, ...text }
  const kept: Answer = { status, headers: keptHeaders(answer.headers, policy.keep), body, ...text }
  const judgement = judge(raw, policy)
  if (judgement.disposition === 'release') {
    return {
      settlement: { ...settlementOf(execution, 'released', policy.retentionMs), status: raw.status },
      unstored: { kind: 'released', answer, kept },
      kept: null,
      isSimple: false
    }
  }
  if (judgement.disposition === 'unknown') {
    const reason: UnknownReason = { stage: 'hop', code: `HTTP_${raw.status}` }
    noteIndeterminate(context, execution, reason, raw.status)
    return planUnknown(execution, reason, raw.status, { kind: 'hop', answer, kept })
  }
  const keepMs = keptFor(context, execution, judgement)
  if (!judgement.keepBody) {
    return {
      settlement: { ...settlementOf(execution, 'consumed', keepMs), status: raw.status },
      // The record is settled and the answer is not kept. It is given this once.
      unstored: { kind: 'answered', answer, kept: null, stored: false, expiresAtMs: null },
      kept: { status: raw.status, headers: [], body: Buffer.alloc(0) },
      isSimple: true
    }
  }
  return {
    settlement: {
      ...settlementOf(execution, 'completed', keepMs),
      status: raw.status,
      headers: encodeHeaders(kept.headers),
      body: raw.body
    },
    unstored: { kind: 'answered', answer, kept, stored: false, expiresAtMs: null },
    kept,
    isSimple: true
  }
}

const NO_TEXT = {}

/** The result once the arbiter has taken the outcome. */
export function storedResult ({ writes }: Pick<PlanContext, 'writes'>, { unstored }: Plan, stored: Stored): ExecutionResult {
  switch (unstored.kind) {
    case 'answered': return {
      kind: 'answered',
      answer: unstored.answer,
      kept: unstored.kept,
      stored: true,
      expiresAtMs: unstored.kept === null ? null : writes.expiresAtMs(stored.keepLeftMs, stored.askedAtMs)
    }
    case 'streamed': return { ...unstored, stored: true }
    default: return unstored
  }
}

/** Settled by its head alone, before its first byte goes out. An answer to keep becomes a tombstone, which never gets free (E5). */
function planStream (context: PlanContext, execution: Execution, result: StreamedResult): Plan {
  const policy = execution.keyed.route.idempotency
  const headers = answerHeaders(result.headers)
  const judgement = judge({ status: result.status, headers: result.headers, body: Buffer.alloc(0) }, policy)
  const { disposition } = judgement
  const as = disposition === 'keep' ? 'consumed' : disposition === 'release' ? 'released' : 'indeterminate'
  const reason: UnknownReason | null = as === 'indeterminate' ? { stage: 'hop', code: `HTTP_${result.status}` } : null
  if (reason !== null) noteIndeterminate(context, execution, reason, result.status)
  const keepMs = as === 'indeterminate' ? policy.unknownRetentionMs : keptFor(context, execution, judgement)
  return {
    settlement: { ...settlementOf(execution, as, keepMs), status: result.status, reason },
    unstored: { kind: 'streamed', status: result.status, headers, body: result.body, as, stored: false },
    kept: as === 'consumed' ? { status: result.status, headers: [], body: Buffer.alloc(0) } : null,
    isSimple: false
  }
}

/** What the upstream asks for, or the route's retention. A `ttl` that is moved to a bound is logged, so that its owner finds the reason. */
function keptFor (context: PlanContext, { keyed }: Execution, { ttlMs, ttlAskedMs, ttlUnread }: Judgement): number {
  const route = keyed.route.name
  if (ttlUnread === true) {
    context.notices.warn(
      'ttl-unreadable',
      route,
      'unread',
      {},
      "the upstream's Idempotency-Policy has a ttl that is no whole number of seconds: the answer is kept for as long as the route's retention"
    )
  }
  if (ttlMs !== null && ttlAskedMs !== undefined) {
    context.notices.warn(
      'ttl-bounded',
      route,
      ttlMs > ttlAskedMs ? 'longer' : 'shorter',
      { ttlAskedSeconds: ttlAskedMs / 1000, ttlSeconds: ttlMs / 1000 },
      `the upstream's Idempotency-Policy asks for another ttl than this route can keep: the answer is kept ${ttlMs > ttlAskedMs ? 'longer (at least two leases, and as long as an issued key lives)' : 'shorter (at most 366 days)'}`
    )
  }
  return ttlMs ?? keyed.retentionMs
}

function settlementOf (execution: Execution, outcome: SettledState, keepMs: number): Settlement {
  return {
    token: execution.token,
    outcome,
    keepMs,
    status: null,
    headers: null,
    body: null,
    reason: null,
    sentMs: sinceClaim(execution, execution.sentAtMs),
    answeredMs: sinceClaim(execution, execution.answeredAtMs)
  }
}

/** Four bytes hold it in every store: 24 days. */
const SINCE_CLAIM_MAX_MS = 2 ** 31 - 1

function sinceClaim ({ askedAtMs }: Execution, atMs: number | null): number | null {
  return atMs === null ? null : Math.min(SINCE_CLAIM_MAX_MS, Math.max(0, Math.round(atMs - askedAtMs)))
}

/** A status that does not exist (999) is logged and not kept. */
function storable (status: number | null): number | null {
  return status !== null && status >= 100 && status <= 599 ? status : null
}
