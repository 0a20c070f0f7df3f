/**
 * Which route a request meets: the first that matches, in the order of the file. Matching is wide where guarding is at
 * stake and forwarding is raw: a path that any server behind could take for a guarded one is guarded, and so is a request
 * with a method that it could take for a guarded one. Never builds a regular expression from a pattern.
 */
import { rulesOfAll } from '../core/forward/deciding.ts'
import type { FieldRules } from '../core/forward/deciding.ts'
import { plainHost } from '../core/headers/host.ts'
import type { Route, RouteMatch } from '../core/policy/policy.ts'
import { SAFE_METHODS } from '../core/headers/method-override.ts'
import { hostInPath, hostName, parseTarget, readingsOf, segmentsOf } from './target.ts'

export type Match =
  /**
   * `alike`: guarded for a reading of it that some servers have, or for a host that it does not name; as it stands it
   * meets another route, or none.
   */
  | { readonly kind: 'route', readonly route: Route, readonly alike: boolean }
  /** No route: 404. `taken`: the methods that a guarded route on that path names, where the path has one. */
  | { readonly kind: 'none', readonly taken?: readonly string[] }
  /** A target that cannot be compared safely: 400, with one sentence for the client. */
  | { readonly kind: 'refused', readonly detail: string }

export interface Matcher {
  /**
   * `target` raw, with its query; `host` the Host header or null; `overriding`: methods that stand beside its own
   * (core/headers/method-override.ts). Linear in the target for a given set of routes.
   */
  readonly match: (method: string, target: string, host: string | null, overriding?: readonly string[]) => Match
  /**
   * Of a CORS preflight, which asks whether `announced` may be sent: the route of that request, so that its upstream answers.
   * A route that names OPTIONS is the operator's own word, and goes before.
   */
  readonly preflight: (announced: string, target: string, host: string | null) => Match
  /** Of what passes through by this route: of all routes to its upstream, guarded by this one or not. */
  readonly rulesFor: (route: Route) => FieldRules
}

/** Compiles once; the order of `routes` is the order of matching. What passes by implication comes behind all that is written. */
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
      // A line end is in none of the three (RFC 9112 3, RFC 9110 5.5).
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

/** The same, for what the route does not guard. */
function unguardedRest (route: Route): Route {
  return { ...route, match: { ...route.match, methods: [] }, idempotency: null }
}

/** Stands for all methods that no route names: they meet the same routes, however many somebody sends. */
const OTHER_METHOD = ''

/**
 * Answers that are remembered, for a target asked again: a tenth of a megabyte. Whoever asks for ever new ones gains
 * and breaks nothing.
 */
const CACHE_MAX = 512
const CACHED_CHARS_MAX = 100

/** `methods`: its own first. */
function match (compiled: readonly Compiled[], methods: readonly string[], target: string, host: string | null): Match {
  const [method = ''] = methods
  const parsed = parseTarget(method, target)
  if (parsed.kind === 'refused') return parsed
  if (parsed.kind === 'asterisk') return { kind: 'none' }
  // RFC 9112 3.2.2 lets the target win over Host; hops differ, so both must say the same, the port included.
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
 * Its own method decides, unless an overriding one leads to a guarded route that stands before, or its own to none that
 * guards. An override never takes a guard away, and never opens what the method alone does not reach.
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
  /** '': it names none. */
  readonly host: string
  /** The same: of a path that some take for more than one. */
  readonly hostInPath: string
}

/**
 * The raw path decides, unless it decides against guarding: then the first other reading that meets a guarded route
 * does. So an exception from a guarded path holds only for requests that every server reads as the exception, or for the
 * one spelling that an exact literal names. What names no host may be for any: servers have one by default.
 * Safe methods are never guarded.
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

/** Each that a route names, after none. */
function hostsOf (compiled: readonly Compiled[]): ReadonlySet<string> {
  return new Set(['', ...compiled.flatMap(({ host }) => host ?? [])])
}

/** `exact` routes are compared with the raw path alone; in other readings they do not exist. */
function firstOf (compiled: readonly Compiled[], input: MatchInput, path: string, reading: boolean): Compiled | null {
  const segments = segmentsFor(path)
  for (const one of compiled) {
    if (accepts(one, input) && !(reading && one.pattern.exact) && fits(one.pattern, segments(one.pattern))) return one
  }
  return null
}

/** The path as a pattern is compared with it. It may be long, and routes many: it is taken apart once. */
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

/** The operator's word on this very spelling. An exact pattern with a hole in it says nothing about what fills the hole. */
function isOneSpelling (pattern: Pattern): boolean {
  return pattern.exact && !pattern.open && !pattern.segments.includes(null)
}

interface Compiled {
  readonly route: Route
  /** In the order of the file. */
  readonly place: number
  /** Nobody has written it: it takes what a guarded route leaves of its path. */
  readonly implied: boolean
  readonly methods: ReadonlySet<string>
  readonly host: string | null
  readonly pattern: Pattern
}

interface Pattern {
  /** null: any one segment that is not empty. In the compared form, or as written if `exact`. */
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
  // Node hands targets over as latin1 characters; the configuration is UTF-8.
  const path = Buffer.from(open ? match.path.slice(0, -2) : match.path, 'utf8').toString('latin1')
  const segments = path.split('/').flatMap((part) => part.startsWith(':') ? [null] : exact ? [part] : segmentsOf(part))
  return { segments, open, exact }
}

function accepts (one: Compiled, input: MatchInput): boolean {
  if (one.methods.size > 0 && !one.methods.has(input.method)) return false
  // A server that answers it shows its client what the gateway has added (upstreams.*.requestHeaders): somebody has to want that.
  if (one.implied && input.method === 'TRACE') return false
  return one.host === null || one.host === input.host
}

/**
 * Compared widely, `/a/*` is everything at and under `/a` (a slash at the end means nothing); exactly, everything that
 * begins with `/a/`.
 */
function fits (pattern: Pattern, segments: readonly string[]): boolean {
  const { length } = pattern.segments
  if (pattern.open ? segments.length < length + (pattern.exact ? 1 : 0) : segments.length !== length) return false
  return pattern.segments.every((wanted, index) => wanted === null ? segments[index] !== '' : wanted === segments[index])
}

/** Whether every request that `later` matches is matched by `earlier`: then `later` never gets one. For the check of a configuration. */
export function hides (earlier: RouteMatch, later: RouteMatch): boolean {
  if (earlier.host !== null && (later.host === null || hostName(earlier.host) !== hostName(later.host))) return false
  if (earlier.methods.length > 0 && (later.methods.length === 0 || !later.methods.every((method) => earlier.methods.includes(method)))) {
    return false
  }
  if (earlier.exact && !later.exact) return earlier.path === '/*'
  return covers(patternOf(earlier, earlier.exact), patternOf(later, earlier.exact))
}

/** Whether some request is matched by both. */
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

/** Both in the same form. */
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
