/** What is right in a file, and worth a word at the start and from `onceway check`: what its routes mean together. */
import type { Route, RouteMatch } from '../core/policy/policy.ts'
import { hides } from '../routing/match.ts'
import type { Config } from './config.ts'
import { scopeWarnings } from './routes/scope-warnings.ts'

export function routeWarnings ({ routes, trustProxies }: Pick<Config, 'routes' | 'trustProxies'>): string[] {
  return [...scopeWarnings(routes, trustProxies.length > 0), ...hostWarnings(routes), ...methodWarnings(routes)]
}

// ---------------------------------------------------------------- a guard that another host leads around

/** Of routes that name a host, where the same upstream does the same for any other one. */
export function hostWarnings (routes: readonly Route[]): string[] {
  return routes.flatMap(({ name, match, upstream, idempotency }) => {
    if (idempotency === null || match.host === null || upstream.host === 'preserve') return []
    const around = routes.find((other) => other.match.host === null && covers(other.match, match))
    if (around === undefined || around.idempotency !== null || around.upstream.name !== upstream.name) return []
    return [`Route ${name} guards ${match.path} for the host ${match.host} alone, and route ${around.name} passes that path of every other host through to the same upstream, which is not told the host: leave match.host out, unless something in front lets no other host through.`]
  })
}

/** Some of the other's requests, but for their host, meet this one. */
function covers ({ path, methods }: RouteMatch, other: RouteMatch): boolean {
  const met = path.endsWith('/*') ? other.path.startsWith(path.slice(0, -1)) : path === other.path
  return met && (methods.length === 0 || other.methods.length === 0 || methods.some((method) => other.methods.includes(method)))
}

// ---------------------------------------------------------------- a guarded path whose other methods lead nowhere

/** The methods that a client may expect of any path. */
const USUAL = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** Of guarded routes whose file names their methods: what of the same path no route takes. */
export function methodWarnings (routes: readonly Route[]): string[] {
  return routes.flatMap((route) => {
    const { name, match, upstream, idempotency, restPasses } = route
    if (idempotency === null || restPasses === true) return []
    const lost = USUAL.filter((method) => !match.methods.includes(method) && !routes.some((other) => takes(other, route, method)))
    if (lost.length === 0) return []
    return [`Route ${name} takes ${match.methods.join(', ')} of ${match.path}; ${lost.join(', ')} of that path lead nowhere (404), because its match.methods names the methods and no other route takes the rest. If clients need them, leave match.methods out, or add the route { match: { path: "${match.path}" }, upstream: ${upstream.name} } behind it.`]
  })
}

/** Every request of the route's path with this method, in one route. */
function takes (other: Route, { match }: Route, method: string): boolean {
  const methods = other.restPasses === true ? [] : other.match.methods
  return hides({ ...other.match, methods }, { ...match, methods: [method] })
}
