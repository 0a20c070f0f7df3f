/** A gateway's heartbeat, for tests that only check that the store takes one. */
import type { SignOfLife } from '../../src/ports/records.ts'

export const SIGN: SignOfLife = { gateway: Buffer.alloc(16, 1), instance: 'test', beat: 1, aheadMs: 0 }
