/** What a search tests each message for. */
import type { MessageSearch } from '../../ports/operator.ts'
import { byteas } from './arrays.ts'
import { isPastMessage } from './inbox-rows.ts'
import { likePath } from './search-step.ts'
import type { Values } from './statements.ts'

/**
 * $1 route, $2 state, $3 request id, $4 path or its beginning, $5 key hashes, $13 unchanged since (null: any), $14 group.
 * `greatest` skips nulls.
 */
export const CONDITIONS = `($1::text is null or r.route = $1) and ($2::text is null or r.state = $2) and ($3::text is null or r.request_id = $3)
     and ($4::text is null or r.path like $4) and ($5::bytea[] is null or r.key_hash = any ($5)) and not ${isPastMessage('r')}
     and ($13::float8 is null or greatest(r.received_at, r.retried_at, r.replayed_at, r.settled_at) < to_timestamp($13::float8 / 1000))
     and ($14::bytea is null or r.group_id = $14)`

/** $1 to $5. */
export function filterValues ({ route, state, requestId, path, keyHashes }: MessageSearch): Values {
  return [
    route ?? null,
    state ?? null,
    requestId ?? null,
    path === undefined ? null : likePath(path),
    keyHashes === undefined ? null : byteas(keyHashes)
  ]
}

/** $13 and $14. */
export function lastValues ({ settledToMs, group }: MessageSearch): Values { return [settledToMs ?? null, group ?? null] }
