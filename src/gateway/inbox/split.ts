/**
 * Splits a batch into messages. Each event has its own identity, found in its own body, or the whole batch is refused. This
 * file reads and decides. accept.ts writes all messages in one transaction.
 */
import { itemHeaders, splitBatch } from '../../core/inbox/batch.ts'
import type { Batch, BatchItem } from '../../core/inbox/batch.ts'
import { fingerprintOf } from '../../core/fingerprint/fingerprint.ts'
import type { KeyInput } from '../../core/policy/key-source.ts'
import { findKey } from '../../core/key/sources.ts'
import type { FoundKey } from '../../core/key/sources.ts'
import type { Rules } from '../../core/record/rules.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'
import { keyHashOf } from '../shared/ids.ts'
import type { Identified } from '../shared/ids.ts'
import { ONE } from '../execution/modes.ts'
import type { Split, SplitMessage, Splittable } from '../execution/modes.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

/**
 * Call it before the body is searched for a key. A preset could find the first event's key, or take the batch for a request that
 * it does not know. With a key in the head, the whole request is one message.
 */
export function splitRequest (request: Splittable, body: Buffer, nowMs: KeyInput['nowMs'], rules: Rules): Split {
  const { inbox: policy, inboxFor } = request.route.idempotency
  // `async: allowed` answers a request as one message.
  if (policy === null || inboxFor === 'asked') return ONE
  const batch = splitBatch(request.rawHeaders, body)
  if (batch.kind === 'single' || (policy.batch === 'refuse' && !holdsEvents(batch))) return ONE
  if (batch.kind === 'bad') {
    // A smaller batch is refused here, too.
    if (batch.tooLarge && policy.batch === 'refuse') return refused(rejected('key-invalid', `${SEVERAL} ${NONE_ACCEPTED}`))
    return refused(rejected(batch.tooLarge ? 'request-too-large' : 'bad-request', `${batch.detail} ${NONE_ACCEPTED}`))
  }
  if (policy.batch === 'refuse') return refused(rejected('key-invalid', `${togetherText(batch.items.length)} ${NONE_ACCEPTED}`))
  return messagesOf(request, batch.items, nowMs, rules)
}

/**
 * Without `batch: split`, an array that no event sender makes is an ordinary document. A batch by media type is a batch even with
 * one event.
 */
function holdsEvents ({ format }: Exclude<Batch, { kind: 'single' }>): boolean {
  return format !== 'array'
}

const SEVERAL = 'The request holds several events, which have no identity together. Send them one by one.'

function togetherText (events: number): string {
  return events === 1
    ? 'The request is a batch, though it holds one event. Send events one by one, under the media type of one.'
    : `The request holds ${events} events, which have no identity together. Send them one by one.`
}

function messagesOf (request: Splittable, items: readonly BatchItem[], nowMs: KeyInput['nowMs'], rules: Rules): Split {
  const { route, method, target } = request
  const { key: keyPolicy, fingerprint: fingerprintPolicy } = route.idempotency
  // Every item has the same fields, because it has the same media type.
  const rawHeaders = itemHeaders(request.rawHeaders, items[0]?.contentType ?? null)
  const messages = new Map<string, SplitMessage>()
  for (const [index, { body }] of items.entries()) {
    const found = findKey(keyPolicy, { rawHeaders, target, match: route.match, nowMs }, body)
    if (found.kind !== 'key') return refused(keyless(found, index))
    const { key, source = null } = found
    const fingerprint = fingerprintOf({ method, target, rawHeaders, body }, fingerprintPolicy, rules)
    const first = messages.get(key)
    if (first === undefined) {
      messages.set(key, { key, source, fingerprint, rules, rawHeaders, body, items: [index] })
    } else if (first.fingerprint.alg !== fingerprint.alg || !first.fingerprint.value.equals(fingerprint.value)) {
      return refused(
        rejected('key-reused', `Items ${first.items[0]} and ${index} of the batch have the same key, and are not the same. ${NONE_ACCEPTED}`)
      )
    } else {
      messages.set(key, { ...first, items: [...first.items, index] })
    }
  }
  const [first, ...others] = messages.values()
  return first === undefined ? ONE : { kind: 'several', messages: [first, ...others] }
}

/** One event as a part of its request. */
export function partOf (
  keyed: KeyedRequest,
  { key, source, fingerprint, rules, rawHeaders, body, items }: SplitMessage,
  identified: Identified
): Part {
  const { route } = keyed
  const { key: { store, windowMs }, retentionMs } = route.idempotency
  const { id, name, scheme, earlierId, keys } = identified
  const asked = { ...keyed.asked, rawHeaders, body }
  return {
    id,
    name,
    identified,
    asked,
    rawHeaders,
    items,
    claim: {
      scheme,
      earlierId,
      fingerprint: keys.rules === rules ? fingerprint : fingerprintOf(asked, route.idempotency.fingerprint, keys.rules)
    },
    retentionMs: source?.kind === 'hash' ? windowMs : retentionMs,
    about: () => ({ ...keyed.about(), keyHash: keyHashOf(identified), keyText: store === 'text' ? key : null })
  }
}

function keyless (found: Exclude<FoundKey, { kind: 'key' }>, index: number): Rejected {
  const here = `Item ${index} of the batch:`
  switch (found.kind) {
    case 'missing': return rejected('key-missing', `${here} ${found.detail} ${NONE_ACCEPTED}`)
    case 'invalid': return rejected('key-invalid', `${here} ${found.detail} ${NONE_ACCEPTED}`)
    case 'too-old': return rejected('key-too-old', `${here} ${found.detail} ${NONE_ACCEPTED}`)
    case 'passes': return rejected('key-invalid', `${here} It is no event (${found.why}). ${NONE_ACCEPTED}`)
    case 'absent':
    case 'body': return rejected('key-missing', `${here} It has no key. ${NONE_ACCEPTED}`)
  }
}

/** No part of it was written. */
export const NONE_ACCEPTED = 'Nothing of this request was accepted.'

function refused (outcome: Rejected): Split {
  return { kind: 'refused', outcome }
}
