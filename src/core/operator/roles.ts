/** Who an operator is, and what a role may do. Each role may do everything that the one before it may. */

/**
 * viewer: records and messages without answers. reader: also the stored answers. operator: also changes. admin: also deletes of many
 * records at once.
 */
export const ROLES = ['viewer', 'reader', 'operator', 'admin'] as const
export type Role = typeof ROLES[number]

/**
 * How an operator was recognised. `loopback`: nobody signed in, and the view is read-only. `cli`: a command that opens the stores itself.
 */
export const IDENTITY_SOURCES = ['token', 'oidc', 'proxy', 'loopback', 'cli'] as const
export type IdentitySource = typeof IDENTITY_SOURCES[number]

export interface Identity {
  /** For the audit: the name of a token's entry, a verified claim, a trusted proxy's header. Never text that the operator types. */
  readonly name: string
  readonly via: IdentitySource
  readonly role: Role
}

export function may (role: Role, needed: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed)
}

/** The role that may most. null: there is none. */
export function highestRole (roles: readonly Role[]): Role | null {
  return roles.reduce<Role | null>((highest, role) => highest !== null && may(highest, role) ? highest : role, null)
}
