/** A request without a key, whose sender may believe that it has one: the log says so. */
import { spelledName } from '../../core/headers/fields.ts'
import { headersRead } from '../../core/key/sources.ts'
import { mistypedKey } from '../../core/key/mistyped-key.ts'
import type { KeyPolicy } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Notices } from '../shared/notices.ts'

const BECAME = { passed: 'passed unguarded', refused: 'was refused' } as const

/** `became`: what the gateway did with the request. */
export function noteMistyped (
  notices: Notices,
  route: string,
  { sources, header }: KeyPolicy,
  rawHeaders: RawHeaders,
  became: keyof typeof BECAME
): void {
  const read = sources.flatMap(headersRead)
  const sent = read.includes(header) ? mistypedKey(rawHeaders, read) : null
  if (sent !== null) {
    notices.warn(
      'key-mistyped',
      route,
      sent.toLowerCase(),
      { sent, expected: spelledName(header) },
      `a request ${BECAME[became]}: it has no key, but a header whose name looks like a mistyped one`
    )
  }
}
