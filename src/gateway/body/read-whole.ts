/** Phase `body`: the body is read whole before anything is claimed (E0). Its size and its caller's share of the buffers are bounded. */
import type { Deps } from '../shared/deps.ts'
import type { Rejected } from '../shared/outcome.ts'
import type { Steps } from '../shared/steps.ts'
import type { BodyBudget } from './body-budget.ts'

export type BodyResult =
  | { readonly kind: 'body', readonly body: Buffer }
  | { readonly kind: 'too-large' | 'too-slow' | 'no-room' | 'gone' }

/** A request whose body is still on its connection. */
export interface UnreadRequest {
  /** Reads the whole body. Bytes are taken from the budget before they are held. The caller releases the budget after any result. */
  readonly readBody: (bytesMax: number, budget: BodyBudget) => Promise<BodyResult>
  readonly steps: Steps
}

/** `arrivedAtMs`: monotonic, when the body was complete. */
export type ReadBody =
  | { readonly kind: 'body', readonly body: Buffer, readonly arrivedAtMs: number }
  | { readonly kind: 'refused', readonly outcome: Rejected }

export async function readWhole (
  { clock }: Pick<Deps, 'clock'>,
  { readBody, steps }: UnreadRequest,
  bytesMax: number,
  budget: BodyBudget
): Promise<ReadBody> {
  const startedAt = clock.monotonicMs()
  const read = await readBody(bytesMax, budget)
  if (read.kind !== 'body') return { kind: 'refused', outcome: bodyRefusal(read.kind, budget) }
  const arrivedAtMs = clock.monotonicMs()
  steps.bodyMs = arrivedAtMs - startedAt
  steps.requestBytes = read.body.length
  return { kind: 'body', body: read.body, arrivedAtMs }
}

export function bodyRefusal (kind: Exclude<BodyResult['kind'], 'body'>, budget: BodyBudget): Rejected {
  switch (kind) {
    case 'too-large': return { kind: 'rejected', code: 'request-too-large', close: true }
    case 'too-slow': return { kind: 'rejected', code: 'request-timeout', close: true }
    case 'no-room': return budget.refused()
    case 'gone': return { kind: 'rejected', code: 'bad-request', detail: 'The request ended before its body was complete.', close: true }
  }
}
