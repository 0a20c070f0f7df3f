/**
 * The kind of an answer on the wire, in the terms of the invariants. Reads headers and body as any client could
 * (docs/reference/http.md). It uses the gateway's code only for the list of kept headers, which the checker's prints need.
 */
import { keptHeaders } from '../../src/core/headers/headers.ts'
import { pairs } from '../../src/core/headers/lines.ts'
import type { RawHeaders } from '../../src/core/record/record.ts'
import { printOf } from '../harness/history.ts'
import type { Told, ToldKind } from '../harness/history.ts'

export interface WireAnswer { readonly status: number, readonly headers: RawHeaders, readonly body: Buffer }

/** The description of an answer that no row of docs/reference/http.md allows. */
export function toldBy (answer: WireAnswer): Told | string {
  const code = problemOf(answer)
  const status = field(answer, 'idempotency-status')
  if (code !== null) return toldByProblem(code, answer)
  switch (status) {
    case 'replayed': return ofUpstream('replayed', answer)
    case 'executed': return ofUpstream(field(answer, 'idempotency-stored') === 'false' ? 'given' : 'stored', answer)
    case 'released':
    case 'unprotected':
    case 'indeterminate': return ofUpstream('given', answer)
    case 'accepted': return own('accepted')
    case 'consumed': return own('tombstone')
    case 'duplicate': return own('duplicate')
    default: return `an answer ${answer.status} with Idempotency-Status ${status ?? 'missing'}`
  }
}

const UNSENT: ReadonlySet<string> = new Set([
  'upstream-unreachable', 'store-unavailable', 'overloaded', 'draining', 'bad-request', 'request-timeout',
  'too-many-in-flight', 'too-many-records'
])
const KINDS: Readonly<Record<string, ToldKind>> = {
  'in-flight': 'in-flight',
  'key-reused': 'mismatch',
  'outcome-unknown': 'unknown',
  'upstream-failed': 'unknown',
  'upstream-timeout': 'unknown',
  'answer-not-kept': 'tombstone'
}

function toldByProblem (code: string, { status }: WireAnswer): Told | string {
  if (UNSENT.has(code)) return own('unsent')
  const kind = KINDS[code]
  return kind === undefined ? `a problem ${code} with ${status}` : own(kind)
}

/** The code of a problem of the gateway itself. null: the answer is none. */
function problemOf (answer: WireAnswer): string | null {
  if (field(answer, 'content-type') !== 'application/problem+json') return null
  const { code } = JSON.parse(answer.body.toString()) as { readonly code?: unknown }
  return typeof code === 'string' ? code : 'without a code'
}

function own (kind: ToldKind): Told {
  return { kind, print: null, execution: null }
}

/** Headers of the gateway and of this connection. The others are the upstream's, which sends no Request-Id. */
const NOT_THE_UPSTREAMS: ReadonlySet<string> = new Set([
  'idempotency-status', 'idempotency-original-status', 'idempotency-expires', 'idempotency-stored',
  'idempotent-replayed', 'request-id', 'retry-after', 'connection', 'keep-alive', 'content-length', 'transfer-encoding'
])
const NOTHING: ReadonlySet<string> = new Set()

function ofUpstream (kind: ToldKind, answer: WireAnswer): Told {
  const { headers, body } = answer
  const status = Number(field(answer, 'idempotency-original-status') ?? answer.status)
  const theirs = Array.from(pairs(headers)).filter(([name]) => !NOT_THE_UPSTREAMS.has(name.toLowerCase())).flat()
  const kept = keptHeaders(theirs, { dropHeaders: NOTHING, keepHeaders: NOTHING })
  const digits = /"execution":(-?\d+)/.exec(body.subarray(0, HEAD_OF_BODY).toString('latin1'))?.[1]
  return { kind, print: printOf(status, kept, body), execution: digits === undefined ? null : Number(digits) }
}

const HEAD_OF_BODY = 64

function field ({ headers }: WireAnswer, name: string): string | null {
  for (const [key, value] of pairs(headers)) {
    if (key.toLowerCase() === name) return value
  }
  return null
}
