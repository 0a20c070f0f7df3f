/** `body`: read whole before anything is claimed (E0), bounded in bytes, and in its caller's share of the buffers. */
import type { Deps } from '../shared/deps.ts'
import type { Rejected } from '../shared/outcome.ts'
import type { Steps } from '../shared/steps.ts'
import type { BodyRoom } from './body-room.ts'

export type BodyResult =
  | { readonly kind: 'body', readonly body: Buffer }
  | { readonly kind: 'too-large' | 'too-slow' | 'no-room' | 'gone' }

/** A request whose body is still on its connection. */
export interface Unread {
  /** Reads it whole. Every byte is taken from its room before it is held. Whoever gave the room gives it back, whatever came. */
  readonly readBody: (bytesMax: number, room: BodyRoom) => Promise<BodyResult>
  readonly steps: Steps
}

/** `arrivedAtMs`: monotonic; the body was whole then. */
export type ReadBody =
  | { readonly kind: 'body', readonly body: Buffer, readonly arrivedAtMs: number }
  | { readonly kind: 'refused', readonly outcome: Rejected }

export async function readWhole (
  { clock }: Pick<Deps, 'clock'>,
  { readBody, steps }: Unread,
  bytesMax: number,
  room: BodyRoom
): Promise<ReadBody> {
  const startedAt = clock.monotonicMs()
  const read = await readBody(bytesMax, room)
  if (read.kind !== 'body') return { kind: 'refused', outcome: bodyRefusal(read.kind, room) }
  const arrivedAtMs = clock.monotonicMs()
  steps.bodyMs = arrivedAtMs - startedAt
  steps.requestBytes = read.body.length
  return { kind: 'body', body: read.body, arrivedAtMs }
}

export function bodyRefusal (kind: Exclude<BodyResult['kind'], 'body'>, room: BodyRoom): Rejected {
  switch (kind) {
    case 'too-large': return { kind: 'rejected', code: 'request-too-large', close: true }
    case 'too-slow': return { kind: 'rejected', code: 'request-timeout', close: true }
    case 'no-room': return room.refused()
    case 'gone': return { kind: 'rejected', code: 'bad-request', detail: 'The request ended before its body was complete.', close: true }
  }
}
