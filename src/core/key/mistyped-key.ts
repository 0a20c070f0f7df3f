/**
 * Finds a field that was meant as the key but is not read: `Idempotency_Key`, `X-Idempotency-Key`, `Idempotncy-Key`. Used only for requests
 * without a key on a guarded route. Returns a name, never a value.
 */
import { editDistance } from './edit-distance.ts'
import { USUAL_KEY_HEADER } from '../headers/fields.ts'
import { pairs } from '../headers/lines.ts'
import type { RawHeaders } from '../record/record.ts'

/** A longer name is no typing error. */
const NAME_CHARS_MAX = 64
/** Other words for the key, in letters and digits only. */
const MEANT = /^(?:http)?idempot[ea]n(?:cy|(?:t|cy|ce|c)?(?:request)?(?:key|token|id|identifier)s?)$/
/**
 * One typing error is allowed for this many letters. That is two in Idempotency-Key, and none in a short word that is near another word.
 */
const LETTERS_PER_SLIP = 7
const EXPERIMENTAL = /^x[-_]/
const NOT_A_LETTER = /[^a-z0-9]/g
/** Characters that no field name has. Node refuses them, but logs must not depend on that. */
const NO_TOKEN = /[^!#$%&'*+.^_`|~0-9A-Za-z-]/g

/** The name as it was sent, cut. null: there is none. `read`: lower-case names of the fields that the route reads. */
export function mistypedKey (raw: RawHeaders, read: readonly string[]): string | null {
  const wanted = [USUAL_KEY_HEADER, ...read].map(lettersOf)
  for (const [name] of pairs(raw)) {
    const lower = name.toLowerCase()
    if (read.includes(lower)) continue
    const letters = lettersOf(lower)
    if (MEANT.test(letters) || wanted.some((word) => isSlip(letters, word))) return name.slice(0, NAME_CHARS_MAX).replaceAll(NO_TOKEN, '?')
  }
  return null
}

function lettersOf (lower: string): string {
  return lower.replace(EXPERIMENTAL, '').replaceAll(NOT_A_LETTER, '')
}

/** Compares lengths first: this runs on every field. */
function isSlip (letters: string, word: string): boolean {
  const slipsMax = Math.floor(word.length / LETTERS_PER_SLIP)
  return Math.abs(letters.length - word.length) <= slipsMax && editDistance(letters, word) <= slipsMax
}
