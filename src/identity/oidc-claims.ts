/** Who an operator is by the claims of an identity provider: a name for the audit, and the highest role of the groups. */
import { createHash } from 'node:crypto'
import type { OidcConfig } from '../config/config.ts'
import { highestRole } from '../core/operator/roles.ts'
import type { Role } from '../core/operator/roles.ts'
import { isOperatorName } from './operator-name.ts'

export type Claims = Readonly<Record<string, unknown>>

/** More groups than a directory gives to one person. Further ones are not looked at. */
const GROUPS_MAX = 2_000
const FINGERPRINT_BYTES = 16

/**
 * `sources`: the ID token, then the userinfo. null: there is no name that can be used. Without `nameClaim`, what users may often choose for
 * themselves comes last: a `preferred_username` with an @ would look like an address that somebody has verified.
 */
export function nameOf ({ nameClaim }: Pick<OidcConfig, 'nameClaim'>, sources: readonly Claims[]): string | null {
  const found = (claim: string) => sources.flatMap((claims) => {
    const value = claims[claim]
    return isOperatorName(value) && (claim !== 'email' || claims.email_verified === true) ? [value] : []
  })[0] ?? null
  if (nameClaim !== null) return found(nameClaim)
  const preferred = found('preferred_username')
  return found('email') ?? (preferred === null || preferred.includes('@') ? null : preferred) ?? found('sub')
}

/** Of the first source that has the claim. null: none has it. */
export function groupsOf ({ groupsClaim }: Pick<OidcConfig, 'groupsClaim'>, sources: readonly Claims[]): readonly string[] | null {
  const value = sources.map((claims) => claims[groupsClaim]).find((each) => each !== undefined && each !== null)
  if (value === undefined) return null
  return [value].flat().slice(0, GROUPS_MAX).filter((group) => typeof group === 'string')
}

export function roleOf (groups: readonly string[], roles: ReadonlyMap<string, Role>): Role | null {
  return highestRole(groups.flatMap((group) => roles.get(group) ?? []))
}

/** Changes with everything that decides who somebody is. Sessions of another fingerprint have ended. */
export function policyFingerprint ({ issuer, clientId, nameClaim, groupsClaim, roles }: OidcConfig): string {
  const text = JSON.stringify([issuer, clientId, nameClaim, groupsClaim, [...roles].sort()])
  return createHash('sha256').update(text).digest().subarray(0, FINGERPRINT_BYTES).toString('base64url')
}
