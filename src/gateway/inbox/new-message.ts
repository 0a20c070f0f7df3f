/** The messages that a request becomes: who gets them, what is stored, and their place in an order. */
import { rulesOf } from '../../core/forward/deciding.ts'
import { guardedRequestHeaders } from '../../core/forward/forwarding.ts'
import { withoutFields } from '../../core/headers/lines.ts'
import { withoutAsync } from '../../core/headers/prefer.ts'
import { verifierOf } from '../../core/headers/signature.ts'
import { messageGroup, messageScope, messageTenant } from '../../core/inbox/acceptance.ts'
import type { NewMessage } from '../../core/inbox/message.ts'
import { scheduleOf } from '../../core/inbox/schedule.ts'
import { takersOf, targetMessageId, targetRoute, valueAt, withoutSender } from '../../core/inbox/targets.ts'
import type { Value } from '../../core/policy/key-source.ts'
import type { GuardedRoute, InboxPolicy, InboxTarget, ValueSource } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'

/** An inbox that takes a request, its group there, and when it is due. `target` null: the route's own. */
export interface Place {
  readonly route: GuardedRoute
  readonly inbox: InboxPolicy
  readonly target: InboxTarget | null
  readonly group: Buffer | null
  readonly delayMs: number
}

/**
 * `unfit`: a value that decides it cannot be used. The message might belong to a target or a group, and must not miss it. Or it would be
 * delivered at a time that its sender did not mean. `said`: one sentence.
 */
export type Places = { readonly kind: 'places', readonly places: readonly Place[] } | { readonly kind: 'unfit', readonly said: string }

type Source = Pick<KeyedRequest, 'route' | 'rawHeaders'>

/** `nowMs`: by the gateway's wall clock. `isClaimed`: the values were read before. */
interface Reading { readonly nowMs: number, readonly isClaimed?: true }

/** Where the request is stored. No place: no target takes it. */
export function placesOf (keyed: Source, { asked: { body } }: Pick<Part, 'asked'>, reading: Reading): Places {
  const { route } = keyed
  const inbox = inboxOf(keyed)
  const delayMs = delayOf(inbox, keyed.rawHeaders, body, reading)
  if (typeof delayMs === 'string') return { kind: 'unfit', said: delayMs }
  if (inbox.targets.length === 0) return placesIn([{ route, inbox, target: null, delayMs }], keyed.rawHeaders, body)
  const takers = takersOf(inbox.targets, keyed.rawHeaders, body)
  if (takers.kind === 'unfit') return { kind: 'unfit', said: `A value by which targets take messages of this route ${takers.why}.` }
  const inboxes = takers.targets.map((target) => ({ route: targetRoute(route, target), inbox: target.inbox, target, delayMs }))
  return placesIn(inboxes, keyed.rawHeaders, body)
}

/** A text: why it cannot be used. */
function delayOf ({ schedule }: InboxPolicy, rawHeaders: RawHeaders, body: Buffer, { nowMs, isClaimed }: Reading): number | string {
  const { at, delay, longestMs } = schedule
  const valueOf = (source: ValueSource | null): Value => source === null ? NO_VALUE : valueAt(source, rawHeaders, body)
  const read = scheduleOf(valueOf(at), valueOf(delay), longestMs, nowMs)
  if (read.kind === 'in') return read.ms
  // If a clock that was set back has put it beyond the bound since it was read, it waits up to the bound.
  return read.kind === 'beyond' && isClaimed === true ? longestMs : read.why
}

function placesIn (inboxes: ReadonlyArray<Omit<Place, 'group'>>, rawHeaders: RawHeaders, body: Buffer): Places {
  const places: Place[] = []
  for (const each of inboxes) {
    const { order } = each.inbox
    const value = order === null ? NO_VALUE : valueAt(order, rawHeaders, body)
    if (value.kind === 'unfit') return { kind: 'unfit', said: `The value by which messages of this route are ordered ${value.why}.` }
    // A message without an order value has no group.
    places.push({ ...each, group: value.kind === 'value' ? messageGroup(each.route.name, value.text) : null })
  }
  return { kind: 'places', places }
}

const NO_VALUE: Value = { kind: 'none' }

/** The messages of one part of a request, the first of them under the part's own id. */
export function messagesOf (keyed: KeyedRequest, part: Part, places: readonly Place[]): NewMessage[] {
  // The first one is what a duplicate is known by, for as long as a delivery to another may come.
  const openMs = places.some(({ target }) => target !== null) ? Math.max(...places.map(({ inbox }) => inbox.ageMaxMs)) : 0
  return places.map((place, index) => {
    const message = { ...messageOf(keyed, part, place), keepMs: part.retentionMs + openMs }
    return index === 0 || place.target === null
      ? message
      : { ...message, id: targetMessageId(part.id, place.target.name), earlierId: null, alongside: part.id }
  })
}

/** The request as its consumer gets it. It is made once, so that every delivery is the same to the byte. */
function messageOf (keyed: KeyedRequest, part: Part, place: Place): NewMessage {
  const { route, inbox, target, group, delayMs } = place
  const { method, target: path, body } = part.asked
  return {
    id: part.id,
    ...part.claim,
    scopeHash: messageScope(part.identified.scope, part.identified.keys.secret),
    group,
    tenant: tenantOf(keyed, part, place),
    delayMs,
    holds: route.idempotency.unknown !== 'retry',
    stops: inbox.onDead === 'stop-group',
    keepMs: part.retentionMs,
    deadKeepMs: inbox.deadRetentionMs,
    request: { method, target: target?.path ?? path, headers: fieldsOf(keyed, part, place), body },
    about: target === null ? part.about() : { ...part.about(), route: route.name }
  }
}

/**
 * Without the upstream's static fields, which each delivery adds anew. So no credential of the gateway is stored, and no sender's
 * field takes its place.
 */
function fieldsOf (
  { requestId, forwarded, preferred, steps }: KeyedRequest,
  { rawHeaders, asked: { body } }: Part,
  { route: { upstream, idempotency }, target }: Place
): string[] {
  const fields = guardedRequestHeaders(preferred ? withoutAsync(rawHeaders) : rawHeaders, {
    record: null,
    verified: verifierOf(idempotency),
    trace: steps.trace?.context ?? null,
    requestId,
    keyHeader: idempotency.key.header,
    forwardKey: idempotency.forwardKey,
    rules: rulesOf(idempotency),
    host: upstream.host,
    forwarded,
    extra: upstream.requestHeaders,
    bodyBytes: body.length
  })
  const sent = target === null ? fields : withoutSender(fields, idempotency.scope)
  return withoutFields(sent, upstream.requestHeaders.map(([name]) => name))
}

/** A value that cannot be read is none: a pause holds back that message alone. */
function tenantOf ({ rawHeaders }: Source, { asked: { body } }: Part, { route, inbox: { retryAfter } }: Place): Buffer | null {
  if (retryAfter.kind !== 'value') return null
  const value = valueAt(retryAfter.source, rawHeaders, body)
  return value.kind === 'value' ? messageTenant(route.name, value.text) : null
}

export function inboxOf ({ route }: Pick<KeyedRequest, 'route'>): InboxPolicy {
  const { inbox } = route.idempotency
  if (inbox === null) throw new Error(`route ${route.name} has no inbox`)
  return inbox
}
