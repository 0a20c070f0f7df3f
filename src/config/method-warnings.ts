/** What is right in a file, and worth a word at the start and from `onceway check`: a guarded path whose other methods lead nowhere. */
import type { Route } from '../core/policy.ts'
import { hides } from '../routing/match.ts'

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
