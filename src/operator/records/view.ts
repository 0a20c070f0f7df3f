/** Records as the operator API shows them. Never a body, and a key only if the route keeps its text. */
import { maskHeader } from '../../config/read/mask.ts'
import { pairs } from '../../core/headers/lines.ts'
import { decodeHeaders } from '../../core/protocol/codec.ts'
import type { RecordDetail, Row } from '../../core/record/record.ts'
import type { RecordSummary } from '../../ports/operator.ts'
import { retryAnswer } from '../explain/answer.ts'
import { guardedRoute, type OperatorContext } from '../shared/operators.ts'
import { timeOrNull, timeText } from '../shared/query.ts'
import type { AnswerJson, RecordJson, RecordSummaryJson } from './schemas.ts'

export function summaryJson (record: RecordSummary): RecordSummaryJson {
  const { about, fingerprint, reason, probe } = record
  return {
    id: record.id.toString('base64url'),
    state: record.state,
    owner: record.owner.toString('hex'),
    attempt: record.attempt,
    route: about.route,
    method: about.method,
    path: about.path,
    requestId: about.requestId,
    traceId: traceIdOf(record),
    instance: about.instance,
    key: about.keyText,
    keyHash: about.keyHash.toString('base64url'),
    fingerprint: { alg: fingerprint.alg, value: fingerprint.value.toString('base64url') },
    claimedAt: timeText(record.claimedAtMs),
    leaseLeftMs: record.leaseLeftMs,
    settledAt: timeOrNull(record.settledAtMs),
    settledBy: record.settledBy,
    expiresAt: timeOrNull(record.expiresAtMs),
    status: record.status,
    bodyBytes: record.bodyBytes,
    reason,
    asking: probe === null
      ? null
      : { tries: probe.tries, againAt: timeOrNull(probe.againAtMs), absentSince: timeOrNull(probe.absentSinceMs) }
  }
}

export function recordJson (record: RecordDetail, nowMs: number, context: Pick<OperatorContext, 'config'>): RecordJson {
  const { headers, body, ...rest } = record
  const { sentences, ...retry } = retryAnswer({ record, route: guardedRoute(context, record.about.route) })
  return {
    ...summaryJson({ ...rest, bodyBytes: body?.length ?? null }),
    retry: { ...retry, sentences: [...sentences] },
    history: historyOf(record),
    leaseMs: record.leaseMs,
    releasableAt: timeOrNull(releasableAtMs(record)),
    changes: changesOf(record, nowMs)
  }
}

/** From a traceparent (W3C Trace Context 3.2). A row may have anything. */
function traceIdOf ({ trace }: Pick<Row, 'trace'>): string | null {
  return /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(trace ?? '')?.[1] ?? null
}

/** null: it is no unknown outcome. */
function releasableAtMs ({ state, settledAtMs, quarantineMs }: RecordDetail): number | null {
  return state !== 'indeterminate' || settledAtMs === null ? null : settledAtMs + quarantineMs
}

export function changesOf (record: RecordDetail, nowMs: number): RecordJson['changes'] {
  switch (record.state) {
    case 'indeterminate': return [
      'resolve',
      ...(nowMs >= (releasableAtMs(record) ?? nowMs) ? ['release' as const] : []),
      ...(record.probe === null ? [] : ['probe' as const])
    ]
    case 'completed': case 'consumed': case 'released': return ['delete']
    case 'claimed': case 'undecodable': return []
  }
}

type Moment = RecordJson['history'][number]

const SETTLED_BY: Readonly<Record<NonNullable<Row['settledBy']>, string>> = {
  owner: 'by the gateway that sent it',
  lease: 'by another gateway, because its lease was over',
  probe: 'by a probe of the upstream',
  operator: 'by an operator'
}

function historyOf (record: RecordDetail): Moment[] {
  const { claimedAtMs, settledAtMs, settledBy, expiresAtMs, state, about, leaseLeftMs, ageMs } = record
  const moment = (what: Moment['what'], atMs: number | null, by: string | null, text: string): Moment[] =>
    atMs === null ? [] : [{ what, at: timeText(atMs), sinceClaimMs: Math.round(atMs - claimedAtMs), by, text }]
  // Both come from the gateway's clock, and the claim and the settle from the store's.
  const bySettle = (atMs: number | null): number | null => atMs === null ? null : Math.min(atMs, settledAtMs ?? atMs)
  const leaseEndsAtMs = leaseLeftMs === null ? null : claimedAtMs + ageMs + leaseLeftMs
  const forgotten = state === 'indeterminate' ? 'Forgotten. The next retry is then a new request.' : 'Forgotten. The key can be used anew.'
  return [
    ...moment('claimed', claimedAtMs, about.instance, claimedText(record)),
    ...moment('sent', bySettle(record.sentAtMs), about.instance, 'Sent to the upstream.'),
    ...moment('answered', bySettle(record.answeredAtMs), about.instance, 'The upstream had answered.'),
    ...moment('lease-over', leaseEndsAtMs, null, 'If its gateway does not renew the lease by then, its outcome is unknown.'),
    ...moment('settled', settledAtMs, settledBy, `${SETTLED[state]} ${settledBy === null ? '' : SETTLED_BY[settledBy]}`.trim()),
    ...moment('releasable', releasableAtMs(record), null, 'From now on it can be released: the time of its first sending is over.'),
    ...moment('expires', expiresAtMs, null, forgotten)
  ].sort((one, other) => Date.parse(one.at) - Date.parse(other.at))
}

function claimedText ({ attempt, state, settledBy, sentAtMs }: RecordDetail): string {
  const claimed = attempt === 1 ? 'Claimed.' : `Claimed as attempt ${attempt}: the attempts before it freed the key.`
  if (sentAtMs !== null) return claimed
  if (state === 'claimed') return `${claimed} It may have been sent since.`
  return settledBy === 'lease' ? `${claimed} Whether it was sent is not known.` : claimed
}

const SETTLED: Readonly<Record<Row['state'], string>> = {
  claimed: 'In flight',
  completed: 'Its answer was stored',
  consumed: 'It was executed, and its answer is not kept: settled',
  released: 'It was not executed, and the key is free: settled',
  indeterminate: 'Its outcome became unknown: settled',
  undecodable: 'Settled in a way that this build does not know'
}

/** null: there is none, or it cannot be read. */
export function answerJson ({ status, headers, body }: Pick<RecordDetail, 'status' | 'headers' | 'body'>): AnswerJson | null {
  const lines = headers === null ? null : decodeHeaders(headers)
  if (status === null || lines === null || body === null) return null
  const text = utf8Of(body)
  return {
    status,
    headers: Array.from(pairs(lines), ([name, value]): [string, string] => [name, maskHeader(value, name)]),
    body: text ?? body.toString('base64'),
    encoding: text === null ? 'base64' : 'utf-8'
  }
}

/** A byte order mark is part of the body. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function utf8Of (body: Buffer): string | null {
  try {
    return UTF8.decode(body)
  } catch {
    return null
  }
}
