/**
 * Why a bearer token is refused, in the words of the log, the problem and the challenge (RFC 6750 3). A closed list. None of them has any
 * part of the token or its claims.
 */
export type TokenFault =
  | 'expired' | 'not-yet-valid' | 'wrong-issuer' | 'wrong-audience' | 'unknown-key' | 'bad-signature'
  | 'unsupported-algorithm' | 'malformed'

/** Printable ASCII without quotation marks, because they go into a quoted string of a header field. */
const SENTENCES: Readonly<Record<TokenFault, string>> = {
  expired: 'The token has expired.',
  'not-yet-valid': 'The token is not valid yet.',
  'wrong-issuer': 'The token is of another issuer.',
  'wrong-audience': 'The token is for another audience.',
  'unknown-key': 'The token is not signed with a key that is known here.',
  'bad-signature': 'The signature of the token is wrong.',
  'unsupported-algorithm': 'The token is signed in a way that is not supported here.',
  malformed: 'The token is malformed.'
}

export function tokenDetail (fault: TokenFault): string {
  return `${SENTENCES[fault]} Nothing was sent; send the same request again with a token that is valid.`
}

export function tokenChallenge (fault: TokenFault): string {
  return `Bearer error="invalid_token", error_description="${SENTENCES[fault]}"`
}

/** For example `TOKEN_EXPIRED`. */
export function faultReason (fault: TokenFault): string {
  return `TOKEN_${fault.toUpperCase().replaceAll('-', '_')}`
}
