/** What is right in a file, and worth a word at the start and from `onceway check`: a guard that another host leads around. */
import type { Route, RouteMatch } from '../core/policy.ts'

/** Of routes that name a host, where the same upstream does the same for any other one. */
export function hostWarnings (routes: readonly Route[]): string[] {
  return routes.flatMap(({ name, match, upstream, idempotency }) => {
    if (idempotency === null || match.host === null || upstream.host === 'preserve') return []
    const around = routes.find(other => other.match.host === null && covers(other.match, match))
    if (around === undefined || around.idempotency !== null || around.upstream.name !== upstream.name) return []
    return [`Route ${name} guards ${match.path} for the host ${match.host} alone, and route ${around.name} passes that path of every other host through to the same upstream, which is not told the host: leave match.host out, unless something in front lets no other host through.`]
  })
}

/** Some of the other's requests, but for their host, meet this one. */
function covers ({ path, methods }: RouteMatch, other: RouteMatch): boolean {
  const met = path.endsWith('/*') ? other.path.startsWith(path.slice(0, -1)) : path === other.path
  return met && (methods.length === 0 || other.methods.length === 0 || methods.some(method => other.methods.includes(method)))
}
