/**
 * What a driver of the arbiter promises (ports.ts) and the simulated one keeps, taken out of that: the simulation must see what
 * it is for. The drivers' own breaks are beside these, and their tests are with real stores.
 */
import type { Break } from './breaks.ts'

/** Below src/, as every file of a patch. */
const ARBITER = '../test/simulation/arbiter.ts'

export const SIMULATED: readonly Break[] = [
  {
    name: 'simulated-unvouched',
    does: 'shows a settled row that may be lost (an arbiter that does not prove it by a write)',
    breaks: ['I11', 'I7', 'I4', 'I1'],
    patches: [{ file: ARBITER, find: '|| showsSettled(result))', replace: '|| (showsSettled(result) && operation === \'\'))' }]
  },
  {
    name: 'simulated-renewals-pass',
    does: 'lets a lapse come before a renewal that has found its row locked (an arbiter in which no renewal waits)',
    breaks: ['E2b', 'I2'],
    patches: [{ file: ARBITER, find: 'void this.records.renew([waiting.token])', replace: 'void waiting' }]
  }
]
