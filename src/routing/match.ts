/**
 * Finds the route of a request: the first match in the order of the file. Matching is wide, because guarding depends on
 * it. A path that any server behind could read as a guarded one is guarded. So is a method that a server could read as
 * a guarded one. The request is forwarded unchanged. No regular expression is built from a pattern.
 */
import { rulesOfAll } from '../core/forward/deciding.ts'
import type { FieldRules } from '../core/forward/deciding.ts'
import { plainHost } from '../core/headers/host.ts'
import type { Route, RouteMatch } from '../core/policy/policy.ts'
import { SAFE_METHODS } from '../core/headers/method-override.ts'
import { hostInPath, hostName, parseTarget, readingsOf, segmentsOf } from './target.ts'

export type Match =
  /**
   * `alike`: the request is guarded only in the reading of some servers, or for a host that it does not name. As it is
   * written, it matches another route or none.
   */
  | { readonly kind: 'route', readonly route: Route, readonly alike: boolean }
  /** No route: 404. `taken`: the methods that a guarded route on that path names, if there is one. */
  | { readonly kind: 'none', readonly taken?: readonly string[] }
  /** A target that cannot be compared safely: 400, with one sentence for the client. */
  | { readonly kind: 'refused', readonly detail: string }

export interface Matcher {
  /**
   * `target` is raw, with its query. `host` is the Host header or null. `overriding` are methods of override fields
   * (core/headers/method-override.ts). Linear in the target for a given set of routes.
   */
  readonly match: (method: string, target: string, host: string | null, overriding?: readonly string[]) => Match
  /**
   * A CORS preflight asks whether `announced` may be sent. It gets the route of that request, so that its upstream
   * answers. A route that names OPTIONS goes first, because the operator wrote it.
   */
  readonly preflight: (announced: string, target: string, host: string | null) => Match
  /** The field rules of a request that passes through by this route. They come from all routes to its upstream, guarded or not. */
  readonly rulesFor: (route: Route) => FieldRules
}

/** Compiles once. The order of `routes` is the order of matching. Implied routes for the rest come after all written ones. */
export function compileRoutes (routes: readonly Route[]): Matcher {
  const compiled = [...routes, ...routes.filter(({ restPasses }) => restPasses === true).map(unguardedRest)].map((route, place) =>
    compile(route, place, place >= routes.length))
  const named = new Set(routes.flatMap((route) => route.match.methods))
  const cache = new Map<string, Match>()
  const rules = new Map(
    Array.from(Map.groupBy(routes, ({ upstream }) => upstream.name), ([name, those]) => [
      name,
      rulesOfAll(those.flatMap(({ idempotency }) => idempotency ?? []))
    ])
  )
  const plain = (method: string): string => named.has(method) || SAFE_METHODS.has(method) ? method : OTHER_METHOD
  const matcher: Matcher = {
    rulesFor: ({ upstream }) => rules.get(upstream.name) ?? rulesOfAll([]),
    preflight: (announced, target, host) => {
      const own = matcher.match('OPTIONS', target, host)
      if (target === '*' || own.kind === 'refused' || (own.kind === 'route' && own.route.match.methods.includes('OPTIONS'))) return own
      const found = matcher.match(plain(announced), target, host)
      return found.kind === 'none' ? own : found
    },
    match: (method, target, host, overriding = []) => {
      if (overriding.length > 0) return match(compiled, [method, ...new Set(overriding.map(plain))], target, host)
      if (target.length > CACHED_CHARS_MAX || (host !== null && host.length > CACHED_CHARS_MAX)) {
        return match(compiled, [method], target, host)
      }
      // None of the three contains a line end (RFC 9112 3, RFC 9110 5.5).
      const input = host === null ? `${method}\n${target}` : `${method}\n${target}\n${host}`
      const before = cache.get(input)
      if (before !== undefined) return before
      const matched = match(compiled, [method], target, host)
      if (cache.size >= CACHE_MAX) cache.clear()
      cache.set(input, matched)
      return matched
    }
  }
  return matcher
}

/** The implied route for what the route does not guard. */
function unguardedRest (route: Route): Route {
  return { ...route, match: { ...route.match, methods: [] }, idempotency: null }
}

/** Stands for all methods that no route names. They match the same routes, so the cache needs one entry. */
const OTHER_METHOD = ''

/** The most cached matches, a tenth of a megabyte. A client that always sends new targets gains nothing. */
const CACHE_MAX = 512
const CACHED_CHARS_MAX = 100

/** `methods`: the method of the request first. */
function match (compiled: readonly Compiled[], methods: readonly string[], target: string, host: string | null): Match {
  const [method = ''] = methods
  const parsed = parseTarget(method, target)
  if (parsed.kind === 'refused') return parsed
  if (parsed.kind === 'asterisk') return { kind: 'none' }
  // RFC 9112 3.2.2 prefers the target to Host, and hops differ. So both must be equal, with the port.
  if (parsed.host !== null && host !== null && plainHost(parsed.host) !== plainHost(host)) {
    return { kind: 'refused', detail: 'The request names two hosts.' }
  }
  const readings = readingsOf(parsed.path)
  if (readings.kind === 'refused') return readings
  const input = hostName(host ?? parsed.host ?? '')
  const found = mostGuarded(
    methods.map((each) => firstGuarded(compiled, { method: each, host: input, hostInPath: hostInPath(parsed.path) }, readings.paths))
  )
  return found === null ? noRoute(compiled, input, parsed.path) : { kind: 'route', route: found.one.route, alike: found.alike }
}

function noRoute (compiled: readonly Compiled[], host: string, path: string): Match {
  const segments = segmentsFor(path)
  const there = compiled.filter((one) =>
    isGuarded(one) && one.route.restPasses !== true && (one.host === null || one.host === host) && fits(one.pattern, segments(one.pattern)))
  return there.length === 0 ? { kind: 'none' } : { kind: 'none', taken: [...new Set(there.flatMap(({ methods }) => [...methods]))] }
}

/**
 * The method of the request decides, with one exception. An overriding method decides if it leads to an earlier guarded
 * route, or if the method itself leads to none that guards. An override never removes a guard, and never reaches an
 * unguarded route that the method does not reach.
 */
function mostGuarded ([own = null, ...others]: ReadonlyArray<Found | null>): Found | null {
  return others.reduce((found, other) => {
    if (other === null || !isGuarded(other.one)) return found
    return found === null || !isGuarded(found.one) || other.one.place < found.one.place ? other : found
  }, own)
}

interface Found { readonly one: Compiled, readonly alike: boolean }

function isGuarded ({ route }: Compiled): boolean {
  return route.idempotency !== null
}

interface MatchInput {
  readonly method: string
  /** '': the request names no host. */
  readonly host: string
  /** The host in a path that some servers read as a reference. '': none. */
  readonly hostInPath: string
}

/**
 * The raw path decides, unless it leads to no guard. Then the first other reading with a guarded route decides. So an
 * exception from a guarded path holds only if every server reads the request as the exception, or for the one spelling
 * of an exact literal. A request without a host may be for any, because servers have a default host. Safe methods are
 * never guarded.
 */
function firstGuarded (compiled: readonly Compiled[], input: MatchInput, paths: readonly string[]): Found | null {
  const [raw = '', ...others] = paths
  const plain = firstOf(compiled, input, raw, false)
  const own = plain === null ? null : { one: plain, alike: false }
  if (SAFE_METHODS.has(input.method) || (plain !== null && (isGuarded(plain) || (!plain.implied && isOneSpelling(plain.pattern))))) {
    return own
  }
  for (const host of input.host === ''
    ? hostsOf(compiled)
    : new Set([input.host, ...(input.hostInPath === '' ? [] : [input.hostInPath])])) {
    for (const path of host === input.host ? others : paths) {
      const other = firstOf(compiled, { ...input, host }, path, path !== raw)
      if (other !== null && isGuarded(other)) return { one: other, alike: true }
    }
  }
  return own
}

/** No host first, then each host that a route names. */
function hostsOf (compiled: readonly Compiled[]): ReadonlySet<string> {
  return new Set(['', ...compiled.flatMap(({ host }) => host ?? [])])
}

/** `exact` routes are compared with the raw path only, not with other readings. */
function firstOf (compiled: readonly Compiled[], input: MatchInput, path: string, reading: boolean): Compiled | null {
  const segments = segmentsFor(path)
  for (const one of compiled) {
    if (accepts(one, input) && !(reading && one.pattern.exact) && fits(one.pattern, segments(one.pattern))) return one
  }
  return null
}

/** The segments to compare with a pattern. They are computed at most once per path, because paths may be long and routes many. */
function segmentsFor (path: string): (pattern: Pattern) => readonly string[] {
  const raw = lazily(() => path.split('/'))
  const compared = lazily(() => segmentsOf(path))
  return ({ exact }) => exact ? raw() : compared()
}

function lazily (make: () => readonly string[]): () => readonly string[] {
  let made: readonly string[] | null = null
  return () => {
    made ??= make()
    return made
  }
}

/** The operator wrote this exact spelling. An exact pattern with a placeholder does not say what fills it. */
function isOneSpelling (pattern: Pattern): boolean {
  return pattern.exact && !pattern.open && !pattern.segments.includes(null)
}

interface Compiled {
  readonly route: Route
  /** The position in the file. */
  readonly place: number
  /** Not written by the operator: it takes what a guarded route leaves of its path. */
  readonly implied: boolean
  readonly methods: ReadonlySet<string>
  readonly host: string | null
  readonly pattern: Pattern
}

interface Pattern {
  /** null: any one segment that is not empty. The others are in the compared form, or as written if `exact`. */
  readonly segments: ReadonlyArray<string | null>
  /** Ends in `/*`. */
  readonly open: boolean
  readonly exact: boolean
}

function compile (route: Route, place: number, implied: boolean): Compiled {
  const { match } = route
  return {
    route,
    place,
    implied,
    methods: new Set(match.methods),
    host: match.host === null ? null : hostName(match.host),
    pattern: patternOf(match, match.exact)
  }
}

function patternOf (match: RouteMatch, exact: boolean): Pattern {
  const open = match.path.endsWith('/*')
  // Node hands over targets as latin1 characters. The configuration is UTF-8.
  const path = Buffer.from(open ? match.path.slice(0, -2) : match.path, 'utf8').toString('latin1')
  const segments = path.split('/').flatMap((part) => part.startsWith(':') ? [null] : exact ? [part] : segmentsOf(part))
  return { segments, open, exact }
}

function accepts (one: Compiled, input: MatchInput): boolean {
  if (one.methods.size > 0 && !one.methods.has(input.method)) return false
  // A server that answers TRACE shows the client what the gateway has added (upstreams.*.requestHeaders). So a route
  // must ask for it.
  if (one.implied && input.method === 'TRACE') return false
  return one.host === null || one.host === input.host
}

/**
 * In the wide comparison, `/a/*` is everything at and under `/a`, and a slash at the end means nothing. In the exact
 * one it is everything that begins with `/a/`.
 */
function fits (pattern: Pattern, segments: readonly string[]): boolean {
  const { length } = pattern.segments
  if (pattern.open ? segments.length < length + (pattern.exact ? 1 : 0) : segments.length !== length) return false
  return pattern.segments.every((wanted, index) => wanted === null ? segments[index] !== '' : wanted === segments[index])
}

/** true: `earlier` matches every request that `later` matches, so `later` never gets one. For the check of a configuration. */
export function hides (earlier: RouteMatch, later: RouteMatch): boolean {
  if (earlier.host !== null && (later.host === null || hostName(earlier.host) !== hostName(later.host))) return false
  if (earlier.methods.length > 0 && (later.methods.length === 0 || !later.methods.every((method) => earlier.methods.includes(method)))) {
    return false
  }
  if (earlier.exact && !later.exact) return earlier.path === '/*'
  return covers(patternOf(earlier, earlier.exact), patternOf(later, earlier.exact))
}

/** true: some request is matched by both. */
export function overlap (one: RouteMatch, other: RouteMatch): boolean {
  if (one.host !== null && other.host !== null && hostName(one.host) !== hostName(other.host)) return false
  if (one.methods.length > 0 && other.methods.length > 0 && !one.methods.some((method) => other.methods.includes(method))) return false
  const exact = one.exact && other.exact
  const [{ segments, open }, wanted] = [patternOf(one, exact), patternOf(other, exact)]
  if ((!open && wanted.segments.length > segments.length) || (!wanted.open && segments.length > wanted.segments.length)) return false
  return segments.every((segment, index) => {
    const facing = wanted.segments[index]
    return facing === undefined || segment === facing || (segment === null ? facing !== '' : facing === null && segment !== '')
  })
}

/** Both patterns in the same form. */
function covers (earlier: Pattern, later: Pattern): boolean {
  const extra = later.segments.length - earlier.segments.length
  if (extra < 0) return false
  const least = earlier.exact && !later.open ? 1 : 0
  if (earlier.open ? extra < least : extra !== 0 || later.open) return false
  return earlier.segments.every((wanted, index) => {
    const other = later.segments[index]
    return wanted === null ? other !== '' : wanted === other
  })
}
