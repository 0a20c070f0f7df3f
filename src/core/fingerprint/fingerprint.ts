/**
 * What exactly was requested, as one SHA-256 over length-framed parts. Equal fingerprints mean the same request. `alg` says how a
 * fingerprint was made, so a row written under another policy or by another build is compared under its own algorithm (P9).
 */
import { hash } from 'node:crypto'
import { comparedHead } from './compared-fields.ts'
import type { ComparedHead, ComparedLine } from './compared-fields.ts'
import { framedDigest } from '../record/digest.ts'
import { MODES, readAs, readBody } from './body.ts'
import type { Members, Mode, Reading } from './body.ts'
import { pointerTree, readPointer } from '../json/pointer.ts'
import { comparedHost } from '../headers/host.ts'
import { authorityOf, headerLines, headerValue, originForm } from '../headers/lines.ts'
import { comparedMediaType, mediaType } from '../headers/media-type.ts'
import type { FingerprintBody, FingerprintPart, FingerprintPolicy } from '../policy/policy.ts'
import { queryOf, unorderedPairs } from '../headers/query.ts'
import type { Fingerprint, RawHeaders } from '../record/record.ts'
import type { Rules } from '../record/rules.ts'

/** The request as it came. */
export interface ComparedRequest {
  readonly method: string
  /** Raw, with its query. */
  readonly target: string
  readonly rawHeaders: RawHeaders
  readonly body: Buffer
}

/** Makes the fingerprint of a request under a route's policy. */
export function fingerprintOf (request: ComparedRequest, policy: FingerprintPolicy, rules: Rules): Fingerprint {
  const plan = planOf(policy, rules)
  const head = headOf(request, plan.version)
  const reading = readBody({ contentType: head.contentType, body: request.body }, plan.body, plan.parameters?.members ?? null)
  if (plan.parameters === null) {
    const alg = encodeAlg(plan, reading.mode)
    return { alg, value: digest(request, alg, head, plan.bits, reading) }
  }
  const { alg, text, headers } = plan.parameters
  const framed: Framed = [DOMAIN, text]
  pushParts(framed, request, head, plan.bits, reading.mode)
  pushHeaders(framed, request.rawHeaders, headers)
  return { alg, value: framedDigest([...framed, reading.mode, ...reading.parts]) }
}

export type RecomputedFingerprint =
  | { readonly kind: 'value', readonly value: Buffer }
  /** A request with this fingerprint cannot be read like this one, so it is another request. */
  | { readonly kind: 'different' }
  /**
   * An algorithm of another build, or with parameters of another policy. It cannot be compared, so it is never executed and never replayed.
   */
  | { readonly kind: 'unknown' }

/** Makes the fingerprint again, with the algorithm of a row. */
export function recomputeFingerprint (request: ComparedRequest, alg: number): RecomputedFingerprint {
  const known = decodeAlg(alg)
  if (known === null) return { kind: 'unknown' }
  const head = headOf(request, known.version)
  const reading = readAs({ contentType: head.contentType, body: request.body }, known.mode)
  return reading === null ? { kind: 'different' } : { kind: 'value', value: digest(request, alg, head, known.bits, reading) }
}

/** `mine` is this request's fingerprint, `theirs` the one in the row or copy. */
export function sameRequest (request: ComparedRequest, mine: Fingerprint, theirs: Fingerprint): 'same' | 'different' | 'unknown' {
  if (mine.alg === theirs.alg) return mine.value.equals(theirs.value) ? 'same' : 'different'
  const again = recomputeFingerprint(request, theirs.alg)
  if (again.kind !== 'value') return again.kind
  return again.value.equals(theirs.value) ? 'same' : 'different'
}

/** The parts that are compared under these rules. Version 1 knows neither `host` nor `semantics`. */
export function comparedParts (policy: FingerprintPolicy, rules: Rules): readonly FingerprintPart[] {
  return versionOf(policy, rules) === 1 ? policy.of.filter((part) => part !== 'host' && part !== 'semantics') : policy.of
}

// ---------------------------------------------------------------- the algorithm's number

/** Version of the hashing. It is raised if the same words would get another hash. */
type Version = 1 | 2

/** One bit for each part but the body, and one for "the query's order does not count". */
const BITS = { method: 1, target: 2, mediaType: 4, host: 8, semantics: 16, unordered: 32 } as const
const BITS_OF: Readonly<Record<Version, number>> = { 1: 0b111, 2: 0b111111 }
/** The version is in the high byte, and the body's mode above the parts. The largest value is 32767, a smallint. */
const MODE_SHIFT: Readonly<Record<Version, number>> = { 1: 4, 2: 6 }
/** Two bits for the mode. All are used. */
const MODE_MASK = 0b11

interface Algorithm { readonly version: Version, readonly mode: Mode, readonly bits: number }

function encodeAlg ({ version, bits }: Omit<Algorithm, 'mode'>, mode: Mode): number {
  return version << 8 | MODES.indexOf(mode) << MODE_SHIFT[version] | bits
}

/** null: this build does not write this number for a policy without parameters. */
function decodeAlg (alg: number): Algorithm | null {
  const version = alg >> 8
  if (!Number.isInteger(alg) || (version !== 1 && version !== 2)) return null
  const mode = MODES[(alg >> MODE_SHIFT[version]) & MODE_MASK] ?? 'none'
  const bits = alg & BITS_OF[version]
  return encodeAlg({ version, bits }, mode) === alg ? { version, mode, bits } : null
}

// ---------------------------------------------------------------- the policy

/**
 * Members and fields, which no number can express. `alg` is from a range of its own, and only says that the policy is probably the same.
 * `text` is part of the hashed bytes, and proves it.
 */
interface Parameters { readonly alg: number, readonly text: string, readonly members: Members, readonly headers: readonly string[] }

/** A policy in the form in which it is applied. */
interface Plan { readonly version: Version, readonly bits: number, readonly body: FingerprintBody, readonly parameters: Parameters | null }

const PARAMETERS_FROM = 0x4000
const PARAMETERS_DIGEST_MASK = 0x3fff

const PLANS: Readonly<Record<Version, WeakMap<FingerprintPolicy, Plan>>> = { 1: new WeakMap(), 2: new WeakMap() }

/** Made once per policy. */
function planOf (policy: FingerprintPolicy, rules: Rules): Plan {
  const version = versionOf(policy, rules)
  const known = PLANS[version].get(policy)
  if (known !== undefined) return known
  const plan = makePlan(policy, version)
  PLANS[version].set(policy, plan)
  return plan
}

/** No gateway of an earlier release serves a policy with one of these: it would not accept the file. */
function versionOf ({ query, ignore, only, headers }: FingerprintPolicy, rules: Rules): Version {
  return query === undefined && ignore === undefined && only === undefined && headers === undefined ? rules : 2
}

function makePlan (policy: FingerprintPolicy, version: Version): Plan {
  const { of, query, ignore, only, headers } = policy
  const parts = of.reduce((bits, part) => part === 'body' ? bits : bits | BITS[part], 0)
  const bits = (query === 'unordered' && of.includes('target') ? parts | BITS.unordered : parts) & BITS_OF[version]
  const body = of.includes('body') ? policy.body : 'none'
  if (ignore === undefined && only === undefined && headers === undefined) return { version, bits, body, parameters: null }
  const [ignored, compared, fields] = [ignore, only, headers].map((names) => Array.from(new Set(names)).sort())
  const text = JSON.stringify({ version, bits, body, ignore: ignored, only: compared, headers: fields })
  const alg = PARAMETERS_FROM | (hash('sha256', text, 'buffer').readUInt16BE() & PARAMETERS_DIGEST_MASK)
  return { version, bits, body, parameters: { alg, text, members: membersOf(ignored, compared), headers: fields ?? [] } }
}

function membersOf (ignored: readonly string[] = [], compared: readonly string[] = []): Members {
  const pointers = (written: readonly string[]) => written.map((text) => readPointer(text) ?? [])
  if (compared.length > 0) return { kind: 'only', pointers: pointers(compared) }
  return ignored.length === 0 ? null : { kind: 'ignore', tree: pointerTree(pointers(ignored)) }
}

// ---------------------------------------------------------------- the parts

const DOMAIN = 'onceway:fingerprint'
type Framed = Array<string | Buffer>

/** What is read from the head. `fields` null: version 1, which reads only the media type. */
interface Head { readonly contentType: string | null, readonly fields: ComparedHead | null }

function headOf ({ rawHeaders }: ComparedRequest, version: Version): Head {
  if (version === 1) return { contentType: headerValue(rawHeaders, 'content-type'), fields: null }
  const fields = comparedHead(rawHeaders)
  return { contentType: fields.contentType, fields }
}

function digest (request: ComparedRequest, alg: number, head: Head, bits: number, reading: Reading): Buffer {
  const framed: Framed = [DOMAIN, String(alg)]
  pushParts(framed, request, head, bits, reading.mode)
  framed.push(...reading.parts)
  return framedDigest(framed)
}

function pushParts (framed: Framed, request: ComparedRequest, { contentType, fields }: Head, bits: number, mode: Mode): void {
  if (fields === null) pushPartsOfOne(framed, request, contentType, bits)
  else pushPartsOfTwo(framed, request, fields, bits, mode)
}

/** Version 1. It stays for as long as there are rows of it. */
function pushPartsOfOne (framed: Framed, { method, target }: ComparedRequest, contentType: string | null, bits: number): void {
  if ((bits & BITS.method) !== 0) framed.push(method)
  if ((bits & BITS.target) !== 0) framed.push(originForm(target))
  if ((bits & BITS.mediaType) !== 0) framed.push(contentType === null ? 'absent' : 'present', mediaType(contentType))
}

function pushPartsOfTwo (
  framed: Framed,
  { method, target }: ComparedRequest,
  { contentType, host, forwardedHosts, overriding, semantics }: ComparedHead,
  bits: number,
  mode: Mode
): void {
  if ((bits & BITS.method) !== 0) {
    framed.push(method)
    pushLines(framed, overriding)
  }
  if ((bits & BITS.target) !== 0) pushTarget(framed, originForm(target), (bits & BITS.unordered) !== 0)
  // If a body is compared byte for byte, another boundary gives the same bytes another meaning.
  if ((bits & BITS.mediaType) !== 0) {
    framed.push(contentType === null ? 'absent' : 'present', contentType === null ? '' : comparedMediaType(contentType, mode === 'bytes'))
  }
  if ((bits & BITS.host) !== 0) pushHost(framed, authorityOf(target) ?? host, forwardedHosts)
  if ((bits & BITS.semantics) !== 0) pushLines(framed, semantics)
}

/** The number of lines comes first, so that no line can be taken for what follows. */
function pushLines (framed: Framed, lines: readonly ComparedLine[]): void {
  framed.push(String(lines.length))
  for (const { name, value } of lines) framed.push(name, value)
}

function pushTarget (framed: Framed, target: string, unordered: boolean): void {
  const query = unordered ? queryOf(target) : null
  if (query === null) {
    framed.push(target)
    return
  }
  const pairs = unorderedPairs(query)
  framed.push(target.slice(0, target.length - query.length), String(pairs.length), ...pairs)
}

/** The target's own host wins over Host (RFC 9112 3.2.2). */
function pushHost (framed: Framed, host: string | null, forwarded: readonly string[]): void {
  const own = host === null ? '' : comparedHost(host)
  if (forwarded.length === 0) framed.push(own)
  else framed.push(Array.from(new Set([own, ...forwarded.map(comparedHost)].filter((name) => name !== ''))).join(','))
}

/** The number of lines of each field comes first: an absent field differs from an empty one. */
function pushHeaders (framed: Framed, rawHeaders: RawHeaders, names: readonly string[]): void {
  for (const name of names) {
    const lines = headerLines(rawHeaders, name)
    framed.push(String(lines.length), ...lines)
  }
}
