/** Which names may stand for a header field in the file. */
import { isForwarded, plainName } from '../../core/headers/fields.ts'
import { TOKEN_PATTERN } from '../read/schema-words.ts'

export function isToken (text: string): boolean {
  return new RegExp(TOKEN_PATTERN).test(text)
}

/** The gateway drops these fields, or writes them itself. */
const NOT_FORWARDED = /^(content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|http2-settings|proxy-connection|proxy-authenticate|expect|accept-encoding|onceway-.*|idempotency-attempt)$/

/**
 * The upstream does not get this field as the client sent it, so a key, a scope or a fingerprint must not use it. `name` is
 * in lower case. Other spellings of `Host` and of forwarding fields (`X_Forwarded_For`) are dropped from every sender.
 */
export function isNotForwarded (name: string): boolean {
  const plain = plainName(name)
  return NOT_FORWARDED.test(plain) || (plain !== name && (isForwarded(plain) || plain === 'host'))
}
