/**
 * A request's header fields on their way to the upstream, guarded or not: which are removed on every path, and which the gateway adds. A
 * field that claims to be the gateway's is never forwarded. The values of other fields never change.
 */
import { CLIENT_CERTIFICATE } from '../headers/carrier-kinds.ts'
import { carrierOf } from '../headers/carriers.ts'
import { isLookAlike, rulesOfKey } from './deciding.ts'
import type { FieldRules } from './deciding.ts'
import {
  CARRIERS_DECIDE, connectionListed, fieldName, HOP_BY_HOP, isForwarded, isGatewayField, plainName, USUAL_KEY_HEADER
} from '../headers/fields.ts'
import type { VerifyPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'
import { verifiedField } from '../headers/signature.ts'

/** Where the request came from, as the connection shows it. */
export interface Forwarded {
  /** The peer's address. */
  readonly for: string
  readonly proto: string
  /** The Host that the client requested. null: none. */
  readonly host: string | null
  /** Whether the peer is one of `trustProxies`. If it is, its forwarded fields are kept and extended. Otherwise they are removed. */
  readonly trusted: boolean
  /**
   * The verified client certificate, as X-Forwarded-Client-Cert shows it to the upstream. null: the listener asks for one, and this
   * connection shows none. Absent: the listener asks for none.
   */
  readonly certificate?: string | null
}

export interface PassthroughAdditions {
  readonly requestId: string
  readonly forwarded: Forwarded
  readonly host: 'upstream' | 'preserve'
  /** Which fields decide about this request. Absent: those that always decide. */
  readonly rules?: FieldRules
  /** Static fields of the upstream. They replace the client's fields of the same name. */
  readonly extra: ReadonlyArray<readonly [name: string, value: string]>
}

export interface GuardedAdditions extends PassthroughAdditions {
  /** The record's id in base64url. null: there is no record. `attempt` null: attempts are not counted. */
  readonly record: { readonly id: string, readonly attempt: number | null } | null
  /** Mode drop: the event went through before. */
  readonly duplicate?: boolean
  /** The scheme under which the signature was verified. */
  readonly verified?: VerifyPolicy | null
  /** The trace context that the upstream gets instead of the client's. null: the client's. */
  readonly trace?: RawHeaders | null
  /** Lower case. */
  readonly keyHeader: string
  readonly forwardKey: boolean
  /** Not written. undici frames the body by its Buffer, and sends `Content-Length: 0` if a method expects content. */
  readonly bodyBytes?: number
}

/** A streamed request, framed as it came. */
export interface StreamedAdditions extends PassthroughAdditions {
  /** The client's own Content-Length. null: the body has none, or there is no body. */
  readonly contentLength: string | null
}

const OWN_HOP = '1.1 onceway'
const NOT_FORWARDED: ReadonlySet<string> = new Set(['expect', 'content-length'])
const NOTHING: ReadonlySet<string> = new Set()
const ACCEPT_ENCODING: ReadonlySet<string> = new Set(['accept-encoding'])
/** W3C Trace Context 3.2 and 3.3. */
export const TRACE_CONTEXT = ['traceparent', 'tracestate'] as const
const TRACED: ReadonlySet<string> = new Set([...ACCEPT_ENCODING, ...TRACE_CONTEXT])

/** The fields of a guarded request as a flat list for undici: the client's in order, then the gateway's. */
export function guardedRequestHeaders (raw: RawHeaders, add: GuardedAdditions): string[] {
  const { keyHeader, forwardKey, trace = null, rules = rulesOfKey(keyHeader) } = add
  const trail = new Trail(add, rules)
  const dropped = trace === null ? ACCEPT_ENCODING : TRACED
  const sent = copied(raw, add, { trail, rules, without: forwardKey ? dropped : new Set([...dropped, keyHeader]) })
  if (trace !== null) sent.push(...trace)
  if (add.record !== null) sent.push('Onceway-Key', add.record.id)
  if (add.record?.attempt != null) sent.push('Idempotency-Attempt', String(add.record.attempt))
  if (add.duplicate === true) sent.push('Onceway-Duplicate', 'true')
  if (add.verified != null) sent.push(...verifiedField(add.verified))
  // The answer is stored and replayed as it is. Later clients may not know the coding that the first one requested.
  if (!trail.replaces('accept-encoding')) sent.push('Accept-Encoding', 'identity')
  trail.addTo(sent)
  return sent
}

/** The same for a streamed request, which the client frames and whose answer is not stored. */
export function passthroughRequestHeaders (raw: RawHeaders, add: StreamedAdditions): string[] {
  const { rules = rulesOfKey(USUAL_KEY_HEADER) } = add
  const trail = new Trail(add, rules)
  const sent = copied(raw, add, { trail, rules, without: NOTHING })
  if (add.contentLength !== null) sent.push('Content-Length', add.contentLength)
  trail.addTo(sent)
  return sent
}

interface CopyOptions { readonly trail: Trail, readonly rules: FieldRules, readonly without: ReadonlySet<string> }

/** The client's own fields that go on, in order and as they were written. */
function copied (raw: RawHeaders, { host }: PassthroughAdditions, { trail, rules, without }: CopyOptions): string[] {
  const listed = connectionListed(raw)
  const sent: string[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? ''
    const value = raw[at + 1] ?? ''
    const { lower, plain } = fieldName(name)
    if (trail.takes(lower, plain, value) || isRemoved(lower, plain, rules) || without.has(lower)) continue
    if (listed.has(lower) && !rules.kept.has(lower)) continue
    if (lower === 'host' ? host === 'preserve' : !NOT_FORWARDED.has(lower)) sent.push(name, value)
  }
  return sent
}

/** Removed on every path: connection fields, fields that claim to be the gateway's, look-alikes. */
function isRemoved (lower: string, plain: string, rules: FieldRules): boolean {
  if (isGatewayField(plain) || isLookAlike(lower, plain, rules)) return true
  return HOP_BY_HOP.has(lower) && !rules.kept.has(lower)
}

/** Via, X-Forwarded-*, X-Request-Id and the static fields. It collects the fields that came, and adds the fields to send. */
class Trail {
  readonly #add: PassthroughAdditions
  readonly #rules: FieldRules
  readonly #static: StaticFields
  /** null: none of them came. */
  #came: Map<string, string> | null = null
  /** Whether the client's X-Request-Id decides on this route. Then it is copied. */
  #hasRequestId = false

  constructor (add: PassthroughAdditions, rules: FieldRules) {
    this.#add = add
    this.#rules = rules
    this.#static = add.extra.length === 0 ? NO_FIELDS : staticFields(add.extra)
  }

  replaces (lower: string): boolean {
    return this.#static.plain.has(lower)
  }

  /** true: the field is not copied. It is replaced, dropped, or added by {@link addTo}. */
  takes (lower: string, plain: string, value: string): boolean {
    // Beside a static field, a look-alike would let the client override the operator's value.
    if (this.#static.plain.size > 0 && this.#static.plain.has(plain)) return true
    if (plain === 'x-request-id') {
      if (lower !== plain) return !this.#rules.kept.has(lower)
      this.#hasRequestId = this.#rules.kept.has(lower)
      return !this.#hasRequestId
    }
    if (claimsOrigin(plain, this.#add.forwarded) && (!this.#add.forwarded.trusted || plain !== lower)) return true
    if (!APPENDED.has(lower)) return false
    this.#came ??= new Map()
    const before = this.#came.get(lower)
    this.#came.set(lower, before === undefined ? value : `${before}, ${value}`)
    return true
  }

  /** Adds the fields of the gateway. */
  addTo (sent: string[]): void {
    const { forwarded, requestId } = this.#add
    this.#push(sent, 'Via', 'via', this.#appended('via', OWN_HOP))
    this.#push(sent, 'X-Forwarded-For', 'x-forwarded-for', this.#appended('x-forwarded-for', forwarded.for))
    this.#push(sent, 'X-Forwarded-Proto', 'x-forwarded-proto', this.#came?.get('x-forwarded-proto') ?? forwarded.proto)
    this.#push(sent, 'X-Forwarded-Host', 'x-forwarded-host', this.#came?.get('x-forwarded-host') ?? forwarded.host)
    this.#push(sent, 'X-Forwarded-Client-Cert', 'x-forwarded-client-cert', forwarded.trusted ? null : forwarded.certificate ?? null)
    this.#push(sent, 'X-Request-Id', 'x-request-id', this.#hasRequestId ? null : requestId)
    for (const [name, value] of this.#static.fields) sent.push(name, value)
  }

  #push (sent: string[], name: string, lower: string, value: string | null): void {
    if (value !== null && !this.replaces(lower)) sent.push(name, value)
  }

  #appended (lower: string, value: string): string {
    const before = this.#came?.get(lower)
    return before === undefined || before.trim() === '' ? value : `${before}, ${value}`
  }
}

/**
 * Whether a field says what only a proxy in front can know. If this gateway reads client certificates itself, that includes every field
 * about one.
 */
export function claimsOrigin (plain: string, { certificate }: Pick<Forwarded, 'certificate'>): boolean {
  return isForwarded(plain) ||
    (certificate !== undefined && (carrierOf(plain)?.what === CLIENT_CERTIFICATE || ABOUT_CERTIFICATE.test(plain)))
}

/**
 * As the manuals of nginx, HAProxy, ingress-nginx, Google Cloud and AWS name them. Most are no carriers, because their value is the same
 * for many callers: `ssl-client-verify: SUCCESS`.
 */
const ABOUT_CERTIFICATE = /^(?:x-)?(?:ssl-client|client-cert|client-verify|clientcert|amzn-mtls-clientcert)(?:-|$)/

interface StaticFields { readonly plain: ReadonlySet<string>, readonly fields: ReadonlyArray<readonly [name: string, value: string]> }

const NO_FIELDS: StaticFields = { plain: new Set(), fields: [] }

function staticFields (extra: PassthroughAdditions['extra']): StaticFields {
  const sent = extra.filter(([name]) => !isGatewayField(plainName(name)) && !NEVER_STATIC.has(name.toLowerCase()))
  const fields = [...new Map(sent.map((field) => [field[0].toLowerCase(), field])).values()]
  return { plain: new Set(fields.map(([name]) => plainName(name))), fields }
}

const NEVER_STATIC: ReadonlySet<string> = new Set(['content-length', ...[...HOP_BY_HOP].filter((name) => !CARRIERS_DECIDE.has(name))])

const APPENDED: ReadonlySet<string> = new Set(['via', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'])
