/**
 * OASIS Repeatable Requests 1.0: the client says when it first sent the request. A request older than the oldest record is refused, because
 * no record can prove whether it was done. A younger one still has its record, or never had one.
 */
import type { KeyInput, KeySource, CustomKey, SourcedKey } from '../policy/key-source.ts'
import { headerText, invalidKey, keyOfParts } from './values.ts'
import { headerLines } from '../headers/lines.ts'
import type { RawHeaders } from '../record/record.ts'

/** How far a client's clock may be from ours. The allowed age of a request is shorter by this. */
export const CLOCKS_APART_MS = 5 * 60_000

const REQUEST_ID = 'repeatability-request-id'
const FIRST_SENT = 'repeatability-first-sent'
const CLIENT_ID = 'repeatability-client-id'

export function repeatabilityKey (): CustomKey {
  return {
    kind: 'custom',
    headers: [REQUEST_ID, FIRST_SENT, CLIENT_ID],
    pointers: [],
    needsBody: () => false,
    find: (input, _values, windowMs) => find(input, windowMs)
  }
}

/** Whether the answer gets a `Repeatability-Result`. */
export function isRepeatable (sources: readonly KeySource[], rawHeaders: RawHeaders): boolean {
  return sources.some((source) => source.kind === 'preset' && source.preset.name === 'repeatability') &&
    [REQUEST_ID, FIRST_SENT].some((name) => headerLines(rawHeaders, name).length > 0)
}

function find ({ rawHeaders, nowMs }: KeyInput, windowMs: number): SourcedKey {
  const [id, sent, client] = [headerText(REQUEST_ID, rawHeaders), headerText(FIRST_SENT, rawHeaders), headerText(CLIENT_ID, rawHeaders)]
  if (id.kind === 'none' && sent.kind === 'none') return { kind: 'absent' }
  if (sent.kind === 'none') return { kind: 'missing', detail: `A request with ${REQUEST_ID} needs ${FIRST_SENT} too.` }
  const at = sent.kind === 'value' ? readImfFixdate(sent.text) : null
  if (at === null) {
    return { kind: 'invalid', detail: `The ${FIRST_SENT} header is not one date like "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 5.6.7).` }
  }
  const key = keyOfParts([
    { value: client.kind === 'none' ? { kind: 'value', text: '' } : client, what: `the ${CLIENT_ID} header` },
    { value: id, what: `the ${REQUEST_ID} header` }
  ])
  if (key.kind !== 'key') return key
  const ageMs = nowMs() - at
  if (ageMs < -CLOCKS_APART_MS) return invalidKey(`first sent at the time in ${FIRST_SENT}`, 'has not come yet')
  return ageMs > windowMs - CLOCKS_APART_MS ? { kind: 'too-old', detail: TOO_OLD } : key
}

const TOO_OLD = `The request was first sent (${FIRST_SENT}) longer ago than requests are remembered here, so nobody can tell whether it was done. Nothing was sent.`

const IMF_FIXDATE =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$/

/** Exactly that form, and a date that exists. */
function readImfFixdate (text: string): number | null {
  const at = IMF_FIXDATE.test(text) ? Date.parse(text) : NaN
  return !Number.isNaN(at) && new Date(at).toUTCString() === text ? at : null
}
