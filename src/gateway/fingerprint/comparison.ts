/** Is what stands under a key there for this request? By its fingerprint, and by what its route makes of a mismatch. */
import { sameRequest } from '../../core/fingerprint/fingerprint.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { KeyedRequest, Part } from './keyed-request.ts'

export type Comparison = 'same' | 'different' | 'unknown'

/** onMismatch: replay — what is stored answers any payload. */
export function replaysMismatch ({ route }: Pick<KeyedRequest, 'route'>): boolean {
  return route.idempotency.onMismatch.action === 'replay'
}

/** A message of the inbox; where the route replays on a mismatch, any request of its key is the same. */
export function compareMessage (
  keyed: Pick<KeyedRequest, 'route'>,
  part: Pick<Part, 'asked' | 'claim'>,
  message: MessageDetail
): Comparison {
  const comparison = sameRequest(part.asked, part.claim.fingerprint, message.fingerprint)
  return comparison === 'different' && replaysMismatch(keyed) ? 'same' : comparison
}
