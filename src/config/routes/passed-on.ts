/** Does the upstream get a field as it came? What rests on one that it does not get, rests on something that it never sees. */
import { isForwarded, plainName } from '../../core/headers/fields.ts'

/** Fields that end here, or are written anew. */
const NOT_PASSED_ON = /^(content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|http2-settings|proxy-connection|proxy-authenticate|expect|accept-encoding|onceway-.*|idempotency-attempt)$/

/** `name` in lower case. Another spelling of a field of ours, or of one that frames the message, is dropped wherever it comes from. */
export function isLost (name: string): boolean {
  const plain = plainName(name)
  return NOT_PASSED_ON.test(plain) || (plain !== name && (isForwarded(plain) || plain === 'host'))
}
