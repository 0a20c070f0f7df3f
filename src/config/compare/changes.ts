/**
 * What a reload would change in a running process, by name, and what of that it cannot: listeners and stores are opened
 * once. Compares; reads and writes nothing, and never shows a value that may be secret.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Route } from '../../core/policy/policy.ts'
import type { Config } from '../config.ts'

type Named = ReadonlyArray<readonly [name: string, value: unknown]>

/**
 * One sentence for each setting that needs a restart; empty: the process can take `now`. `shortestLeaseMs`: at the start;
 * the renewals' statements have a share of it as their limit.
 */
export function restartOnly (old: Config, now: Config, shortestLeaseMs: number): string[] {
  const names = changed(fixedOf(old), fixedOf(now))
  // Of a block that comes or goes its name is enough.
  const implied = (name: string) =>
    names.some((block) => name.startsWith(`${block}.`)) || (name === 'dataDir' && names.includes('stores.postgres'))
  const sentences = names
    .filter((name) => !implied(name))
    .map((name) => `${name} cannot change in a running process: start it again to change it.`)
  const leases = now.routes.filter(({ idempotency }) => idempotency !== null && idempotency.leaseMs < shortestLeaseMs)
  return [...sentences, ...leases.map(({ name, idempotency }) =>
    `routes.${name}.idempotency.lease (${idempotency?.leaseMs} ms) is shorter than the shortest lease that this process was started with (${shortestLeaseMs} ms): start it again to change it.`)]
}

/** The names of all that differs, in the order of the reference. */
export function changes (old: Config, now: Config): string[] {
  const order = isDeepStrictEqual(namesOf(old.routes).sort(), namesOf(now.routes).sort()) &&
    !isDeepStrictEqual(namesOf(old.routes), namesOf(now.routes))
  return [...changed(variableOf(old), variableOf(now)), ...(order ? ['the order of routes'] : [])]
}

function changed (old: Named, now: Named): string[] {
  const [before, after] = [new Map(old), new Map(now)]
  const names = new Set([...before.keys(), ...after.keys()])
  return [...names].filter((name) => !isDeepStrictEqual(before.get(name), after.get(name)))
}

/** What is opened once. A directory that no store uses is none of it. */
function fixedOf ({ listen, admin, workers, stores: { postgres, redis }, dataDir }: Config): Named {
  return [
    ['listen.host', listen.host],
    ['listen.port', listen.port],
    ['admin.host', admin.host],
    ['admin.port', admin.port],
    ['workers', workers],
    ...membersOf('stores.postgres', postgres),
    ...membersOf('stores.redis', redis),
    ['dataDir', postgres === null ? dataDir : null]
  ]
}

function variableOf ({
  secrets, problemBaseUri, admin, trustProxies, limits, drain, log, issuedKeys, cors, upstreams, routes
}: Config): Named {
  return [
    ['secret', secrets],
    ['problemBaseUri', problemBaseUri],
    ['trustProxies', trustProxies],
    ['admin.hosts', admin.hosts],
    ['admin.token', admin.token],
    ['admin.readiness', admin.readiness],
    ...membersOf('limits', limits),
    ...membersOf('drain', drain),
    ...membersOf('log', log),
    ...membersOf('issuedKeys', issuedKeys),
    ...membersOf('cors', cors),
    ...upstreams.map((upstream) => [`upstreams.${upstream.name}`, upstream] as const),
    // Several routes that pass through may share a name. A change of an upstream, or of how keys are given out, is not one of its routes.
    ...Array.from(Map.groupBy(routes, ({ name }) => name), ([name, those]) => [`routes.${name}`, those.map(alone)] as const)
  ]
}

/** `claimTimeoutMs` -> `claimTimeout`: as the file calls it. An absent block is the name alone. */
function membersOf (path: string, block: object | null): Named {
  if (block === null) return [[path, null]]
  return [[path, 'present'], ...Object.entries(block).map(([name, value]) => [`${path}.${name.replace(/Ms$/, '')}`, value] as const)]
}

function alone ({ idempotency, upstream, ...route }: Route): object {
  return {
    ...route,
    upstream: upstream.name,
    idempotency: idempotency && { ...idempotency, hops: null, issued: idempotency.issued !== null }
  }
}

function namesOf (routes: readonly Route[]): string[] {
  return routes.map(({ name }) => name)
}
