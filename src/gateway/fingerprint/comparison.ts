/** Compares a request with the message that is stored under its key, by the fingerprint and the route's `onMismatch`. */
import { sameRequest } from '../../core/fingerprint/fingerprint.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { KeyedRequest, Part } from './keyed-request.ts'

export type Comparison = 'same' | 'different' | 'unknown'

/** `onMismatch: replay`: the stored answer is replayed for any payload. */
export function replaysMismatch ({ route }: Pick<KeyedRequest, 'route'>): boolean {
  return route.idempotency.onMismatch.action === 'replay'
}

/** For a message of the inbox. With `onMismatch: replay`, every request with its key is the same. */
export function compareMessage (
  keyed: Pick<KeyedRequest, 'route'>,
  part: Pick<Part, 'asked' | 'claim'>,
  message: MessageDetail
): Comparison {
  return comparedMessage(keyed, sameRequest(part.asked, part.claim.fingerprint, message.fingerprint))
}

/** `comparison`: that of the fingerprints. */
export function comparedMessage (keyed: Pick<KeyedRequest, 'route'>, comparison: Comparison): Comparison {
  return comparison === 'different' && replaysMismatch(keyed) ? 'same' : comparison
}
