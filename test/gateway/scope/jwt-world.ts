/** Issuers of tokens, and key sets that verify them: in a file, or on a server that counts requests. */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { CryptoKey, JWTPayload } from 'jose'
import type { IdempotencyPolicy, JwtPolicy } from '../../../src/core/policy/policy.ts'

export interface Issuer { readonly jwks: string, readonly privateKey: CryptoKey, readonly kid: string }

export async function makeIssuer (kid = 'one'): Promise<Issuer> {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  return { jwks: JSON.stringify({ keys: [{ ...await exportJWK(publicKey), kid, alg: 'ES256' }] }), privateKey, kid }
}

export const TOKEN_LIFE_S = 300

/** A new token with each call, like a rotating credential. `claims` override those of a good token. */
export async function tokenOf ({ privateKey, kid }: Issuer, claims: JWTPayload): Promise<string> {
  const exp = Math.floor(Date.now() / 1_000) + TOKEN_LIFE_S
  return new SignJWT({ jti: crypto.randomUUID(), exp, ...claims }).setProtectedHeader({ alg: 'ES256', kid }).sign(privateKey)
}

export function bearing (token: string): { headers: { Authorization: string } } {
  return { headers: { Authorization: `Bearer ${token}` } }
}

export async function sign (issuer: Issuer, sub: string): Promise<{ headers: { Authorization: string } }> {
  return bearing(await tokenOf(issuer, { sub }))
}

export async function inFile (t: TestContext, jwks: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'onceway-jwks-'))
  t.after(async () => { await rm(directory, { recursive: true }) })
  const path = join(directory, 'jwks.json')
  await writeFile(path, jwks)
  return path
}

export function bySubject (jwks: string, more: Partial<JwtPolicy> = {}): Partial<IdempotencyPolicy> {
  return { scope: { kind: 'parts', parts: [{ kind: 'jwt', claim: 'sub' }] }, jwt: { jwks, issuer: null, audience: null, ...more } }
}

/** A token with this header and these claims, and a signature of zeros. */
export function unsigned (header: object, claims: object): string {
  const [head, body] = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
  return `${head}.${body}.${Buffer.alloc(64).toString('base64url')}`
}

export interface KeyServer {
  readonly url: string
  /** The number of requests that reached it. */
  readonly asked: () => number
  /** Sets its answer from now on. */
  answer: (response: ServerResponse) => void
  readonly stop: () => Promise<void>
  /** Starts again at the same address. */
  readonly start: () => Promise<void>
}

export async function serveKeys (t: TestContext, jwks: string): Promise<KeyServer> {
  let asked = 0
  let port = 0
  const server = createServer((_request, response) => {
    asked++
    keys.answer(response)
  })
  const start = async (): Promise<void> => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  }
  const stop = async (): Promise<void> => {
    if (!server.listening) return
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }
  await start()
  t.after(stop)
  const keys: KeyServer = { url: `http://127.0.0.1:${port}/keys`, asked: () => asked, answer: serving(jwks), start, stop }
  return keys
}

export function serving (jwks: string): KeyServer['answer'] {
  return (response) => { response.setHeader('Content-Type', 'application/json').end(jwks) }
}
