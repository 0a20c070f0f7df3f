/**
 * Finds records that a change of configuration would orphan. A record is found by route name, scope and key in one database. With another
 * name, scope, key source or database, a retry executes again. While gateways of both configurations run, they do not protect each other
 * either, and the sentence says so.
 */
import { isDeepStrictEqual } from 'node:util'
import { marksText, scopeText } from '../../core/protocol/aspects.ts'
import { inboxesOf } from '../../core/inbox/targets.ts'
import { keySourceText } from '../../core/key/sources.ts'
import type { GuardedRoute, Route } from '../../core/policy/policy.ts'
import { hides, overlap } from '../../routing/match.ts'
import type { Config } from '../config.ts'
import { storeText } from '../derived.ts'

/** One sentence for each set of records that retries would no longer find. */
export function orphans (old: Config, now: Config): string[] {
  return [...movedStore(old, now), ...guarded(old.routes).flatMap((route) => changed(route, old.routes, now.routes))]
}

function guarded (routes: readonly Route[]): GuardedRoute[] {
  return routes.filter((route): route is GuardedRoute => route.idempotency !== null)
}

function movedStore (old: Config, now: Config): string[] {
  const [from, to] = [storeText(old), storeText(now)]
  return from === to ? [] : [`All records stay behind: they are in ${from}, and this configuration searches ${to}. ${CONCURRENT}`]
}

/** Gateways of both configurations use different records for one key. */
const CONCURRENT = 'While gateways of both configurations run, each of them can execute the same key. So can one that reloads during a request. Stop all gateways with the old configuration before you start one with the new one.'

function changed (old: GuardedRoute, before: readonly Route[], routes: readonly Route[]): string[] {
  const now = guarded(routes).find(({ name }) => name === old.name)
  if (now === undefined) return [missingRoute(old, routes)]
  const [from, to] = [marksText(old.idempotency), marksText(now.idempotency)]
  const splitting = [
    ...(from === to ? [] : [`${to} is searched instead of ${from}`]),
    ...(isDeepStrictEqual(old.idempotency.key.sources, now.idempotency.key.sources)
      ? []
      : [`the key is read from ${sourcesText(now)} instead of ${sourcesText(old)}`]),
    ...(isDeepStrictEqual(old.idempotency.scope, now.idempotency.scope)
      ? []
      : [`the scope is ${scopeText(now.idempotency.scope)} instead of ${scopeText(old.idempotency.scope)}`]),
    ...(old.upstream.host === now.upstream.host
      ? []
      : [`the host is ${now.upstream.host === 'preserve' ? '' : 'no longer '}part of a record's identity (upstream.host: ${now.upstream.host})`]),
    ...(isDeepStrictEqual(old.idempotency.jwt?.issuer ?? null, now.idempotency.jwt?.issuer ?? null)
      ? []
      : ['tokens of another issuer are accepted']),
    ...inFrontOf(now, routes)
      .filter(({ match }) => overlap(match, old.match) && !inFrontOf(old, before).some((route) => isDeepStrictEqual(route.match, match)))
      .map(({ name }) => `route ${name} takes some of its requests first`)
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

/** The routes that are matched before this one. */
function inFrontOf (route: Route, routes: readonly Route[]): readonly Route[] {
  return routes.slice(0, routes.findIndex(({ name }) => name === route.name))
}

/** After a change from or to an inbox, retries still find records and messages. But without an inbox, messages are not delivered. */
function leftInbox (old: GuardedRoute, now: GuardedRoute): string[] {
  const { name, idempotency: { inbox } } = old
  if (inbox === null) return []
  if (now.idempotency.inbox !== null) {
    const left = new Set(inboxesOf([now]).map((each) => each.name))
    const gone = inboxesOf([old]).filter((each) => !left.has(each.name))
    return gone.map((each) => `Messages of ${each.name}: no target has this inbox any more. Waiting messages are not delivered.`)
  }
  return [`Messages of route ${name}: the route no longer has an inbox. Waiting messages are not delivered, although their retries get 202 (set async: allowed until all are delivered).`]
}

/** Shows ids of secrets, never secrets. */
function lostKeys ({ idempotency: { issued: old } }: GuardedRoute, { idempotency: { issued: now } }: GuardedRoute): string[] {
  if (now === null) return []
  if (old === null) return ['only keys that the gateway has issued are accepted now']
  const lost = old.secrets.filter((secret) => !now.secrets.some((other) => isDeepStrictEqual(secret, other)))
  return lost.map(({ id }) => `keys that secret ${id} has signed are refused now (wait until the last of them has expired)`)
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
