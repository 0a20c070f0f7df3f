/** Names of operators from outside: a claim of an identity provider, a header of a proxy. They are written to the audit and shown. */

/** Long enough for an address of a mail box, short enough for a line of the audit. */
const NAME_CHARS_MAX = 128
/** Control characters, and those that are invisible or reverse the direction of text. One name could look like another. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/u

export function isOperatorName (value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= NAME_CHARS_MAX && !UNSEEN.test(value) && value.trim() === value
}
