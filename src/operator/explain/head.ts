/** From a request's head, or from a key and a caller, to its route and key: as http/head.ts decides, without its counters. Pure. */
import { preflightMethod } from '../../core/headers/cors.ts'
import { decidingRefusal, rulesOf, takenAwayRefusal } from '../../core/forward/deciding.ts'
import { spelledName, USUAL_KEY_HEADER } from '../../core/headers/fields.ts'
import { requestRefusal } from '../../core/headers/headers.ts'
import { hostRefusal } from '../../core/headers/host.ts'
import { headerValue, withoutFields } from '../../core/headers/lines.ts'
import { isSafe, overridingMethods } from '../../core/headers/method-override.ts'
import { MESSAGES_PATH } from '../../core/inbox/acceptance.ts'
import { ISSUED_KEYS_PATH } from '../../core/key/issued-keys.ts'
import { unquotedKey } from '../../core/key/key.ts'
import { mistypedKey } from '../../core/key/mistyped-key.ts'
import { headersRead, keySourceText, noKeyDetail } from '../../core/key/sources.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import type { GuardedRoute, Route } from '../../core/policy/policy.ts'
import { PROBLEMS, PROBLEMS_PATH } from '../../core/protocol/problems.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import { headKeyOf } from '../../gateway/key/head-key.ts'
import type { HeadKey } from '../../gateway/key/head-key.ts'
import type { IncomingRequest } from '../../gateway/key/incoming-request.ts'
import type { Match, Matcher } from '../../routing/match.ts'
import { parseTarget } from '../../routing/target.ts'
import { notKnown } from './answer.ts'
import type { RetryAnswer } from './answer.ts'
import type { AskedKey, AskedRequest } from './asked.ts'

export interface HeadContext {
  /** Those of the configuration, in its order. */
  readonly routes: readonly Route[]
  /** Of the same routes. */
  readonly matcher: Pick<Matcher, 'match' | 'preflight'>
  /** Whether forwarded fields of a peer with this address are believed (`trustProxies`). */
  readonly trusts: (peerAddress: string) => boolean
  readonly clock: { readonly wallMs: () => number }
}

export interface ExplainedRoute {
  /** null: no route of the configuration takes it. */
  readonly name: string | null
  readonly why: string
  readonly guarded: boolean
}

/** A request whose route and key are known, as the gateway gets it. */
export interface Taken extends Pick<IncomingRequest, 'route' | 'key' | 'method' | 'target' | 'rawHeaders' | 'clientCertificate'> {
  readonly forwarded: { readonly host: string | null, readonly trusted: boolean }
  readonly body: Buffer
  /** null: the whole request is known. Otherwise only a key from this source is, and a caller. */
  readonly onlyKeyFrom: KeySource | null
}

export type HeadResult =
  | { readonly kind: 'guarded', readonly route: ExplainedRoute, readonly taken: Taken }
  | { readonly kind: 'answered', readonly route: ExplainedRoute, readonly answer: RetryAnswer }

// ---------------------------------------------------------------- a whole request

export function takeRequest (context: HeadContext, asked: AskedRequest): HeadResult {
  const { method, target, body } = asked
  const rawHeaders = withHost(asked.headers, asked.host)
  const malformed = hostRefusal(rawHeaders, HTTP_VERSION, target) ?? requestRefusal(rawHeaders, USUAL_KEY_HEADER)
  if (malformed !== null) return unrouted('The head has a mistake, so that no route is looked for.', 'bad-request', malformed)
  if (isOwn(context, method, target)) {
    const why = 'The gateway itself answers this path.'
    return answered({ name: null, why, guarded: false }, notKnown([`${why} No upstream gets the request.`]))
  }
  const overriding = overridingMethods(rawHeaders, target)
  const safe = isSafe(method, overriding)
  const announced = safe ? preflightMethod(method, rawHeaders) : null
  const host = headerValue(rawHeaders, 'host')
  const matched = announced === null
    ? context.matcher.match(method, target, host, overriding)
    : context.matcher.preflight(announced, target, host)
  if (matched.kind !== 'route') return notMatched(matched)
  const { route } = matched
  const explained = { name: route.name, why: whyMatched(matched), guarded: true }
  if (announced !== null) return passed(explained, 'A CORS preflight is answered by the upstream.')
  if (!isGuarded(route)) return passed(explained, unguardedRoute(context, route))
  if (safe) return passed(explained, `${method} is a safe method, which is never guarded.`)
  const key = headKeyOf({ route, target, rawHeaders }, context.clock.wallMs)
  if (key.kind === 'unguarded') return passed(explained, unguardedReason(route, rawHeaders, key))
  const trusted = asked.peerAddress !== undefined && context.trusts(asked.peerAddress)
  const { clientCertificate = null } = asked
  return guarded(explained, {
    route, key, method, target, rawHeaders, body, clientCertificate, forwarded: { host, trusted }, onlyKeyFrom: null
  })
}

/** Every request is taken for one of this version. Others differ in nothing that is explained. */
const HTTP_VERSION = '1.1'

function withHost (headers: RawHeaders, host: string | null): RawHeaders {
  return host === null || headerValue(headers, 'host') !== null ? headers : [...headers, 'Host', host]
}

function isOwn ({ routes }: HeadContext, method: string, target: string): boolean {
  const parsed = parseTarget(method, target)
  if (parsed.kind !== 'path') return false
  const under = (path: string): boolean => parsed.path.startsWith(`${path}/`)
  const policies = routes.flatMap(({ idempotency }) => idempotency ?? [])
  return parsed.path === PROBLEMS_PATH ||
    under(PROBLEMS_PATH) ||
    (under(MESSAGES_PATH) && policies.some(({ inbox }) => inbox !== null)) ||
    (parsed.path === ISSUED_KEYS_PATH && policies.some(({ issued }) => issued !== null))
}

function notMatched (matched: Exclude<Match, { kind: 'route' }>): HeadResult {
  if (matched.kind === 'refused') return unrouted('The target cannot be compared with the routes.', 'bad-request', matched.detail)
  const { taken } = matched
  return unrouted(
    taken === undefined
      ? 'No route of the configuration takes this method, host and path.'
      : `No route takes this method here. A guarded one takes ${taken.join(', ')}.`,
    'no-route',
    PROBLEMS['no-route'].detail
  )
}

function unrouted (why: string, code: 'bad-request' | 'no-route', detail: string): HeadResult {
  const { status: { api: status } } = PROBLEMS[code]
  return answered(
    { name: null, why, guarded: false },
    { does: 'is-refused', status, code, sentences: [detail, `It gets ${status} \`${code}\`. Nothing is sent.`] }
  )
}

function whyMatched ({ route: { match }, alike }: Extract<Match, { kind: 'route' }>): string {
  const { methods, host, path, exact } = match
  const by = [
    methods.length === 0 ? 'any method' : `the methods ${methods.join(', ')}`,
    ...host === null ? [] : [`the host ${host}`],
    `the ${exact ? 'exact ' : ''}path ${path}`
  ].join(', ')
  return alike
    ? `It is the first guarded route that some servers would take the request for: ${by}.`
    : `It is the first route that takes the request: ${by}.`
}

/** A guarded route that leaves its other methods alone has an unguarded one of its name (routing/match.ts). */
function unguardedRoute ({ routes }: HeadContext, { name }: Route): string {
  return routes.some((other) => other.name === name && isGuarded(other))
    ? 'The route guards other methods only.'
    : 'The route has no idempotency.'
}

function unguardedReason (route: GuardedRoute, rawHeaders: RawHeaders, { found }: Extract<HeadKey, { kind: 'unguarded' }>): string {
  if (found.kind === 'passes') return `The route reads the keys of ${found.preset}, which does not guard such a request (${found.why}).`
  const { sources, header } = route.idempotency.key
  const read = sources.flatMap(headersRead)
  const sent = read.includes(header) ? mistypedKey(rawHeaders, read) : null
  const hint = sent === null ? '' : ` Its header ${sent} looks like a mistyped ${spelledName(header)}.`
  return `${noKeyDetail(sources, found)}${hint} The route does not require a key.`
}

function passed (route: ExplainedRoute, why: string): HeadResult {
  return answered({ ...route, guarded: false }, passesAnswer(why))
}

export function passesAnswer (why: string): RetryAnswer {
  const sentences = [why, 'It is sent to the upstream without a record, as often as it comes.']
  return { does: 'passes', status: null, code: null, sentences }
}

// ---------------------------------------------------------------- a key and a caller

export function takeKey (context: HeadContext, asked: AskedKey): HeadResult {
  const route = context.routes.find(({ name }) => name === asked.route)
  if (route === undefined || !isGuarded(route)) {
    const why = `The configuration has no guarded route ${asked.route.slice(0, NAME_SHOWN_MAX)}.`
    return answered({ name: null, why, guarded: false }, notKnown([why]))
  }
  const explained = { name: route.name, why: 'It is the route that was asked about.', guarded: true }
  const found = headerSource(route)
  if (found === null) {
    return answered(explained, notKnown([
      `The keys of this route come from ${route.idempotency.key.sources.map(keySourceText).join(', ')}, and not from a header alone.`,
      'Ask with a whole request.'
    ]))
  }
  const { source, name, valueOf } = found
  const host = asked.host ?? headerValue(asked.callerHeaders, 'host')
  const rawHeaders = [
    ...withoutFields(asked.callerHeaders, [name, 'host']),
    ...host === null ? [] : ['Host', host],
    spelledName(name), valueOf(asked.key)
  ]
  const target = '/'
  const key = headKeyOf({ route, target, rawHeaders }, context.clock.wallMs)
  if (key.kind === 'unguarded') return passed(explained, unguardedReason(route, rawHeaders, key))
  const trusted = asked.peerAddress !== undefined && context.trusts(asked.peerAddress)
  const { clientCertificate = null } = asked
  return guarded(explained, {
    route,
    key,
    method: route.match.methods[0] ?? 'POST',
    target,
    rawHeaders,
    body: Buffer.alloc(0),
    clientCertificate,
    forwarded: { host, trusted },
    onlyKeyFrom: source
  })
}

/** A longer name is of no route. */
const NAME_SHOWN_MAX = 64

interface HeaderSource {
  readonly source: KeySource
  readonly name: string
  /** The value of the header for this key. */
  readonly valueOf: (key: string) => string
}

/** The first source that is one header. */
function headerSource ({ idempotency: { key } }: GuardedRoute): HeaderSource | null {
  for (const source of key.sources) {
    const [first] = source.kind === 'preset' ? source.preset.keys : [source]
    if (first?.kind === 'header') return { source, name: first.name, valueOf: quoted }
    const [name, another] = first?.kind === 'custom' && first.pointers.length === 0 ? first.headers : []
    if (name !== undefined && another === undefined) return { source, name, valueOf: asItIs }
  }
  return null
}

/** Node hands over a byte in each character. */
function asItIs (key: string): string {
  return Buffer.from(key, 'utf8').toString('latin1')
}

/** The spelling that both syntaxes take (core/key/key.ts). Whoever copies a header's value may have it already. */
function quoted (key: string): string {
  if (unquotedKey(key) !== null) return key
  return `"${key.replace(/["\\]/g, '\\$&')}"`
}

// ---------------------------------------------------------------- both

function guarded (route: ExplainedRoute, taken: Taken): HeadResult {
  const { rawHeaders, route: { idempotency }, forwarded } = taken
  const detail = takenAwayRefusal(rawHeaders, idempotency.key) ?? decidingRefusal(rawHeaders, rulesOf(idempotency), forwarded.trusted)
  if (detail === null) return { kind: 'guarded', route, taken }
  const { status: { api: status } } = PROBLEMS['bad-request']
  return answered(
    route,
    { does: 'is-refused', status, code: 'bad-request', sentences: [detail, `It gets ${status} \`bad-request\`. Nothing is sent.`] }
  )
}

function answered (route: ExplainedRoute, answer: RetryAnswer): HeadResult {
  return { kind: 'answered', route, answer }
}

function isGuarded (route: Route): route is GuardedRoute {
  return route.idempotency !== null
}
