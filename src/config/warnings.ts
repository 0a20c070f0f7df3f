/** Warnings about routes of a valid file, for the start and `onceway check`. */
import type { Route, RouteMatch } from '../core/policy/policy.ts'
import { hides } from '../routing/match.ts'
import type { Config } from './config.ts'
import { scopeWarnings } from './routes/scope-warnings.ts'

export function routeWarnings ({ routes, trustProxies }: Pick<Config, 'routes' | 'trustProxies'>): string[] {
  return [...scopeWarnings(routes, trustProxies.length > 0), ...hostWarnings(routes), ...methodWarnings(routes)]
}

// ---------------------------------------------------------------- a guard that another host bypasses

/** Guarded routes with a host whose requests reach the same upstream unguarded under any other host. */
export function hostWarnings (routes: readonly Route[]): string[] {
  return routes.flatMap(({ name, match, upstream, idempotency }) => {
    if (idempotency === null || match.host === null || upstream.host === 'preserve') return []
    const around = routes.find((other) => other.match.host === null && covers(other.match, match))
    if (around === undefined || around.idempotency !== null || around.upstream.name !== upstream.name) return []
    return [`Route ${name} guards ${match.path} for the host ${match.host} only. Route ${around.name} passes that path of every other host through to the same upstream, which does not see the host. Omit match.host, unless a proxy in front admits no other host.`]
  })
}

/** Whether the other's requests, apart from their host, can match this route. */
function covers ({ path, methods }: RouteMatch, other: RouteMatch): boolean {
  const met = path.endsWith('/*') ? other.path.startsWith(path.slice(0, -1)) : path === other.path
  return met && (methods.length === 0 || other.methods.length === 0 || methods.some((method) => other.methods.includes(method)))
}

// ---------------------------------------------------------------- a guarded path whose other methods have no route

/** The methods that clients commonly use. */
const USUAL = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** Guarded routes with `methods`: the other methods of the same path that no route takes. */
export function methodWarnings (routes: readonly Route[]): string[] {
  return routes.flatMap((route) => {
    const { name, match, upstream, idempotency, restPasses } = route
    if (idempotency === null || restPasses === true) return []
    const lost = USUAL.filter((method) => !match.methods.includes(method) && !routes.some((other) => takes(other, route, method)))
    if (lost.length === 0) return []
    return [`Route ${name} takes ${match.methods.join(', ')} of ${match.path}; ${lost.join(', ')} of that path get 404, because no other route takes them. If clients need them, omit match.methods, or add the route { match: { path: "${match.path}" }, upstream: ${upstream.name} } after it.`]
  })
}

/** Whether `other` takes every request of the route's path with this method. */
function takes (other: Route, { match }: Route, method: string): boolean {
  const methods = other.restPasses === true ? [] : other.match.methods
  return hides({ ...other.match, methods }, { ...match, methods: [method] })
}
