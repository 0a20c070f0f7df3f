/**
 * Seals what a browser keeps for the gateway: JWE by jose (`dir`, A256GCM), with an end. Every gateway with the same key opens it. Each
 * kind has a key of its own, so that one kind never passes for another.
 */
import { createHmac, hkdfSync } from 'node:crypto'
import { EncryptJWT, jwtDecrypt } from 'jose'

/** A session, or what a browser keeps while it is at the identity provider. */
export type SealedKind = 'session' | 'sign-in'

/** A256GCM, and HMAC with SHA-256. */
const KEY_BYTES = 32
/** Browsers keep at most 4096 bytes for a cookie. Longer texts are not opened at all. */
const SEALED_CHARS_MAX = 4096

export interface SealedTimes { readonly nowMs: number, readonly endMs: number }

export class Seal {
  readonly #keys: Readonly<Record<SealedKind, Uint8Array>>
  readonly #macKey: Uint8Array

  /** `secret`: at least 32 random bytes. */
  constructor (secret: string | Buffer) {
    const derived = (purpose: string) => new Uint8Array(hkdfSync('sha256', secret, '', `onceway operators: ${purpose}`, KEY_BYTES))
    this.#keys = { session: derived('session'), 'sign-in': derived('sign-in') }
    this.#macKey = derived('csrf')
  }

  async close (kind: SealedKind, content: Readonly<Record<string, unknown>>, { nowMs, endMs }: SealedTimes): Promise<string> {
    return new EncryptJWT({ ...content })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', typ: kind })
      .setIssuedAt(new Date(nowMs))
      .setExpirationTime(new Date(endMs))
      .encrypt(this.#keys[kind])
  }

  /** null: it is over, altered, of another key or of another kind. `iat` and `exp` are in seconds. */
  async open (kind: SealedKind, text: string, nowMs: number): Promise<Readonly<Record<string, unknown>> | null> {
    if (text.length > SEALED_CHARS_MAX) return null
    try {
      const { payload } = await jwtDecrypt(text, this.#keys[kind], {
        keyManagementAlgorithms: ['dir'],
        contentEncryptionAlgorithms: ['A256GCM'],
        typ: kind,
        requiredClaims: ['iat', 'exp'],
        currentDate: new Date(nowMs)
      })
      return payload
    } catch {
      return null
    }
  }

  /** A code that only a gateway with the key can make. */
  mac (text: string): Buffer {
    return createHmac('sha256', this.#macKey).update(text).digest()
  }
}
