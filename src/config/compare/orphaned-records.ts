/**
 * Which records a change of configuration would orphan: a record is found by (route name, scope, key) in one database, so
 * a retry that meets another name, scope, key source or database executes again. Of these, gateways that run beside each other
 * cannot protect each other either, and the sentence says so. Compares; reads and writes nothing.
 */
import { isDeepStrictEqual } from 'node:util'
import { marksText, scopeText } from '../../core/protocol/aspects.ts'
import { keySourceText } from '../../core/key/sources.ts'
import type { GuardedRoute, Route } from '../../core/policy/policy.ts'
import { hides, overlap } from '../../routing/match.ts'
import type { Config } from '../config.ts'
import { storeText } from '../derived.ts'

/** One sentence for each set of records that retries would no longer find; empty: none. */
export function orphans (old: Config, now: Config): string[] {
  return [...movedStore(old, now), ...guarded(old.routes).flatMap((route) => changed(route, old.routes, now.routes))]
}

function guarded (routes: readonly Route[]): GuardedRoute[] {
  return routes.filter((route): route is GuardedRoute => route.idempotency !== null)
}

function movedStore (old: Config, now: Config): string[] {
  const [from, to] = [storeText(old), storeText(now)]
  return from === to ? [] : [`All records stay behind: they are in ${from}, and this configuration looks in ${to}. ${CONCURRENT}`]
}

/** One key is looked for in two places, and no record keeps the one from executing what the other has. */
const CONCURRENT = 'While gateways of both run, one key can be executed by each of them, and by one that reloads under a request: stop all that run the old one before the first that runs the new one starts.'

function changed (old: GuardedRoute, before: readonly Route[], routes: readonly Route[]): string[] {
  const now = guarded(routes).find(({ name }) => name === old.name)
  if (now === undefined) return [missingRoute(old, routes)]
  const [from, to] = [marksText(old.idempotency), marksText(now.idempotency)]
  const splitting = [
    ...(from === to ? [] : [`what has been done is looked for in ${to} instead of ${from}`]),
    ...(isDeepStrictEqual(old.idempotency.key.sources, now.idempotency.key.sources)
      ? []
      : [`the key is read from ${sourcesText(now)} instead of ${sourcesText(old)}`]),
    ...(isDeepStrictEqual(old.idempotency.scope, now.idempotency.scope)
      ? []
      : [`the scope is ${scopeText(now.idempotency.scope)} instead of ${scopeText(old.idempotency.scope)}`]),
    ...(old.upstream.host === now.upstream.host
      ? []
      : [`the host is ${now.upstream.host === 'preserve' ? '' : 'no longer '}part of what a record is found by (upstream.host: ${now.upstream.host})`]),
    ...(isDeepStrictEqual(old.idempotency.jwt?.issuer ?? null, now.idempotency.jwt?.issuer ?? null)
      ? []
      : ['tokens of another issuer are believed']),
    ...inFrontOf(now, routes)
      .filter(({ match }) => overlap(match, old.match) && !inFrontOf(old, before).some((route) => isDeepStrictEqual(route.match, match)))
      .map(({ name }) => `requests that it took meet route ${name} first`)
  ]
  const reasons = [
    ...splitting,
    ...(old.idempotency.key.syntax === 'lenient' && now.idempotency.key.syntax === 'strict'
      ? ['keys that are not quoted are refused now']
      : []),
    ...lostKeys(old, now),
    ...(hides(now.match, old.match) ? [] : ['its match no longer takes every request that it took'])
  ]
  const lost = reasons.length === 0
    ? []
    : [`${old.idempotency.drop === null ? 'Records' : 'Marks'} of route ${old.name}: retries would not find them, because ${reasons.join(', and ')}.${splitting.length === 0 ? '' : ` ${CONCURRENT}`}`]
  return [...lost, ...leftInbox(old, now)]
}

/** The first that matches takes a request. */
function inFrontOf (route: Route, routes: readonly Route[]): readonly Route[] {
  return routes.slice(0, routes.findIndex(({ name }) => name === route.name))
}

/** From and into an inbox, whatever stands there is looked for. */
function leftInbox ({ name, idempotency: { inbox: old } }: GuardedRoute, { idempotency: { inbox: now } }: GuardedRoute): string[] {
  return old === null || now !== null
    ? []
    : [`Messages of route ${name}: the route has no inbox any more: what waits there is not delivered, though its retries get their 202 (say async: allowed until all is delivered).`]
}

/** Ids of secrets are shown, secrets never. */
function lostKeys ({ idempotency: { issued: old } }: GuardedRoute, { idempotency: { issued: now } }: GuardedRoute): string[] {
  if (now === null) return []
  if (old === null) return ['only keys that the gateway has issued are taken now']
  const lost = old.secrets.filter((secret) => !now.secrets.some((other) => isDeepStrictEqual(secret, other)))
  return lost.map(({ id }) => `keys that secret ${id} has signed are refused now (nothing is lost once the last of them has expired)`)
}

function missingRoute (old: GuardedRoute, routes: readonly Route[]): string {
  const heir = guarded(routes).find(({ match }) => isDeepStrictEqual(match, old.match))
  if (heir !== undefined) {
    return `Records of route ${old.name}: retries would not find them, because the route is called ${heir.name} now. ${CONCURRENT}`
  }
  const open = routes.some(({ name, idempotency }) => name === old.name && idempotency === null)
  return `Records of route ${old.name}: retries would not find them, because ${open ? 'the route passes through now' : 'there is no such route any more'}.${open ? ` ${CONCURRENT}` : ''}`
}

function sourcesText ({ idempotency: { key: { sources } } }: GuardedRoute): string {
  return sources.map(keySourceText).join(', ')
}
