/** Decides from a request's head alone. The request is guarded, passes through, or is refused. The body is not read. */
import type { IncomingMessage } from 'node:http'
import { preflightMethod } from '../core/headers/cors.ts'
import { decidingRefusal, rulesOf, takenAwayRefusal } from '../core/forward/deciding.ts'
import { USUAL_KEY_HEADER } from '../core/headers/fields.ts'
import { hostRefusal } from '../core/headers/host.ts'
import { headerLines } from '../core/headers/lines.ts'
import { requestRefusal } from '../core/headers/headers.ts'
import { isSafe, overridingMethods } from '../core/headers/method-override.ts'
import type { GuardedRoute, Route } from '../core/policy/policy.ts'
import { headKeyOf } from '../gateway/key/head-key.ts'
import type { HeadKey } from '../gateway/key/head-key.ts'
import { warnMistypedKey } from '../gateway/key/mistyped-key.ts'
import type { IncomingRequest } from '../gateway/key/incoming-request.ts'
import type { Passed } from './pass/passthrough.ts'
import type { ServerOptions } from './shared/options.ts'

export type HeadDecision =
  | { readonly kind: 'guarded', readonly route: GuardedRoute, readonly key: IncomingRequest['key'], readonly alike: boolean }
  | { readonly kind: 'passed', readonly passed: Passed }
  /** Nothing after this head is read, and the connection ends. */
  | { readonly kind: 'malformed', readonly detail: string, readonly status?: number }
  | { readonly kind: 'refused', readonly code: 'bad-request' | 'no-route', readonly detail?: string }

export type GuardedHead = Extract<HeadDecision, { kind: 'guarded' }>

export function decideOnHead (options: ServerOptions, raw: IncomingMessage): HeadDecision {
  const { method = 'GET', url = '/', rawHeaders } = raw
  const overriding = overridingMethods(rawHeaders, url)
  // Under an overriding method a server may take it for more than a preflight.
  const announced = isSafe(method, overriding) ? preflightMethod(method, rawHeaders) : null
  const { routes } = options
  const host = raw.headers.host ?? null
  const matched = announced === null ? routes.match(method, url, host, overriding) : routes.preflight(announced, url, host)
  switch (matched.kind) {
    case 'refused': return { kind: 'refused', code: 'bad-request', detail: matched.detail }
    case 'none': return { kind: 'refused', code: 'no-route', ...(matched.taken !== undefined && { detail: otherMethods(matched.taken) }) }
    case 'route':
      // The upstream that would get the announced request answers the preflight.
      if (announced !== null) {
        return { kind: 'passed', passed: { route: matched.route, ignoredKey: false, rules: routes.rulesFor(matched.route) } }
      }
      if (matched.alike) options.meter.alike(matched.route.name)
      return decideOnRoute(options, raw, matched, isSafe(method, overriding))
  }
}

function decideOnRoute (
  options: ServerOptions,
  raw: IncomingMessage,
  { route, alike }: { readonly route: Route, readonly alike: boolean },
  safe: boolean
): HeadDecision {
  if (!isGuarded(route) || safe) {
    const ignoredKey = !safe && headerLines(raw.rawHeaders, 'idempotency-key').length > 0
    if (ignoredKey) options.meter.ignored()
    return { kind: 'passed', passed: { route, ignoredKey, rules: options.routes.rulesFor(route) } }
  }
  const key = headKeyOf({ route, target: raw.url ?? '/', rawHeaders: raw.rawHeaders }, options.gateway.deps.clock.wallMs)
  if (key.kind === 'unguarded') return passUnguarded(options, raw, route, key)
  const rules = rulesOf(route.idempotency)
  const trusted = rules.trustedOnly.length === 0 || options.peers.forwardedOf(raw).trusted
  const detail = takenAwayRefusal(raw.rawHeaders, route.idempotency.key) ?? decidingRefusal(raw.rawHeaders, rules, trusted)
  return detail === null ? { kind: 'guarded', route, key, alike } : { kind: 'malformed', detail }
}

/**
 * A preset lets the request pass, or it has no key. A client with a misspelled key header would believe that it is
 * protected, so that is logged.
 */
function passUnguarded (
  { meter, gateway: { notices }, routes }: ServerOptions,
  { rawHeaders }: IncomingMessage,
  route: GuardedRoute,
  { found }: Extract<HeadKey, { kind: 'unguarded' }>
): HeadDecision {
  if (found.kind === 'passes') meter.passed(route.name, found.preset, found.why)
  else {
    meter.keyless(route.name)
    warnMistypedKey(notices, route.name, route.idempotency.key, rawHeaders, 'passed')
  }
  return { kind: 'passed', passed: { route, ignoredKey: found.kind === 'passes', rules: routes.rulesFor(route) } }
}

/** The path has a guarded route for other methods. The text also helps the operator who named the methods. */
function otherMethods (taken: readonly string[]): string {
  return `No route of the gateway takes this method on this path; a guarded one takes ${taken.join(', ')}. In the configuration, leave match.methods out of that route and its other methods pass through, or add a route without idempotency for them.`
}

function isGuarded (route: Route): route is GuardedRoute {
  return route.idempotency !== null
}

const VERSION_NOT_SUPPORTED = 505

/** A head whose end or host cannot be known without a guess. Nothing after it is read. */
export function malformedHead (raw: IncomingMessage): Extract<HeadDecision, { kind: 'malformed' }> | null {
  const { httpVersion, rawHeaders, url = '/' } = raw
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return { kind: 'malformed', detail: 'The gateway speaks HTTP/1.1 and HTTP/1.0.', status: VERSION_NOT_SUPPORTED }
  }
  const detail = hostRefusal(rawHeaders, httpVersion, url) ?? requestRefusal(rawHeaders, USUAL_KEY_HEADER, httpVersion)
  return detail === null ? null : { kind: 'malformed', detail }
}
