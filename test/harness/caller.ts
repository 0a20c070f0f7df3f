/** A caller as the gateway sees it, for tests of scopes. */
import type { Caller } from '../../src/core/scope/caller.ts'
import type { ScopeOptions } from '../../src/core/scope/scope.ts'

export function callerWith (rawHeaders: readonly string[], changes: Partial<Caller> = {}): Caller {
  return { rawHeaders: Array.from(rawHeaders), clientCertificate: null, forwarded: { host: null, trusted: false }, ...changes }
}

export const FIRST_RULES: ScopeOptions = { rules: 1, signing: 'refused' }
export const SECOND_RULES: ScopeOptions = { rules: 2, signing: 'refused' }
