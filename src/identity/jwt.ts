/**
 * Verifies bearer tokens for `jwt:` scopes with jose, against a JWK set in a file or at a URL. Never decides what a claim
 * means, and never accepts a token that it cannot verify.
 */
import { readFile } from 'node:fs/promises'
import { createLocalJWKSet, createRemoteJWKSet, errors, jwtVerify } from 'jose'
import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose'
import type { JwtPolicy } from '../core/policy.ts'
import type { ClaimsResult, TokenVerifier } from '../ports.ts'

/** A claim waits behind this: a key server that is slower is as good as down. */
const FETCH_TIMEOUT_MS = 2_000
/** Keys are fetched again at most this often for unknown key ids, and at least this often in all. */
const COOLDOWN_MS = 30_000
const CACHE_MAX_AGE_MS = 10 * 60_000
/** Clocks differ; tokens are short-lived. */
const CLOCK_TOLERANCE_S = 30

export class JoseVerifier implements TokenVerifier {
  readonly #keySets = new Map<string, Promise<JWTVerifyGetKey>>()

  async verify (policy: JwtPolicy, token: string): Promise<ClaimsResult> {
    try {
      const keys = await this.#keys(policy.jwks)
      const { payload } = await jwtVerify(token, keys, {
        clockTolerance: CLOCK_TOLERANCE_S,
        ...(policy.issuer === null ? {} : { issuer: policy.issuer }),
        ...(policy.audience === null ? {} : { audience: policy.audience })
      })
      return { kind: 'claims', claims: payload }
    } catch (error) {
      return { kind: isVerdict(error) ? 'invalid' : 'unavailable' }
    }
  }

  /** A reload: key sets in files are read again when next asked for. Those at URLs are fetched anew by themselves. */
  forgetFiles (): void {
    for (const jwks of Array.from(this.#keySets.keys())) if (!isUrl(jwks)) this.#keySets.delete(jwks)
  }

  async #keys (jwks: string): Promise<JWTVerifyGetKey> {
    const known = this.#keySets.get(jwks) ?? open(jwks)
    this.#keySets.set(jwks, known)
    try {
      return await known
    } catch (error) {
      this.#keySets.delete(jwks)
      throw error
    }
  }
}

async function open (jwks: string): Promise<JWTVerifyGetKey> {
  if (isUrl(jwks)) return createRemoteJWKSet(new URL(jwks), { timeoutDuration: FETCH_TIMEOUT_MS, cooldownDuration: COOLDOWN_MS, cacheMaxAge: CACHE_MAX_AGE_MS })
  return createLocalJWKSet(JSON.parse(await readFile(jwks, 'utf8')) as JSONWebKeySet)
}

function isUrl (jwks: string): boolean {
  return /^https?:/.test(jwks)
}

/** The token is to blame, not the way to the keys. */
function isVerdict (error: unknown): boolean {
  return error instanceof errors.JOSEError && !(error instanceof errors.JWKSTimeout) && !(error instanceof errors.JWKSInvalid) && error.code !== 'ERR_JOSE_GENERIC'
}
