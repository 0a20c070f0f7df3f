/** The `fingerprint` block: its checks, and its policy with defaults. */
import { HOP_BY_HOP, isGatewayField, plainName } from '../../core/headers/fields.ts'
import { readPointer } from '../../core/json/pointer.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import { headersRead } from '../../core/key/sources.ts'
import type { FingerprintPolicy } from '../../core/policy/policy.ts'
import { isNotForwarded } from './header-names.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import { FINGERPRINT_DEFAULTS } from './schema.ts'
import type { IdempotencyFile } from './schema.ts'

type Written = Exclude<NonNullable<IdempotencyFile['fingerprint']>, 'none'>

/** The policy with the profile's defaults. If `of` leaves the body out, `body` is none, and the reverse. */
export function fingerprintOf ({ profile, fingerprint }: Pick<IdempotencyFile, 'profile' | 'fingerprint'>): FingerprintPolicy {
  if (fingerprint === 'none') return { of: [], body: 'none' }
  if (fingerprint === undefined) return FINGERPRINT_DEFAULTS[profile]
  const { query, ignore, only, headers } = fingerprint
  const { of, body } = partsOf(profile, fingerprint)
  return {
    of,
    body,
    ...(query === 'unordered' && { query }),
    ...(ignore !== undefined && { ignore }),
    ...(only !== undefined && { only }),
    ...(headers !== undefined && { headers: headers.map((name) => name.toLowerCase()) })
  }
}

/** If the file sets parts or bodies, the rest is the default of `api`. If it sets only `query` or `headers`, that of its profile. */
function partsOf (profile: IdempotencyFile['profile'], { of, body, ignore, only }: Written): Pick<FingerprintPolicy, 'of' | 'body'> {
  const members = ignore !== undefined || only !== undefined
  if (of === undefined && body === undefined && !members) return FINGERPRINT_DEFAULTS[profile]
  const written = { of: of ?? FINGERPRINT_DEFAULTS.api.of, body: members ? 'json' : body ?? FINGERPRINT_DEFAULTS.api.body } as const
  const withBody = written.body !== 'none' && written.of.includes('body')
  return { of: written.of.filter((part) => part !== 'body' || withBody), body: withBody ? written.body : 'none' }
}

/** `sources`: of the route's key. `path`: of its policy. */
export function checkFingerprint (
  { profile, fingerprint }: Pick<IdempotencyFile, 'profile' | 'fingerprint'>,
  sources: readonly KeySource[],
  path: Path
): Mistake[] {
  if (fingerprint === undefined || fingerprint === 'none') return []
  const at = (...rest: Path) => [...path, 'fingerprint', ...rest]
  const { of } = partsOf(profile, fingerprint)
  return [
    ...(fingerprint.ignore !== undefined && fingerprint.only !== undefined
      ? [mistake(at('only'), 'excludes ignore: either some members are ignored, or only some are compared', 'key')]
      : []),
    ...(['ignore', 'only'] as const).flatMap((word) => checkMembers(fingerprint, word, at)),
    ...(fingerprint.query === 'unordered' && !of.includes('target')
      ? [mistake(at('query'), 'has no effect: the target is not compared')]
      : []),
    ...checkHeaders(fingerprint.headers ?? [], sources, at)
  ]
}

function checkMembers (written: Written, word: 'ignore' | 'only', at: (...rest: Path) => Path): Mistake[] {
  const pointers = written[word]
  if (pointers === undefined) return []
  const { body, of } = written
  return [
    ...(body === undefined || body === 'json'
      ? []
      : [mistake(at('body'), `cannot be ${body} with ${word}, which names members of a JSON body; write json, or leave it out`)]),
    ...(of === undefined || of.includes('body')
      ? []
      : [mistake(at('of'), `leaves the body out, and ${word} names members of it; add body`)]),
    ...pointers.flatMap((pointer, index) => wrongPointer(pointer).map((message) => mistake(at(word, index), message)))
  ]
}

function wrongPointer (pointer: string): string[] {
  if (pointer === '') return ['is the whole document; name a member, or write body: none']
  return readPointer(pointer) === null
    ? ['is no JSON pointer; write /name or /list/0/name, with ~1 for a slash and ~0 for a tilde in a name']
    : []
}

function checkHeaders (headers: readonly string[], sources: readonly KeySource[], at: (...rest: Path) => Path): Mistake[] {
  const lower = headers.map((name) => name.toLowerCase())
  const ofKey = new Set(sources.flatMap(headersRead))
  return lower.flatMap((name, index) => {
    const wrong = lower.indexOf(name) < index ? `is there twice (${name})` : wrongHeader(name, ofKey)
    return wrong === null ? [] : [mistake(at('headers', index), wrong)]
  })
}

const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie', 'x-api-key'])

function wrongHeader (name: string, ofKey: ReadonlySet<string>): string | null {
  if (CREDENTIALS.has(name)) return `cannot be ${name}: a credential may change between two retries; use scope for it`
  if (ofKey.has(name)) return `cannot be ${name}: it is part of the key, so another value is another record`
  if (HOP_BY_HOP.has(name)) return `cannot be ${name}: it belongs to one connection`
  if (isGatewayField(plainName(name))) return `cannot be ${name}: the gateway sets it itself`
  return isNotForwarded(name) ? `cannot be ${name}: the upstream does not get that field unchanged` : null
}
