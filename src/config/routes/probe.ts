/** The `probe` block: its checks, its templates and its policy. */
import { readPointer } from '../../core/json/pointer.ts'
import type { HopsPolicy, AnswerMark, ProbePolicy, Template, TemplatePart, UpstreamPolicy } from '../../core/policy/policy.ts'
import { isGatewayField, plainName } from '../../core/headers/fields.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path, Read } from '../read/problem.ts'
import type { IdempotencyFile, ProbeFile } from './schema.ts'
import { parseDuration } from '../read/units.ts'

/** Framing fields cannot be set by a template. */
const NO_FIELD = /^(host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|accept-encoding)$/
/** A rendered field is stored in the database, so these must not have placeholders: the gateway's credential would be stored. */
const CREDENTIAL_FIELD = /^(authorization|proxy-authorization|cookie|x-api-key)$/

/** `written`: text with {key}, {record} and {json:/pointer}, and without other braces. */
export function readTemplate (written: string): Read<Template> {
  const parts: TemplatePart[] = []
  for (const [piece] of written.matchAll(/\{[^{}]*\}|[^{}]+|[{}]/g)) {
    const part = readPart(piece)
    if ('wrong' in part) return part
    parts.push(part.value)
  }
  return { value: parts }
}

function readPart (piece: string): Read<TemplatePart> {
  if (piece === '{' || piece === '}') return { wrong: 'has a brace outside of a placeholder' }
  if (!piece.startsWith('{')) return { value: { kind: 'text', text: piece } }
  const name = piece.slice(1, -1)
  if (name === 'key' || name === 'record') return { value: { kind: name } }
  const pointer = name.startsWith('json:') ? readPointer(name.slice('json:'.length)) : null
  return pointer === null ? { wrong: `has ${piece}; write {key}, {record} or {json:/pointer}` } : { value: { kind: 'json', pointer } }
}

export function checkProbe (
  { unknown, probe, lease, unknownRetention }: IdempotencyFile,
  path: Path,
  upstreamTimeoutMs: number | null
): Mistake[] {
  const at = (...rest: readonly string[]) => [...path, 'probe', ...rest]
  if (unknown !== 'probe') return probe === undefined ? [] : [mistake(at(), 'is not used: unknown is not probe', 'key')]
  if (probe === undefined) return [mistake(at(), 'is missing; unknown: probe needs probe: { path }', 'key')]
  const { found, notFound } = probe
  const both = found.status.find((status) => notFound.includes(status))
  return [
    ...wrongTemplate(probe.path, at('path')),
    ...(asksForOne(probe)
      ? []
      : [mistake(at('path'), 'is the same for every request; add {key}, {record} or {json:/pointer} to it, or to a header')]),
    ...Object.entries(probe.headers).flatMap(([name, value]) => wrongHeader(name, value, at('headers', name))),
    ...(both === undefined ? [] : [mistake(at('notFound'), `has ${both}, which is in found.status too`)]),
    ...(found.adopt === 'answer' || readPointer(found.adopt) !== null
      ? []
      : [mistake(at('found', 'adopt'), 'is no JSON pointer; write answer, or a pointer such as /data/0')]),
    ...(probe.found.replayStatus === 205 || probe.found.replayStatus === 304
      ? [mistake(
          at('found', 'replayStatus'),
        `cannot be ${probe.found.replayStatus}: a retry has no form to reset, and no earlier copy of the answer`
        )]
      : []),
    ...(probe.notFoundMark !== undefined && readMark(probe.notFoundMark) === null
      ? [mistake(at('notFoundMark'), 'is no JSON pointer; write header:Name, or json: and a pointer such as json:/error/code')]
      : []),
    ...(probe.method === 'HEAD' && probe.notFoundMark?.startsWith('json:') === true
      ? [mistake(at('notFoundMark'), 'points into a body, and an answer to HEAD has none')]
      : []),
    ...(probe.method === 'HEAD' && found.adopt !== 'answer'
      ? [mistake(at('found', 'adopt'), 'points into a body, and an answer to HEAD has none')]
      : []),
    ...(upstreamTimeoutMs === null ? [] : checkTimes(probe, at, upstreamTimeoutMs, ms(lease), ms(unknownRetention)))
  ]
}

function checkTimes (
  probe: ProbeFile,
  at: (...rest: readonly string[]) => Path,
  upstreamTimeoutMs: number,
  leaseMs: number,
  unknownRetentionMs: number
): Mistake[] {
  const confirmMs = confirmAfterMs(probe, upstreamTimeoutMs)
  const decidedMs = upstreamTimeoutMs + leaseMs + confirmMs
  const rules: Array<[broken: boolean, name: string, message: string]> = [
    [
      confirmMs < upstreamTimeoutMs,
      'confirmAfter',
      'must be at least the upstream\'s timeout: until then it may still work on the first request'
    ],
    // Until then a "not found" does not free the key.
    [
      ms(probe.giveUpAfter) < decidedMs,
      'giveUpAfter',
      'must be at least the upstream\'s timeout, a lease and confirmAfter: a key is not freed sooner'
    ],
    [unknownRetentionMs < decidedMs, 'confirmAfter', 'is too long for unknownRetention: the record would be deleted before it is decided']
  ]
  return rules.flatMap(([broken, name, message]) => broken ? [mistake(at(name), message)] : [])
}

function asksForOne ({ path, headers }: ProbeFile): boolean {
  return [path, ...Object.values(headers)].some((template) => /\{[^{}]+\}/.test(template))
}

function wrongTemplate (text: string, path: Path): Mistake[] {
  const read = readTemplate(text)
  return 'wrong' in read ? [mistake(path, read.wrong)] : []
}

function wrongHeader (name: string, value: string, path: Path): Mistake[] {
  const plain = plainName(name)
  if (NO_FIELD.test(plain) || isGatewayField(plain)) {
    return [mistake(path, 'is set by the gateway or by HTTP itself and cannot be overridden', 'key')]
  }
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) return [mistake(path, 'has characters that no header may have')]
  if (CREDENTIAL_FIELD.test(plain) && /\{[^{}]+\}/.test(value)) {
    return [mistake(path, 'has a placeholder: rendered values are stored in the database, and credentials must not be')]
  }
  return wrongTemplate(value, path)
}

/** null: the pointer is wrong. */
function readMark (written: string): AnswerMark | null {
  if (written.startsWith('header:')) return { kind: 'header', name: written.slice('header:'.length).toLowerCase() }
  const pointer = readPointer(written.slice('json:'.length))
  return pointer === null ? null : { kind: 'json', pointer }
}

function marksOf ({ notFoundMark }: ProbeFile, { header }: HopsPolicy): AnswerMark[] {
  const mark = notFoundMark === undefined ? null : readMark(notFoundMark)
  return [...(header === null ? [] : [{ kind: 'header', name: header } as const]), ...(mark === null ? [] : [mark])]
}

/** `probe` has passed checkProbe. */
export function probeOf (
  probe: ProbeFile,
  { timeoutMs: upstreamTimeoutMs, hops }: Pick<UpstreamPolicy, 'timeoutMs' | 'hops'>
): ProbePolicy {
  return {
    method: probe.method,
    path: sound(readTemplate(probe.path)),
    headers: Object.entries(probe.headers).map(([name, value]) => [name, sound(readTemplate(value))]),
    timeoutMs: ms(probe.timeout),
    found: {
      statuses: probe.found.status,
      adopt: probe.found.adopt === 'answer' ? null : readPointer(probe.found.adopt),
      replayStatus: probe.found.replayStatus ?? null
    },
    notFound: probe.notFound,
    notFoundMarks: marksOf(probe, hops),
    confirmAfterMs: confirmAfterMs(probe, upstreamTimeoutMs),
    intervalMs: ms(probe.interval),
    giveUpAfterMs: ms(probe.giveUpAfter)
  }
}

function confirmAfterMs ({ confirmAfter }: ProbeFile, upstreamTimeoutMs: number): number {
  return confirmAfter === undefined ? upstreamTimeoutMs : ms(confirmAfter)
}

function ms (text: string): number {
  return parseDuration(text) ?? 0
}

function sound<T> (read: Read<T>): T {
  if ('wrong' in read) throw new Error(`${read.wrong}: the check let it pass`)
  return read.value
}
