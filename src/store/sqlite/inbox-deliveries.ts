/**
 * The list of a message's deliveries, in one SQLite connection. The last one of a delivered message stands in the message's row alone.
 * Every other one has a row in `deliveries`, written in the transaction that ends it.
 */
import { DELIVERIES_MAX, NO_REPLY, REPLY_BYTES_MAX, type PastDelivery } from '../../core/inbox/message.ts'
import { listedOf } from '../../core/inbox/row.ts'
import { decodeAnswer } from '../../core/protocol/codec.ts'
import { bytesOf, type Columns, type preparedOnce } from './columns.ts'
import { find, list, listed, listedSince, unlist } from './inbox-statements.ts'

type Prepare = ReturnType<typeof preparedOnce>

/** A delivery of the message `id` has ended. */
export function listDelivery (prepare: Prepare, id: Uint8Array, delivery: PastDelivery): void {
  const { attempt, atMs, ms, status, error, contentType, body, isCut } = delivery
  prepare(list).run(id, attempt, atMs, ms, status, error, contentType, body, isCut ? 1 : 0)
  if (attempt > DELIVERIES_MAX) prepare(unlist).run(id)
}

/** The row of a message is to tell of another delivery: what it tells now is listed. */
export function listLast (prepare: Prepare, message: Columns): void {
  const last = unlisted(prepare, message)
  if (last !== null) listDelivery(prepare, message.id as Uint8Array, last)
}

export function pastDeliveries (prepare: Prepare, id: Buffer): readonly PastDelivery[] {
  const message = prepare(find).get(id)
  const last = message === undefined ? null : unlisted(prepare, message)
  return listedOf([...prepare(listed).all(id).map(deliveryOf), ...last === null ? [] : [last]])
}

/**
 * The last delivery of a message that has ended, if it is not listed: the message is delivered, or a build ended it that lists nothing. The
 * times tell, because attempts change with an epoch.
 */
function unlisted (prepare: Prepare, message: Columns): PastDelivery | null {
  const { state, settled_at: atMs } = message
  const isOld = (state === 'dead' || state === 'held') && prepare(listedSince).get(message.id as Uint8Array, atMs as number) === undefined
  if (state !== 'delivered' && !isOld) return null
  const body = message.answer === null ? NO_REPLY.body : decodeAnswer(bytesOf(message.answer))?.body ?? NO_REPLY.body
  return {
    ...aboutOf(message),
    atMs: atMs as number,
    body: body.subarray(0, REPLY_BYTES_MAX),
    isCut: body.length > REPLY_BYTES_MAX
  }
}

function deliveryOf (columns: Columns): PastDelivery {
  return { ...aboutOf(columns), atMs: columns.at as number, body: bytesOf(columns.body), isCut: columns.is_cut === 1 }
}

/** In the columns that both tables have. */
function aboutOf (columns: Columns): Omit<PastDelivery, 'atMs' | 'body' | 'isCut'> {
  return {
    attempt: columns.attempt as number,
    ms: columns.took_ms as number | null,
    status: columns.status as number | null,
    error: columns.error as string | null,
    contentType: columns.content_type as string | null
  }
}
