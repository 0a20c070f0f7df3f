/** Phase `body`: the body is read whole before anything is claimed (E0). Its size and its caller's share of the buffers are bounded. */
import type { Rejected } from '../shared/outcome.ts'
import type { BodyBudget } from './body-budget.ts'

export type BodyResult =
  | { readonly kind: 'body', readonly body: Buffer }
  | { readonly kind: 'too-large' | 'too-slow' | 'no-room' | 'gone' }

/** Called once. */
export interface BodyReader { bodyRead: (result: BodyResult) => void }

/** A body that is still on its connection. */
export interface UnreadBody {
  /** Reads it whole. Bytes are taken from the budget before they are held. The caller releases the budget after any result. */
  readBody: (bytesMax: number, budget: BodyBudget, reader: BodyReader) => void
}

/** The answer if the body could not be read. */
export function bodyRefusal (kind: Exclude<BodyResult['kind'], 'body'>, budget: BodyBudget): Rejected {
  switch (kind) {
    case 'too-large': return { kind: 'rejected', code: 'request-too-large', close: true }
    case 'too-slow': return { kind: 'rejected', code: 'request-timeout', close: true }
    case 'no-room': return budget.refused()
    case 'gone': return { kind: 'rejected', code: 'bad-request', detail: 'The request ended before its body was complete.', close: true }
  }
}
