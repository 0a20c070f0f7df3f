/** The `verify` block, also under its old name `inbox.verify`: its checks, its policy and its warnings. */
import type { IdempotencyPolicy, VerifyPolicy } from '../../core/policy/policy.ts'
import { hasTime, isStandardSecret, STANDARD_SECRET_BYTES } from '../../core/headers/signature.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import type { IdempotencyFile, RouteFile } from './schema.ts'
import { HMAC_DEFAULTS } from './schema-verify.ts'
import type { VerifyFile } from './schema-verify.ts'
import { parseDuration } from '../read/units.ts'

/** Default: the tolerance of senders' own libraries. */
const TOLERANCE = '5m'

export const NO_STANDARD_SECRET = `is no Standard Webhooks secret: whsec_ and the Base64 of ${STANDARD_SECRET_BYTES.min} to ${STANDARD_SECRET_BYTES.max} bytes`

export function checkVerify ({ verify, inbox }: IdempotencyFile, path: Path): Mistake[] {
  const [here, old] = [[...path, 'verify'], [...path, 'inbox', 'verify']]
  if (verify !== undefined && inbox?.verify !== undefined) {
    return [mistake(old, 'conflicts with verify, which is its new name: set only one', 'key')]
  }
  return [
    ...(verify === undefined || verify === 'by-key-id' ? [] : checkScheme(verify, here)),
    ...(inbox?.verify === undefined ? [] : checkScheme(inbox.verify, old))
  ]
}

function checkScheme (verify: VerifyFile, path: Path): Mistake[] {
  const { scheme, secret, previousSecret, tolerance, hmac } = verify
  const at = (name: string) => [...path, name]
  const unfit = (['secret', 'previousSecret'] as const).filter((name) =>
    scheme === 'standard-webhooks' && verify[name] !== undefined && !isStandardSecret(verify[name]))
  return [
    ...(secret === undefined ? [mistake(at('secret'), 'is missing; write secret or secretFile', 'key')] : []),
    ...unfit.map((name) => mistake(at(name), `${NO_STANDARD_SECRET}. If the sender shows it without whsec_, add that`)),
    ...(tolerance !== undefined && !hasTime(scheme)
      ? [mistake(at('tolerance'), `is not used: with scheme ${scheme} no time is signed`, 'key')]
      : []),
    ...(secret !== undefined && secret === previousSecret ? [mistake(at('previousSecret'), 'is the same as secret')] : []),
    ...(scheme === 'hmac' && hmac === undefined ? [mistake(at('hmac'), 'is missing; scheme hmac needs hmac: { header }', 'key')] : []),
    ...(scheme !== 'hmac' && hmac !== undefined ? [mistake(at('hmac'), `is not used: scheme is ${scheme}`, 'key')] : [])
  ]
}

/** The policy has passed checkVerify. null: callers do not sign. */
export function verifyOf ({ verify, inbox }: IdempotencyFile): IdempotencyPolicy['verify'] {
  const written = verify ?? inbox?.verify
  return written === undefined || written === 'by-key-id' ? written ?? null : schemeOf(written)
}

function schemeOf ({ scheme, secret, previousSecret, tolerance, hmac }: VerifyFile): VerifyPolicy {
  return {
    scheme,
    secrets: [secret, previousSecret].filter((text) => text !== undefined),
    toleranceMs: parseDuration(tolerance ?? TOLERANCE) ?? 0,
    hmac: hmac === undefined ? null : { ...HMAC_DEFAULTS, ...hmac, header: hmac.header.toLowerCase() }
  }
}

/** For the start, a reload and `onceway check`. */
export function verifyWarnings (routes: readonly RouteFile[]): string[] {
  const open = routes.flatMap(({ name, idempotency }) => idempotency?.verify === 'by-key-id' ? [name ?? ''] : [])
  const old = routes.flatMap(({ name, idempotency }) => idempotency?.inbox?.verify === undefined ? [] : [name ?? ''])
  return [
    ...(open.length === 0 ? [] : [`verify: by-key-id on ${routesText(open)}: anyone who knows a caller's key id and an Idempotency-Key gets the stored answer. Signatures are not verified here.`]),
    ...(old.length === 0 ? [] : [`inbox.verify on ${routesText(old)} is now verify: write it beside mode. It applies to every request with a key, also to those that are not for the inbox.`])
  ]
}

function routesText (names: readonly string[]): string {
  return `${names.length === 1 ? 'route' : 'routes'} ${names.join(', ')}`
}
