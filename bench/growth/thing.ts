/**
 * The one request that the growth and memory runs ask, the answer that belongs to each key, and the keys. What a key's
 * answer must be follows from the key alone, so that every answer can be checked without being kept. Pure.
 */
export const ROUTE = 'bench'
/** What `scope: public` calls a caller without a credential; part of every record's id. */
export const SCOPE = 'anonymous'
export const PATH = '/v1/things'
/** About 300 bytes, as a small API call has. */
export const REQUEST_BODY = JSON.stringify({
  amount: 1_999,
  currency: 'eur',
  description: 'one thing',
  metadata: { padding: 'x'.repeat(200) }
})
export const ANSWER_STATUS = 201
/** About 150 bytes once they are encoded. */
export const ANSWER_HEADERS = {
  'Content-Type': 'application/json; charset=utf-8',
  'Cache-Control': 'no-store',
  Location: '/v1/things/thing_1N2Xk5Lk',
  'Thing-Version': '2026-01-01'
} as const
const ANSWER_BYTES = 500

/** `made`: executed through a gateway. `seed`: written into the table, never executed. */
export type KeyKind = 'made' | 'seed'

/** Of one length, so that the seeder can frame it in SQL. */
const DIGITS = 12
export const KEY_CHARS = 'made-'.length + DIGITS

export function keyOf (kind: KeyKind, number: number): string {
  return `${kind}-${String(number).padStart(DIGITS, '0')}`
}

/** null: none of ours. */
export function parseKey (key: string): { readonly kind: KeyKind, readonly number: number } | null {
  const [, kind, digits] = /^(made|seed)-(\d{12})$/.exec(key) ?? []
  return kind === undefined ? null : { kind: kind as KeyKind, number: Number(digits) }
}

/** What stands before and behind the key in its answer; {@link answerOf} and the seeder's SQL put it together. */
export const ANSWER_HEAD = '{"key":"'
export const ANSWER_TAIL = `","padding":"${'y'.repeat(ANSWER_BYTES - ANSWER_HEAD.length - KEY_CHARS - '","padding":""}'.length)}"}`

export function answerOf (key: string): string {
  return `${ANSWER_HEAD}${key}${ANSWER_TAIL}`
}
