/**
 * Session state, where the session is the client's own. A pooler that shares sessions makes up the process id that it gives its
 * clients. Most draw it, some count, and then it may by chance be the id of a session of the pooler's. But such a session is older
 * than the client's connection. There nothing is set: it would leak into other clients' sessions, and would be gone with the next
 * statement. Statements then carry what they need (lockLimit in claims.ts).
 */
import { DatabaseError, type ClientBase, type QueryConfig } from 'pg'
import { UNBALANCED } from './statements.ts'

/**
 * All statements of these connections find their rows by key. A plan that was made for an empty table would read the whole table for
 * ever, and a prepared one is not made anew. `jit`: what is switched off counts as very expensive before Postgres 18, and an expensive
 * plan is compiled at each execution.
 */
const PLANNER = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off'
}

/** `where` is evaluated first: without the row nothing is set. */
const SET = `${UNBALANCED} select set_config('lock_timeout', $2, false), ${
  Object.entries(PLANNER).map(([name, value]) => `set_config('${name}', '${value}', false)`).join(', ')
} from (
  select from pg_catalog.pg_stat_get_activity($1::int) a
   where a.pid = pg_catalog.pg_backend_pid() and a.backend_start > clock_timestamp() - $3::float8 * interval '1 ms'
) own`

/**
 * true: everything is set. false: the session is shared, or this server does not know what is set. `ageMsMax`: a session that is older was
 * not begun for this client.
 */
export async function ownSession (client: ClientBase, lockTimeout: string, timeoutMs: number, ageMsMax: number): Promise<boolean> {
  const { processID } = client as ClientBase & { readonly processID: number | null }
  try {
    if (processID === null) return false
    const { rows } = await client.query({ text: SET, values: [processID, lockTimeout, ageMsMax], query_timeout: timeoutMs } as QueryConfig)
    return rows.length === 1
  } catch (error) {
    if (error instanceof DatabaseError) return false
    throw error
  }
}
