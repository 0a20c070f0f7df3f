/**
 * Which records a change of configuration would orphan: a record is found by (route name, scope, key) in one database, so
 * a retry that meets another name, scope, key source or database executes again. Compares; reads and writes nothing.
 */
import { isDeepStrictEqual } from 'node:util'
import { keySourceText } from '../core/key-sources.ts'
import type { GuardedRoute, Route } from '../core/policy.ts'
import { hides } from '../routing/match.ts'
import type { Config } from './config.ts'

/** One sentence for each set of records that retries would no longer find; empty: none. */
export function orphans (old: Config, now: Config): string[] {
  return [...movedStore(old, now), ...guarded(old.routes).flatMap((route) => changed(route, now.routes))]
}

function guarded (routes: readonly Route[]): GuardedRoute[] {
  return routes.filter((route): route is GuardedRoute => route.idempotency !== null)
}

function movedStore (old: Config, now: Config): string[] {
  const [from, to] = [storeOf(old), storeOf(now)]
  return from === to ? [] : [`All records stay behind: they are in ${from}, and this configuration looks in ${to}.`]
}

/** Which database, without credentials: a new password does not move anything. */
function storeOf ({ stores: { postgres }, dataDir }: Config): string {
  if (postgres === null) return `the embedded store under ${dataDir}`
  const { host, pathname } = new URL(postgres.url)
  return `Postgres ${host}${pathname}, schema ${postgres.schema}`
}

function changed (old: GuardedRoute, routes: readonly Route[]): string[] {
  const now = guarded(routes).find(({ name }) => name === old.name)
  if (now === undefined) return [gone(old, routes)]
  const [from, to] = [marksText(old), marksText(now)]
  const reasons = [
    ...(from === to ? [] : [`what has been done is looked for in ${to} instead of ${from}`]),
    ...(isDeepStrictEqual(old.idempotency.key.sources, now.idempotency.key.sources) ? [] : [`the key is read from ${sourcesText(now)} instead of ${sourcesText(old)}`]),
    ...(old.idempotency.key.syntax === 'lenient' && now.idempotency.key.syntax === 'strict' ? ['keys that are not quoted are refused now'] : []),
    ...(isDeepStrictEqual(old.idempotency.scope, now.idempotency.scope) ? [] : [`the scope is ${scopeText(now)} instead of ${scopeText(old)}`]),
    ...(isDeepStrictEqual(old.idempotency.jwt?.issuer ?? null, now.idempotency.jwt?.issuer ?? null) ? [] : ['tokens of another issuer are believed']),
    ...lostKeys(old, now),
    ...leftInbox(old, now),
    ...(hides(now.match, old.match) ? [] : ['its match no longer takes every request that it took'])
  ]
  return reasons.length === 0 ? [] : [`Records of route ${old.name}: retries would not find them, because ${reasons.join(', and ')}.`]
}

/** Into an inbox, and into `async: allowed`, whatever stands there is looked for. */
function leftInbox ({ idempotency: { inbox: old } }: GuardedRoute, { idempotency: { inbox: now } }: GuardedRoute): string[] {
  return old === null || now !== null ? [] : ['the route has no inbox any more: what waits there is not delivered, and retries of what it has accepted are executed (say async: allowed until its retention is over)']
}

/** Ids of secrets are shown, secrets never. */
function lostKeys ({ idempotency: { issued: old } }: GuardedRoute, { idempotency: { issued: now } }: GuardedRoute): string[] {
  if (now === null) return []
  if (old === null) return ['only keys that the gateway has issued are taken now']
  const lost = old.secrets.filter((secret) => !now.secrets.some((other) => isDeepStrictEqual(secret, other)))
  return lost.map(({ id }) => `keys that secret ${id} has signed are refused now (nothing is lost once the last of them has expired)`)
}

function gone (old: GuardedRoute, routes: readonly Route[]): string {
  const heir = guarded(routes).find(({ match }) => isDeepStrictEqual(match, old.match))
  if (heir !== undefined) return `Records of route ${old.name}: retries would not find them, because the route is called ${heir.name} now.`
  const open = routes.some(({ name, idempotency }) => name === old.name && idempotency === null)
  return `Records of route ${old.name}: retries would not find them, because ${open ? 'the route passes through now' : 'there is no such route any more'}.`
}

/** Where a duplicate is looked for. A filter's size is part of it. */
function marksText ({ idempotency: { drop } }: GuardedRoute): string {
  if (drop === null) return 'records'
  return drop.store.kind === 'bloom' ? `a filter (capacity ${drop.store.capacity}, errorRate ${drop.store.errorRate}, window ${drop.windowMs} ms)` : `marks (${drop.store.kind})`
}

function sourcesText ({ idempotency: { key: { sources } } }: GuardedRoute): string {
  return sources.map(keySourceText).join(', ')
}

function scopeText ({ idempotency: { scope } }: GuardedRoute): string {
  if (scope.kind === 'credential') return scope.cookies === 'ignore' ? 'public' : 'credential'
  return `[${scope.parts.map((part) => `${part.kind}:${part.kind === 'jwt' ? part.claim : part.kind === 'const' ? part.value : part.name}`).join(', ')}]`
}
