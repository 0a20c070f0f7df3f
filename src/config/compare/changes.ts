/**
 * Names the settings that a reload changes, and those that need a restart, because listeners and stores are opened once. Never shows a
 * value, because it may be a secret.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Route } from '../../core/policy/policy.ts'
import type { Config, PostgresConfig } from '../config.ts'

type Named = ReadonlyArray<readonly [name: string, value: unknown]>

/**
 * One sentence for each setting that needs a restart. Empty: the process can reload. `shortestLeaseMs`: the shortest lease at the start.
 * The statement timeout of renewals depends on it.
 */
export function restartOnly (old: Config, now: Config, shortestLeaseMs: number): string[] {
  const names = changed(fixedOf(old), fixedOf(now))
  // If a whole block is added or removed, only its name is listed.
  const implied = (name: string) =>
    names.some((block) => name.startsWith(`${block}.`)) || (name === 'dataDir' && names.includes('stores.postgres'))
  const sentences = names
    .filter((name) => !implied(name))
    .map((name) => `${name} cannot change in a running process: start it again to change it.`)
  const leases = now.routes.filter(({ idempotency }) => idempotency !== null && idempotency.leaseMs < shortestLeaseMs)
  return [...sentences, ...leases.map(({ name, idempotency }) =>
    `routes.${name}.idempotency.lease (${idempotency?.leaseMs} ms) is shorter than the shortest lease that this process was started with (${shortestLeaseMs} ms): start it again to change it.`)]
}

/** The names of all changed settings, in the order of the reference. */
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

/** Settings that need a restart. dataDir is one only if the embedded store is used. */
function fixedOf ({ listen, admin, workers, otlp, stores: { postgres, redis }, dataDir }: Config): Named {
  return [
    ['listen.host', listen.host],
    ['listen.port', listen.port],
    ['listen.tls', listen.tls !== null],
    ['listen.tls.clientCertificates', listen.tls?.clientCertificates],
    ['admin.host', admin.host],
    ['admin.port', admin.port],
    ['admin.tls', admin.tls !== null],
    ['admin.tls.clientCertificates', admin.tls?.clientCertificates],
    ['workers', workers],
    ...membersOf('telemetry.otlp', otlp),
    ...membersOf('stores.postgres', postgres && withoutLogin(postgres)),
    ...membersOf('stores.redis', redis),
    ['dataDir', postgres === null ? dataDir : null]
  ]
}

/** Connections read user and password again from a `urlFile` by themselves. */
function withoutLogin (postgres: PostgresConfig): PostgresConfig {
  if (postgres.urlFile === null) return postgres
  const url = new URL(postgres.url)
  url.username = url.password = ''
  return { ...postgres, url: url.href }
}

function variableOf ({
  secrets, problemBaseUri, listen, admin, trustProxies, limits, drain, log, issuedKeys, cors, upstreams, routes
}: Config): Named {
  return [
    ['secret', secrets],
    ['problemBaseUri', problemBaseUri],
    ['trustProxies', trustProxies],
    ...membersOf('listen.tls', listen.tls),
    ...membersOf('admin.tls', admin.tls),
    ['admin.hosts', admin.hosts],
    ['admin.token', admin.token],
    ...authOf(admin),
    ['admin.readiness', admin.readiness],
    ...membersOf('limits', limits),
    ...membersOf('drain', drain),
    ...membersOf('log', log),
    ...membersOf('issuedKeys', issuedKeys),
    ...membersOf('cors', cors),
    ...upstreams.map((upstream) => [`upstreams.${upstream.name}`, upstream] as const),
    // Several unguarded routes may share a name. A change of an upstream or of issuedKeys is not listed for each of its routes.
    ...Array.from(Map.groupBy(routes, ({ name }) => name), ([name, those]) => [`routes.${name}`, those.map(alone)] as const)
  ]
}

/** A provider or a proxy is listed by its members, so its block is not listed as a whole. */
function authOf ({ auth: { oidc, proxy, ...auth } }: Config['admin']): Named {
  return [
    ...membersOf('admin.auth', auth),
    ...membersOf('admin.auth.oidc', oidc),
    ...membersOf('admin.auth.proxy', proxy)
  ]
}

/** Members of a block by their name in the file (`claimTimeoutMs` -> `claimTimeout`). An absent block is its name alone. */
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
