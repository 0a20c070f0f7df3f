/**
 * Probes ask the upstream what became of a request with an unknown outcome (docs/concepts/protocol.md §7, `unknown: probe`). The question
 * is rendered when the record is claimed, and stored with it. Only then are the key and the body at hand. The answer is judged here. Pure:
 * it sends nothing and waits for nothing.
 */
import { plainName } from '../headers/fields.ts'
import { answerHeaders, keptHeaders, mayHaveBody } from '../headers/headers.ts'
import { headerValue } from '../headers/lines.ts'
import { findValue, findValues, scalarText } from '../json/pointer.ts'
import type { Found, Pointer } from '../json/pointer.ts'
import type { KeepPolicy, AnswerMark, ProbePolicy, Template, TemplatePart } from '../policy/policy.ts'
import type { Answer, RawHeaders, Token } from '../record/record.ts'

/** The parts of a request that a question may need. `host`: the one sent to the upstream, if it is not the upstream's own. */
export interface ProbedRequest { readonly key: string, readonly recordId: string, readonly body: Buffer, readonly host: string | null }

/** A question as it is stored with its record. It contains the key if the template does, but never a credential. */
export interface Question {
  /** The upstream that the request was for. No other can answer. */
  readonly upstream: string
  readonly method: string
  readonly target: string
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  /** null: the upstream's own. */
  readonly host: string | null
}

/** A question is a line or two. A row must not carry a document that a template copied. */
export const QUESTION_BYTES_MAX = 4_096
/** Another value is from another build. */
const QUESTION_VERSION = 1

/**
 * The bytes that are stored with the record. null: no question can be asked. The request lacks a part that the template needs, or has it in
 * a form that the upstream may read differently. Examples are a number that is no integer, and a repeated member.
 */
export function renderQuestion (
  policy: Pick<ProbePolicy, 'method' | 'path' | 'headers'>,
  upstream: string,
  request: ProbedRequest
): Buffer | null {
  const templates = policy.headers.filter(([, template]) => !isStatic(template))
  const values = bodyValues([policy.path, ...templates.map(([, template]) => template)], request.body)
  const target = filled(policy.path, request, values, pathSegment)
  const headers = templates.map(([name, template]) => [name, filled(template, request, values, fieldValue)] as const)
  if (target === null || headers.some(([, value]) => value === null)) return null
  const bytes = Buffer.from(JSON.stringify({
    version: QUESTION_VERSION,
    upstream,
    method: policy.method,
    target,
    headers,
    host: request.host
  }))
  return bytes.length > QUESTION_BYTES_MAX ? null : bytes
}

/** By pointer. The body is searched once for all pointers, and not at all if there are none. */
type BodyValues = ReadonlyMap<Pointer, Found>

function bodyValues (templates: readonly Template[], body: Buffer): BodyValues {
  const pointers = templates.flatMap((template) => template.flatMap((part) => part.kind === 'json' ? [part.pointer] : []))
  const found = pointers.length === 0 ? [] : findValues(body, pointers)
  return new Map(pointers.map((pointer, index) => [pointer, found[index] ?? { kind: 'none' }]))
}

/** null: from another build, or from no build. */
export function readQuestion (bytes: Buffer): Question | null {
  try {
    const { version, upstream, method, target, headers, host } = JSON.parse(bytes.toString()) as Record<string, unknown>
    const sound = (host === null || (typeof host === 'string' && FIELD_VALUE.test(host))) &&
      version === QUESTION_VERSION &&
      typeof upstream === 'string' &&
      (method === 'GET' || method === 'HEAD') &&
      typeof target === 'string' &&
      TARGET.test(target)
    return sound && isFields(headers) ? { upstream, method, target, headers, host } : null
  } catch {
    return null
  }
}

const TARGET = /^\/[\x21-\x7e]*$/

function isFields (value: unknown): value is Array<readonly [string, string]> {
  return Array.isArray(value) &&
    value.every((field) =>
      Array.isArray(field) && field.length === 2 && field.every((part) => typeof part === 'string' && FIELD_VALUE.test(part)))
}

/** The same for every request. It is read from the configuration when the probe is sent, because it may be a credential. */
function isStatic (template: Template): boolean {
  return template.every(({ kind }) => kind === 'text')
}

function filled (template: Template, request: ProbedRequest, values: BodyValues, encode: (value: string) => string | null): string | null {
  let text = ''
  for (const part of template) {
    const value = part.kind === 'text' ? part.text : encodedValue(part, request, values, encode)
    if (value === null) return null
    text += value
  }
  return text
}

function encodedValue (
  part: Exclude<TemplatePart, { kind: 'text' }>,
  { key, recordId }: ProbedRequest,
  values: BodyValues,
  encode: (value: string) => string | null
): string | null {
  const value = part.kind === 'key' ? key : part.kind === 'record' ? recordId : bodyValue(values.get(part.pointer))
  return value === null || value === '' ? null : encode(value)
}

function bodyValue (found: Found | undefined): string | null {
  return found?.kind === 'value' ? scalarText(found.source) : null
}

/** A caller's value must not lead the question to another path, however a later hop decodes and normalizes paths. */
function pathSegment (value: string): string | null {
  if (value.split(/[/\\]/).some((part) => /^\.+$/.test(part)) || !value.isWellFormed()) return null
  return encodeURIComponent(value)
}

const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Space around a field's value gets lost, so the upstream would see another value. */
function fieldValue (value: string): string | null {
  return FIELD_VALUE.test(value) && value === value.trim() ? value : null
}

// ---------------------------------------------------------------- what the upstream says

export type Finding =
  /** It was done. `answer`: what is stored. null: no answer can be stored (too large, or bodies are not kept). */
  | { readonly kind: 'found', readonly status: number, readonly answer: Answer | null }
  /** The upstream says that it does not know the request. */
  | { readonly kind: 'absent' }
  /** No finding: an error, a refusal, or an answer without the value to adopt. */
  | { readonly kind: 'nothing', readonly why: string }

export function readFinding (
  policy: Pick<ProbePolicy, 'found' | 'notFound' | 'notFoundMarks' | 'method'>,
  keep: KeepPolicy,
  answer: Answer
): Finding {
  const { found, notFound } = policy
  if (notFound.includes(answer.status)) return absentIf(policy.notFoundMarks.every((mark) => isMarked(mark, answer)))
  if (!found.statuses.includes(answer.status)) return { kind: 'nothing', why: `HTTP_${answer.status}` }
  const status = found.replayStatus ?? answer.status
  const adopted = found.adopt === null ? wholeAnswer(policy, answer, keep, status) : pointedAt(answer, found.adopt, status)
  if (adopted === null) return { kind: 'nothing', why: 'ADOPT' }
  return { kind: 'found', status, answer: !keep.body || adopted.body.length > keep.responseBytesMax ? null : adopted }
}

/** For an answer of which only the head is known: too large, or without an end. It has no value for a pointer. */
export function readHead (
  policy: Pick<ProbePolicy, 'found' | 'notFound' | 'notFoundMarks' | 'method'>,
  status: number,
  headers: RawHeaders
): Finding {
  const { found, notFound } = policy
  if (notFound.includes(status)) {
    return absentIf(policy.notFoundMarks.every((mark) => mark.kind === 'header' && headerValue(headers, mark.name) !== null))
  }
  if (!found.statuses.includes(status)) return { kind: 'nothing', why: `HTTP_${status}` }
  return found.adopt === null ? { kind: 'found', status: found.replayStatus ?? status, answer: null } : { kind: 'nothing', why: 'ADOPT' }
}

function absentIf (marked: boolean): Finding {
  return marked ? { kind: 'absent' } : { kind: 'nothing', why: 'UNMARKED' }
}

function isMarked (mark: AnswerMark, { headers, body }: Answer): boolean {
  if (mark.kind === 'header') return headerValue(headers, mark.name) !== null
  return headerValue(headers, 'content-encoding') === null && findValue(body, mark.pointer).kind === 'value'
}

function wholeAnswer ({ method }: Pick<ProbePolicy, 'method'>, answer: Answer, keep: KeepPolicy, status: number): Answer {
  // The fields of an answer to HEAD describe a body that was not sent.
  if (method === 'HEAD') return { status, headers: [], body: Buffer.alloc(0) }
  const headers = keptHeaders(answerHeaders(answer.headers), keep)
  return { status, headers, body: mayHaveBody(status) ? answer.body : Buffer.alloc(0) }
}

/** The answer's fields describe the whole answer, not a part of it. */
function pointedAt (answer: Answer, pointer: Pointer, status: number): Answer | null {
  if (headerValue(answer.headers, 'content-encoding') !== null) return null
  const value = findValue(answer.body, pointer)
  if (value.kind !== 'value') return null
  return { status, headers: ['Content-Type', 'application/json'], body: mayHaveBody(status) ? Buffer.from(value.source) : Buffer.alloc(0) }
}

// ---------------------------------------------------------------- when to probe, and what follows

/** The state of a record that is being probed. Milliseconds by the store's clock, when the record was taken. */
export interface ProbeProgress {
  /** How many probes there were, this one included. */
  readonly tries: number
  /** Time since the outcome became unknown. */
  readonly unknownMs: number
  /** Time until the first sending can no longer be in flight. 0 or less: it cannot be. */
  readonly quarantineLeftMs: number
  /** Time since the first "not found" that counts. null: there is none. */
  readonly absentMs: number | null
}

/** What is written after a probe that settles nothing. */
export interface ProbeNote {
  readonly token: Token
  /** The number of the probe. If there was another probe since, this note is void. */
  readonly tries: number
  /** null: there are no more probes. */
  readonly afterMs: number | null
  readonly absent: 'first' | 'stays' | 'forget'
}

export type ProbeStep =
  | { readonly do: 'adopt', readonly status: number, readonly answer: Answer | null }
  /** Not found twice: the key is free. */
  | { readonly do: 'release' }
  /** `absent`: how the "not found" is remembered. It is the first that counts, or what is known stays, or it is forgotten. */
  | { readonly do: 'again', readonly afterMs: number, readonly absent: ProbeNote['absent'] }
  | { readonly do: 'give-up' }

/** Probes are at least this frequent. */
const LONGEST_MS = 5 * 60_000

/**
 * A "not found" counts only when the first sending can no longer be in flight. It frees the key only together with a second one,
 * `confirmAfter` later. Before that, an upstream that still works on the request, or answers from a replica, may not know it.
 */
export function afterFinding (
  policy: Pick<ProbePolicy, 'confirmAfterMs' | 'intervalMs' | 'giveUpAfterMs'>,
  progress: ProbeProgress,
  finding: Finding
): ProbeStep {
  if (finding.kind === 'found') return { do: 'adopt', status: finding.status, answer: finding.answer }
  const backedOffMs = Math.min(policy.intervalMs * 2 ** Math.min(progress.tries - 1, 20), Math.max(LONGEST_MS, policy.intervalMs))
  if (finding.kind === 'absent') {
    if (progress.quarantineLeftMs > 0) {
      return { do: 'again', afterMs: Math.min(Math.max(backedOffMs, 1), progress.quarantineLeftMs + 1), absent: 'forget' }
    }
    if (progress.absentMs === null) return { do: 'again', afterMs: policy.confirmAfterMs, absent: 'first' }
    if (progress.absentMs >= policy.confirmAfterMs) return { do: 'release' }
    return { do: 'again', afterMs: policy.confirmAfterMs - progress.absentMs, absent: 'stays' }
  }
  if (progress.unknownMs >= policy.giveUpAfterMs) return { do: 'give-up' }
  // Found, but unusable. So an earlier "not found" cannot be right.
  return { do: 'again', afterMs: backedOffMs, absent: finding.why === 'ADOPT' ? 'forget' : 'stays' }
}

/** The fields of one probe. Later ones win: the gateway's, the upstream's static ones, the policy's static ones, the stored ones. */
export function questionHeaders (question: Question, policy: Pick<ProbePolicy, 'headers'>, ours: Fields, requestHeaders: Fields): string[] {
  const fields = new Map<string, readonly [string, string]>()
  const written = policy.headers.filter(([, template]) => isStatic(template))
    .map(([name, template]) => [name, template.map((part) => part.kind === 'text' ? part.text : '').join('')] as const)
  const host: Fields = question.host === null ? [] : [['Host', question.host]]
  for (const field of [...ours, ...requestHeaders, ...written, ...question.headers, ...host]) fields.set(plainName(field[0]), field)
  return [...fields.values()].flat()
}

type Fields = ReadonlyArray<readonly [name: string, value: string]>
