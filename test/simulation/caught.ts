/**
 * The deliberately broken builds (test/broken) that the simulation catches. broken.test.ts runs each, and docs/reference/rules.md names it.
 */
import { LIES } from '../broken/breaks.ts'
import { PROBES } from '../broken/probes.ts'
import { SCHEME_BREAKS } from '../broken/schemes.ts'
import { SIMULATED } from '../broken/simulated.ts'

/**
 * One for each kind of trouble that is not a fault of a process or of a way: gateways that differ and change, a clock that steps,
 * commits that hang, rows that are locked, a Redis out of the past, pages of hops.
 */
const KINDS = [
  'own-policy-only', 'claims-pass-messages-by', 'any-time-believed', 'reads-are-contact', 'generations-alike',
  'hops-are-the-application', 'codes-are-kept', 'accepted-under-any-claim'
]

export const CAUGHT: readonly string[] = [...LIES, ...[...PROBES, ...SIMULATED, ...SCHEME_BREAKS].map(({ name }) => name), ...KINDS]
