/** A gateway's sign of life, where a test only wants to know that the store takes one. */
import type { SignOfLife } from '../../src/ports/records.ts'

export const SIGN: SignOfLife = { gateway: Buffer.alloc(16, 1), instance: 'test', beat: 1, aheadMs: 0 }
