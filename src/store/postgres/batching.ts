/** What the batchers of this store share: their settings, the outcome of one item of a batch, and ids as keys of a map. */
import { provenRolledBack } from './faults.ts'

/** Measured: a row in a batch of 32 costs a tenth of a single one. Beyond 64 a row costs no less, and the wait grows. */
export const BATCH_MAX = 64
/** Above every default limit on executions. A claim that was given up stays here until it is sent, and its body counts as buffered. */
export const QUEUE_MAX = 20_000
/** One batch at a time is best where a commit takes half a millisecond (a local disk). At 2.4 ms three or four are best. */
export const MS_PER_PARALLEL_BATCH = 0.8

/** One batch at a time. */
export const BATCHING = { batchMax: BATCH_MAX, batchesMax: 1, queueMax: QUEUE_MAX, provenRolledBack }

/** The outcome of one item of a batch that was acknowledged as a whole. */
export type Outcome<Result> = { readonly result: Result } | { readonly error: unknown }

/** @throws the item's own error */
export function resultOf<Result> (outcome: Outcome<Result>): Result {
  if ('result' in outcome) return outcome.result
  throw outcome.error
}

export function idText ({ id }: { readonly id: Buffer }): string { return hex(id) }

/** Shorter than {@link idText}, in the same order. */
export function idBytes ({ id }: { readonly id: Buffer }): string { return id.toString('latin1') }

export function hex (id: Buffer): string { return id.toString('hex') }
