/** Sessions of operators. A session is a sealed cookie, so every gateway with the same key knows it, and none stores it. */
import { randomBytes } from 'node:crypto'
import type { TokenEntry } from '../../config/operator-tokens.ts'
import { fingerprintOf } from '../../identity/tokens-file.ts'
import { ROLES } from '../../core/operator/roles.ts'
import type { Identity } from '../../core/operator/roles.ts'
import type { Current } from './current.ts'

const SECOND_MS = 1000
/** Nobody guesses it, and no two sessions share it. */
const ID_BYTES = 16

export interface Session {
  readonly id: string
  readonly identity: Identity
  readonly endMs: number
}

export interface NewSession {
  readonly sealed: string
  readonly seconds: number
}

/** `of`: the entry of a token, or null for one of the provider, whose role counts until the session ends. */
export async function openSession (identity: Identity, of: TokenEntry | null, current: Current, nowMs: number): Promise<NewSession> {
  const seconds = Math.floor(current.auth.sessionLifetimeMs / SECOND_MS)
  const content = {
    sid: randomBytes(ID_BYTES).toString('base64url'),
    name: identity.name,
    via: identity.via,
    proof: of === null ? current.oidcFingerprint : fingerprintOf(of),
    role: identity.role
  }
  const times = { nowMs, endMs: nowMs + current.auth.sessionLifetimeMs }
  return { sealed: await current.seal.close('session', content, times), seconds }
}

/** null: there is no such session any more. */
export async function readSession (sealed: string, current: Current, nowMs: number): Promise<Session | null> {
  const content = await current.seal.open('session', sealed, nowMs)
  if (content === null) return null
  const { sid: id, name, via, proof, role, iat, exp } = content
  if (typeof id !== 'string' || typeof name !== 'string' || typeof proof !== 'string') return null
  if (typeof iat !== 'number' || typeof exp !== 'number') return null
  // A reload may have made the lifetime shorter.
  const endMs = Math.min(exp * SECOND_MS, iat * SECOND_MS + current.auth.sessionLifetimeMs)
  if (endMs <= nowMs) return null
  const identity = via === 'token'
    ? await tokenIdentity(name, proof, current)
    : via === 'oidc' && proof === current.oidcFingerprint ? oidcIdentity(name, role) : null
  return identity === null ? null : { id, identity, endMs }
}

export function identityOf ({ name, role }: TokenEntry): Identity {
  return { name, via: 'token', role }
}

/** The role is that of the file now. */
async function tokenIdentity (name: string, proof: string, current: Current): Promise<Identity | null> {
  const entry = (await current.tokens()).find((each) => each.name === name && fingerprintOf(each) === proof)
  return entry === undefined ? null : identityOf(entry)
}

function oidcIdentity (name: string, sealedRole: unknown): Identity | null {
  const role = ROLES.find((each) => each === sealedRole)
  return role === undefined ? null : { name, via: 'oidc', role }
}
