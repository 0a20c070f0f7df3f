/**
 * The problem with which an outcome is answered: its code, and its status as the route says. Pure. http/ writes it, and an explanation
 * names it (operator/explain).
 */
import { codeOfRefusal, PROBLEMS, retrySoon } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { IdempotencyPolicy } from '../../core/policy/policy.ts'
import type { Outcome } from './outcome.ts'

export interface ProblemAnswer {
  readonly code: ProblemCode
  readonly status: number
  /** For the log line and the metric. */
  readonly outcome: string
  /** The value of `Idempotency-Status`. */
  readonly mark?: string
  readonly detail?: string
  readonly challenge?: string
  readonly retryAfterSeconds?: number | null
  readonly members?: Readonly<Record<string, string | number | boolean>>
  readonly close?: boolean
}

/** An outcome that has no answer of the upstream. */
export type Problematic = Extract<
  Outcome,
  { kind: 'rejected' | 'in-flight' | 'mismatch' | 'unknown' | 'not-kept' | 'unsent' | 'lost' | 'unavailable' }
>

type Of<Kind extends Outcome['kind']> = Extract<Outcome, { kind: Kind }>

type ProblemPolicy = Pick<IdempotencyPolicy, 'profile' | 'inFlight' | 'onMismatch' | 'leaseMs'>

/** Retry-After if the time is not known: soon, without hammering. */
const RETRY_SOON_SECONDS = 1

export function problemOf (outcome: Problematic, policy: ProblemPolicy): ProblemAnswer {
  switch (outcome.kind) {
    case 'rejected': return refusal(outcome, policy)
    case 'in-flight': return inFlight(outcome, policy)
    case 'mismatch':
      return {
        code: 'key-reused',
        status: policy.onMismatch.status,
        mark: 'mismatch',
        outcome: 'mismatch',
        ...(outcome.detail === undefined ? {} : { detail: outcome.detail })
      }
    case 'unknown': return unknown(outcome.timedOut, policy)
    case 'not-kept':
      return {
        code: 'answer-not-kept',
        status: PROBLEMS['answer-not-kept'].status[policy.profile],
        mark: 'consumed',
        members: { originalStatus: outcome.originalStatus },
        outcome: 'not-kept'
      }
    case 'unsent': return unsent(outcome, policy)
    case 'lost': return lost(outcome, policy)
    case 'unavailable': return unavailable(outcome, policy)
  }
}

/** A tombstone is no problem to a relay. It is shown as the original status, so that the message keeps its outcome. */
export function isShownAsStatus ({ profile }: Pick<IdempotencyPolicy, 'profile'>): boolean {
  return profile === 'relay'
}

function inFlight (outcome: Of<'in-flight'>, { profile, inFlight: { status }, leaseMs }: ProblemPolicy): ProblemAnswer {
  return {
    code: 'in-flight',
    status: !outcome.starter ? status : profile === 'relay' ? 503 : 504,
    retryAfterSeconds: retryAfterSeconds(outcome.retryAfterMs, leaseMs),
    mark: 'in-flight',
    outcome: outcome.starter ? 'in-flight-own' : 'in-flight'
  }
}

/** Every retry under `hold` gets the same answer as the first request. A 4xx would tell a client "not done, use a new key". */
function unknown (timedOut: boolean, { profile }: ProblemPolicy): ProblemAnswer {
  if (profile === 'relay') {
    return {
      code: 'outcome-unknown',
      status: PROBLEMS['outcome-unknown'].status.relay,
      retryAfterSeconds: RETRY_SOON_SECONDS,
      mark: 'indeterminate',
      outcome: 'outcome-unknown'
    }
  }
  return { code: 'outcome-unknown', status: timedOut ? 504 : 502, mark: 'indeterminate', outcome: 'outcome-unknown' }
}

function unsent ({ refusal, lost = false }: Of<'unsent'>, { profile }: ProblemPolicy): ProblemAnswer {
  const code = refusal === undefined || lost ? 'upstream-unreachable' : codeOfRefusal(refusal)
  return {
    code,
    status: PROBLEMS[code].status[profile],
    retryAfterSeconds: RETRY_SOON_SECONDS,
    mark: 'released',
    outcome: code === 'upstream-unreachable' ? 'unsent' : code,
    ...lost && { detail: LOST }
  }
}

/** As on a route that passes through: the gateway does not hold this event. `again`: a retry is forwarded again. */
function lost ({ timedOut, again }: Of<'lost'>, { profile }: ProblemPolicy): ProblemAnswer {
  const code = timedOut ? 'upstream-timeout' : 'upstream-failed'
  const relay = profile === 'relay'
  const then = again ? 'A retry with the same key is passed on again.' : 'A retry with the same key is not passed on.'
  return {
    code,
    status: relay ? RELAY_RETRIES : PROBLEMS[code].status[profile],
    mark: 'indeterminate',
    outcome: code,
    detail: `${PROBLEMS[code].detail} ${then}`,
    ...relay && { retryAfterSeconds: RETRY_SOON_SECONDS }
  }
}

/** The one status that every relay retries. */
const RELAY_RETRIES = 503
const LOST = 'No connection to the service could be made. Nothing was sent, and this route had marked the event before: a retry with the same key is not passed on.'

/** The message may have been stored. It is stored once, however often the request is retried. */
function unavailable ({ inDoubt = false }: Of<'unavailable'>, { profile }: ProblemPolicy): ProblemAnswer {
  return {
    code: 'store-unavailable',
    status: PROBLEMS['store-unavailable'].status[profile],
    retryAfterSeconds: RETRY_SOON_SECONDS,
    outcome: 'store-unavailable',
    ...inDoubt && { detail: 'The store did not say in time whether it has taken this request. Retry with the same key: it is taken once.' }
  }
}

function refusal ({ code, close = false, detail, challenge }: Of<'rejected'>, { profile }: ProblemPolicy): ProblemAnswer {
  return {
    code,
    status: PROBLEMS[code].status[profile],
    outcome: code,
    close,
    ...(detail === undefined ? {} : { detail }),
    ...(challenge === undefined ? {} : { challenge }),
    retryAfterSeconds: retrySoon(code)
  }
}

const MS_PER_SECOND = 1000

/** At least one second, at most the lease. */
function retryAfterSeconds (ms: number, leaseMs: number): number {
  const leaseSeconds = Math.max(1, Math.ceil(leaseMs / MS_PER_SECOND))
  return Math.min(leaseSeconds, Math.max(1, Math.ceil(ms / MS_PER_SECOND)))
}
