/**
 * A field that was meant to be the key and is not read: `Idempotency_Key`, `X-Idempotency-Key`, `Idempotent-Token`. Asked only of
 * requests without a key on a guarded route. Says a name, never a value.
 */
import { plainName } from './fields.ts'
import { pairs } from './lines.ts'
import type { RawHeaders } from './record.ts'

/** Longer is nobody's slip. */
const SHOWN_MAX = 64
/** Of letters and digits alone. */
const MEANT = /^(?:x|http)?idempot[ea]n(?:t|cy|ce|c)?(?:request)?(?:key|token|id|identifier)s?$/
const NOT_A_LETTER = /[^a-z0-9]/g
/** What no field name has. Node refuses it; logs must not depend on that. */
const NO_TOKEN = /[^!#$%&'*+.^_`|~0-9A-Za-z-]/g

/** The name as it was sent, cut; null: there is none. `read`: lower-case names of the fields that the route does read. */
export function mistypedKey (raw: RawHeaders, read: readonly string[]): string | null {
  const wanted = read.map(plainName)
  for (const [name] of pairs(raw)) {
    const lower = name.toLowerCase()
    if (read.includes(lower)) continue
    if (wanted.includes(plainName(lower)) || MEANT.test(lower.replaceAll(NOT_A_LETTER, ''))) return name.slice(0, SHOWN_MAX).replaceAll(NO_TOKEN, '?')
  }
  return null
}
