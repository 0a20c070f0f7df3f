/** The message that a request becomes: what is stored of it, and its place in an order. */
import { rulesOf } from '../../core/forward/deciding.ts'
import { guardedRequestHeaders } from '../../core/forward/forwarding.ts'
import { withoutFields } from '../../core/headers/lines.ts'
import { withoutAsync } from '../../core/headers/prefer.ts'
import { verifierOf } from '../../core/headers/signature.ts'
import { messageGroup, messageScope, messageTenant } from '../../core/inbox/acceptance.ts'
import type { NewMessage } from '../../core/inbox/message.ts'
import { scheduleOf } from '../../core/inbox/schedule.ts'
import type { Schedule } from '../../core/inbox/schedule.ts'
import { lookInto } from '../../core/json/pointer.ts'
import { bodyValue, headerText } from '../../core/key/values.ts'
import type { Value } from '../../core/policy/key-source.ts'
import type { InboxPolicy, ValueSource } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'

/**
 * The request as its consumer gets it. It is made once, so that every delivery is the same to the byte. `nowMs`: by the gateway's wall
 * clock.
 */
export function messageOf (keyed: KeyedRequest, part: Part, nowMs: number): NewMessage {
  const { route } = keyed
  const { unknown } = route.idempotency
  const { onDead, deadRetentionMs, schedule: { longestMs } } = inboxOf(keyed)
  const order = orderValue(keyed, part)
  const schedule = messageSchedule(keyed, part, nowMs)
  const { method, target, body } = part.asked
  return {
    id: part.id,
    ...part.claim,
    scopeHash: messageScope(part.identified.scope, part.identified.keys.secret),
    group: order.kind === 'value' ? messageGroup(route.name, order.text) : null,
    tenant: tenantOf(keyed, part),
    // What cannot be used was refused before. If a clock that was set back has put it beyond the bound since, it waits up to the bound.
    delayMs: schedule.kind === 'in' ? schedule.ms : longestMs,
    holds: unknown !== 'retry',
    stops: onDead === 'stop-group',
    keepMs: part.retentionMs,
    deadKeepMs: deadRetentionMs,
    request: {
      method,
      target,
      headers: fieldsOf(keyed, part),
      body
    },
    about: part.about()
  }
}

/**
 * Without the upstream's static fields, which each delivery adds anew. So no credential of the gateway is stored, and no sender's
 * field takes its place.
 */
function fieldsOf (
  { route: { upstream, idempotency }, requestId, forwarded, preferred, steps }: KeyedRequest,
  { rawHeaders, asked: { body } }: Part
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
  return withoutFields(fields, upstream.requestHeaders.map(([name]) => name))
}

/**
 * A message without an order value has no group. A value that cannot be read is refused: the message might belong to a group, and
 * must not overtake it.
 */
export function orderValue (keyed: Pick<KeyedRequest, 'route' | 'rawHeaders'>, { asked: { body } }: Pick<Part, 'asked'>): Value {
  const { order } = inboxOf(keyed)
  return order === null ? { kind: 'none' } : valueAt(order, keyed.rawHeaders, body)
}

/** A value that cannot be read is refused: the message would be delivered at a time that its sender did not mean. */
export function messageSchedule (
  keyed: Pick<KeyedRequest, 'route' | 'rawHeaders'>,
  { asked: { body } }: Pick<Part, 'asked'>,
  nowMs: number
): Schedule {
  const { at, delay, longestMs } = inboxOf(keyed).schedule
  const valueOf = (source: ValueSource | null): Value => source === null ? NO_VALUE : valueAt(source, keyed.rawHeaders, body)
  return scheduleOf(valueOf(at), valueOf(delay), longestMs, nowMs)
}

const NO_VALUE: Value = { kind: 'none' }

function valueAt (source: ValueSource, rawHeaders: RawHeaders, body: Buffer): Value {
  if (source.kind === 'header') return headerText(source.name, rawHeaders)
  const found = lookInto(body, [source.pointer])
  if ('kind' in found) return { kind: 'unfit', why: `cannot be looked for: the body ${found.why}` }
  return bodyValue(new Map(found.map((each) => [source.pointer, each])), source.pointer)
}

/** A value that cannot be read is none: a pause holds back that message alone. */
function tenantOf (keyed: Pick<KeyedRequest, 'route' | 'rawHeaders'>, { asked: { body } }: Pick<Part, 'asked'>): Buffer | null {
  const { retryAfter } = inboxOf(keyed)
  if (retryAfter.kind !== 'value') return null
  const value = valueAt(retryAfter.source, keyed.rawHeaders, body)
  return value.kind === 'value' ? messageTenant(keyed.route.name, value.text) : null
}

export function inboxOf ({ route }: Pick<KeyedRequest, 'route'>): InboxPolicy {
  const { inbox } = route.idempotency
  if (inbox === null) throw new Error(`route ${route.name} has no inbox`)
  return inbox
}
