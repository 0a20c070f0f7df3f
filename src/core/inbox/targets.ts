/**
 * A route whose messages go to several consumers (`inbox.targets`). Each target is an inbox of its own, under a name of its own: its
 * messages, order, pauses, bounds and metrics are those of a route with that name. One acceptance makes one message for each target that
 * takes the request.
 */
import { framedDigest } from '../record/digest.ts'
import { SIGNATURE } from '../headers/carrier-kinds.ts'
import { carrierOf } from '../headers/carriers.ts'
import { isForwarded, plainName } from '../headers/fields.ts'
import { pairs } from '../headers/lines.ts'
import { bodyValue, headerText } from '../key/values.ts'
import { lookInto } from '../json/pointer.ts'
import type { Pointer, Unread } from '../json/pointer.ts'
import type { Value, Values } from '../policy/key-source.ts'
import type {
  Condition,
  GuardedRoute,
  IdempotencyPolicy,
  InboxPolicy,
  InboxTarget,
  Route,
  ScopePolicy,
  ValueSource
} from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'

/** Between the names of route and target. No name that a file gives has it. */
export const TARGET_MARK = '::'

/** A route with an inbox: `mode: inbox`, or `async: allowed`. */
export interface InboxRoute extends GuardedRoute { readonly idempotency: IdempotencyPolicy & { readonly inbox: InboxPolicy } }

/** Every inbox of the configuration: those of the routes, each before those of its targets and of what dies in it. */
export function inboxesOf (routes: readonly Route[]): InboxRoute[] {
  return routes.filter(hasInbox).flatMap((route) => [route, ...targetRoutes(route)]).flatMap((inbox) => {
    const letters = deadLetterRoute(inbox)
    return letters === null ? [inbox] : [inbox, letters]
  })
}

function hasInbox (route: Route): route is InboxRoute {
  return route.idempotency !== null && route.idempotency.inbox !== null
}

export function targetRoutes (route: InboxRoute): InboxRoute[] {
  return route.idempotency.inbox.targets.map((target) => targetRoute(route, target))
}

/** As the last part of an inbox's name. No target has this name. */
export const DEAD_LETTER = 'dead-letter'

export function isDeadLetter (inbox: string): boolean {
  return inbox.endsWith(`${TARGET_MARK}${DEAD_LETTER}`) && !inbox.startsWith('/')
}

/**
 * The inbox of what dies in this one (dead-letter.ts). null: it goes to nobody. Its consumer can tell a copy that comes twice. What the
 * route says of answers and unknown outcomes is about other consumers.
 */
export function deadLetterRoute (inbox: InboxRoute): InboxRoute | null {
  const { keep, inbox: { deadLetter } } = inbox.idempotency
  if (deadLetter === null) return null
  const route = targetRoute(inbox, { ...deadLetter, name: DEAD_LETTER })
  return { ...route, idempotency: { ...route.idempotency, unknown: 'retry', probe: null, keep: { ...keep, statuses: new Map() } } }
}

/** The target as a route: its messages are judged by the route's policy, and delivered as the target says. */
export function targetRoute (route: GuardedRoute, { name, upstream, inbox }: Pick<InboxTarget, 'name' | 'upstream' | 'inbox'>): InboxRoute {
  return { ...route, name: targetRouteName(route.name, name), upstream, idempotency: { ...route.idempotency, hops: upstream.hops, inbox } }
}

export function targetRouteName (route: string, target: string): string {
  return `${route}${TARGET_MARK}${target}`
}

/** The route and target of an inbox by its name. A route without a name has its path instead, and no targets. */
export function routeAndTarget (name: string): { readonly route: string, readonly target: string | null } {
  const at = name.startsWith('/') ? -1 : name.indexOf(TARGET_MARK)
  return at === -1 ? { route: name, target: null } : { route: name.slice(0, at), target: name.slice(at + TARGET_MARK.length) }
}

/** It separates these hashes from every other hash of the same texts. */
const ID_DOMAIN = 'onceway:target-message:1'

/**
 * The id of the message for a target. `first`: the request's own id, which the first target that takes the request has. So the record of
 * an execution, and a duplicate, are found by it whatever the targets are.
 */
export function targetMessageId (first: Buffer, target: string): Buffer {
  return framedDigest([ID_DOMAIN, first, target])
}

/** `unfit`: a value cannot be read, so nobody can tell who the request is for. `why`: the rest of a sentence that begins with the value. */
export type Takers =
  | { readonly kind: 'targets', readonly targets: readonly InboxTarget[] }
  | { readonly kind: 'unfit', readonly why: string }

/** The targets that take this request: those all of whose conditions hold. A value that is not there fulfils none. */
export function takersOf (targets: readonly InboxTarget[], rawHeaders: RawHeaders, body: Buffer): Takers {
  const values = readValues(targets.flatMap(({ when }) => when.map(({ source }) => source)), rawHeaders, body)
  const found: InboxTarget[] = []
  for (const target of targets) {
    const held = target.when.map((condition) => holds(condition, values))
    const unfit = held.find((each) => typeof each === 'string')
    if (unfit !== undefined) return { kind: 'unfit', why: String(unfit) }
    if (held.every((each) => each === true)) found.push(target)
  }
  return { kind: 'targets', targets: found }
}

/** A text: why the value cannot be read. */
function holds ({ source, values: wanted }: Condition, valueOf: (source: ValueSource) => Value): boolean | string {
  const value = valueOf(source)
  if (value.kind === 'unfit') return value.why
  return value.kind === 'value' && wanted.includes(value.text)
}

/**
 * What names the sender, or says where it is, is for this gateway, and not for several consumers, who may belong to others. A signature
 * gives nobody a right.
 */
export function withoutSender (fields: readonly string[], scope: ScopePolicy): string[] {
  const named = new Set(scope.kind === 'parts' ? scope.parts.flatMap((part) => part.kind === 'header' ? [part.name] : []) : [])
  return [...pairs(fields)].flatMap((line) => {
    const name = line[0].toLowerCase()
    const carrier = carrierOf(name)
    const isCredential = carrier !== undefined && carrier.class !== 'selector' && carrier.what !== SIGNATURE
    return isCredential || named.has(name) || isForwarded(plainName(name)) ? [] : line
  })
}

/** One value of a request. */
export function valueAt (source: ValueSource, rawHeaders: RawHeaders, body: Buffer): Value {
  return readValues([source], rawHeaders, body)(source)
}

/** Reads the body once for all of them. */
function readValues (sources: readonly ValueSource[], rawHeaders: RawHeaders, body: Buffer): (source: ValueSource) => Value {
  const pointers = sources.flatMap((source) => source.kind === 'json' ? [source.pointer] : [])
  const found = pointers.length === 0 ? new Map() : lookAt(body, pointers)
  return (source) => {
    if (source.kind === 'header') return headerText(source.name, rawHeaders)
    return 'kind' in found ? { kind: 'unfit', why: `cannot be looked for: the body ${found.why}` } : bodyValue(found, source.pointer)
  }
}

function lookAt (body: Buffer, pointers: readonly Pointer[]): Values | Unread {
  const found = lookInto(body, pointers)
  return 'kind' in found ? found : new Map(found.map((each, index) => [pointers[index] as Pointer, each]))
}
