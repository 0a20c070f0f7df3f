import { spelledName } from '../../core/headers/fields.ts'
import { headersRead } from '../../core/key/sources.ts'
import { mistypedKey } from '../../core/key/mistyped-key.ts'
import type { KeyPolicy } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Notices } from '../shared/notices.ts'

const TREATMENTS = { passed: 'passed unguarded', refused: 'was refused' } as const

/** Warns about a request without a key that has a header with a similar name. `treatment`: what the gateway did with the request. */
export function warnMistypedKey (
  notices: Notices,
  route: string,
  { sources, header }: KeyPolicy,
  rawHeaders: RawHeaders,
  treatment: keyof typeof TREATMENTS
): void {
  const read = sources.flatMap(headersRead)
  const sent = read.includes(header) ? mistypedKey(rawHeaders, read) : null
  if (sent !== null) {
    notices.warn(
      'key-mistyped',
      route,
      sent.toLowerCase(),
      { sent, expected: spelledName(header) },
      `a request ${TREATMENTS[treatment]}: it has no key, but a header whose name looks like a mistyped one`
    )
  }
}
