/**
 * Verifies bearer tokens for `jwt:` scopes with jose, against a JWK set in a file or at a URL. It does not interpret
 * claims, and never accepts a token that it cannot verify.
 */
import { readFile } from 'node:fs/promises'
import { createLocalJWKSet, createRemoteJWKSet, customFetch, errors, jwtVerify } from 'jose'
import type { FetchImplementation, JSONWebKeySet, JWTVerifyGetKey } from 'jose'
import type { JwtPolicy } from '../core/policy/policy.ts'
import type { TokenFault } from '../core/headers/token.ts'
import type { ClaimsResult, TokenVerifier } from '../ports/tokens.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/telemetry.ts'

/** A claim waits for this. A slower key server counts as down. */
const FETCH_TIMEOUT_MS = 2_000
/** For unknown key ids, keys are fetched at most once in COOLDOWN_MS. In any case they are fetched after CACHE_MAX_AGE_MS. */
const COOLDOWN_MS = 30_000
const CACHE_MAX_AGE_MS = 10 * 60_000
/**
 * After a failed read, further requests fail at once for this long. If a key server hangs, only one request in this
 * time waits for it. The time is short beside an outage of minutes, so the next retries of a client notice its end.
 */
const FAILED_FOR_MS = 5_000
/** Clocks differ, and tokens are short-lived. */
const CLOCK_TOLERANCE_S = 30

export interface VerifierOptions { readonly clock: Pick<Clock, 'monotonicMs'>, readonly log: Log }

export class JoseVerifier implements TokenVerifier {
  readonly #options: VerifierOptions
  readonly #keySets = new Map<string, JWTVerifyGetKey>()

  constructor (options: VerifierOptions) {
    this.#options = options
  }

  async verify (policy: JwtPolicy, token: string): Promise<ClaimsResult> {
    try {
      const { payload } = await jwtVerify(token, this.#keys(policy.jwks), {
        clockTolerance: CLOCK_TOLERANCE_S,
        ...(policy.issuer === null ? {} : { issuer: policy.issuer }),
        ...(policy.audience === null ? {} : { audience: policy.audience })
      })
      return { kind: 'claims', claims: payload }
    } catch (error) {
      const fault = faultOf(error)
      return fault === null ? { kind: 'unavailable' } : { kind: 'invalid', fault }
    }
  }

  /** A reload: key sets in files are read again at their next use. Those at URLs are fetched again anyway. */
  forgetFiles (): void {
    for (const jwks of Array.from(this.#keySets.keys())) if (!isUrl(jwks)) this.#keySets.delete(jwks)
  }

  #keys (jwks: string): JWTVerifyGetKey {
    const known = this.#keySets.get(jwks)
    if (known !== undefined) return known
    const keys = isUrl(jwks)
      ? remoteKeys(new URL(jwks), new KeySetReader({ url: jwks }, this.#options))
      : fileKeys(jwks, new KeySetReader({ file: jwks }, this.#options))
    this.#keySets.set(jwks, keys)
    return keys
  }
}

/** jose shares one fetch between concurrent requests. If a fetch for an unknown key id fails, it keeps its keys. */
function remoteKeys (url: URL, reading: KeySetReader): JWTVerifyGetKey {
  const ask: FetchImplementation = async (href, init) => reading.attempt(async () => {
    const response = await fetch(href, init)
    if (response.status !== OK) {
      await response.body?.cancel()
      throw new Error(`HTTP_${response.status}`)
    }
    const text = await response.text()
    // Text that is no key set is a failure too. jose would find that out only outside of this attempt.
    keySetOf(text)
    return new Response(text)
  })
  return createRemoteJWKSet(url, {
    timeoutDuration: FETCH_TIMEOUT_MS,
    cooldownDuration: COOLDOWN_MS,
    cacheMaxAge: CACHE_MAX_AGE_MS,
    [customFetch]: ask
  })
}

const OK = 200

function fileKeys (file: string, reading: KeySetReader): JWTVerifyGetKey {
  let read: Promise<JWTVerifyGetKey> | null = null
  return async (header, token) => {
    read ??= reading.attempt(async () => keySetOf(await readFile(file, 'utf8')))
    const keys = await read.catch((error: unknown) => {
      read = null
      throw error
    })
    return keys(header, token)
  }
}

function keySetOf (text: string): ReturnType<typeof createLocalJWKSet> {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    // The error of JSON.parse would show a part of the file.
    throw new Error('it is no JSON')
  }
  return createLocalJWKSet(json as JSONWebKeySet)
}

/** Reads one key set. A failure holds for a while for all requests, and is logged once. */
class KeySetReader {
  /** For the log. */
  readonly #where: { readonly file: string } | { readonly url: string }
  readonly #options: VerifierOptions
  #failed: { readonly error: unknown, readonly atMs: number } | null = null

  constructor (where: { readonly file: string } | { readonly url: string }, options: VerifierOptions) {
    this.#where = where
    this.#options = options
  }

  async attempt<T> (read: () => Promise<T>): Promise<T> {
    const { clock, log } = this.#options
    if (this.#failed !== null && clock.monotonicMs() - this.#failed.atMs < FAILED_FOR_MS) throw this.#failed.error
    try {
      const value = await read()
      this.#failed = null
      return value
    } catch (error) {
      this.#failed = { error, atMs: clock.monotonicMs() }
      log.warn(
        { event: 'jwt-keys-unavailable', ...this.#where, error: textOf(error) },
        'the keys that verify tokens cannot be read; requests that need them get 503 scope-unavailable'
      )
      throw error
    }
  }
}

/** fetch reports only "fetch failed", and the reason is in its cause. An error about a URL repeats the URL with its credentials. */
function textOf (error: unknown): string {
  const { message, code } = (error instanceof Error && error.cause instanceof Error ? error.cause : error) as NodeJS.ErrnoException
  return (message === '' ? code ?? '' : message).replace(CREDENTIALS, '//')
}

const CREDENTIALS = /\/\/[^/@\s]*@/g

function isUrl (jwks: string): boolean {
  return /^https?:\/\//i.test(jwks)
}

/** null: the token is not at fault. The keys, or the path to them, are. */
function faultOf (error: unknown): TokenFault | null {
  if (error instanceof errors.JWTExpired) return 'expired'
  if (error instanceof errors.JWTClaimValidationFailed) return claimFault(error)
  // If several keys fit and the token names none, the right one is not known.
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) return 'unknown-key'
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'bad-signature'
  if (error instanceof errors.JOSENotSupported || error instanceof errors.JOSEAlgNotAllowed) return 'unsupported-algorithm'
  return error instanceof errors.JWTInvalid || error instanceof errors.JWSInvalid ? 'malformed' : null
}

function claimFault ({ claim, reason }: errors.JWTClaimValidationFailed): TokenFault {
  switch (claim) {
    case 'iss': return 'wrong-issuer'
    case 'aud': return 'wrong-audience'
    // Otherwise it is not a date.
    case 'nbf': return reason === 'check_failed' ? 'not-yet-valid' : 'malformed'
    default: return 'malformed'
  }
}
