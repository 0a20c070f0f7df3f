/**
 * Whose turn it is in a group. A message of a group has a time (`due_at`) once its turn has been called. Two statements call: one that
 * accepts a message behind another, and one that ends a message. Both call after their own commit, so that one of the two sees both.
 * `recover` finds the turns that a crash leaves uncalled.
 */
import { byteas } from './arrays.ts'
import type { Session, Statement } from './statements.ts'

/** No earlier message of its group is open, and none of it is being delivered. Two subqueries, each of one index entry. */
export const hasItsTurn = (schema: string) => `(m.group_id is null
        or (not exists (select from ${schema}.messages e where e.group_id = m.group_id and e.blocks and e.number < m.number)
            and not exists (select from ${schema}.messages e where e.group_id = m.group_id and e.state = 'delivering')))`

/**
 * The first open message of each group is due if it waits for its turn, and has been since its acceptance, or is at its scheduled time. A
 * later message that was already called waits for its turn anew (an operator may have asked for an earlier one again), so that takers need
 * not pass it over. `skip locked`: the holder calls after its own commit. The state is not tested where the time implies it, and
 * elsewhere such that no index serves the test: a plan that was made for an empty table would read all that wait.
 */
const MESSAGE_CALL: Statement = {
  name: 'message_call',
  writes: true,
  text: (schema) => `with firsts as materialized (
  select f.* from unnest($1::bytea[]) as g (group_id) cross join lateral (
    select m.id, m.group_id, m.number from ${schema}.messages m where m.group_id = g.group_id and m.blocks order by m.number limit 1) f
), uncalled as materialized (
  select m.id from ${schema}.messages m
   where m.id = any (array(select id from firsts)) and coalesce(m.state = 'waiting', false) and m.due_at is null
     for no key update of m skip locked
), strays as materialized (
  select s.id from firsts f cross join lateral (
    select m.id from ${schema}.messages m where m.group_id = f.group_id and m.due_at is not null and m.number > f.number
       for no key update of m skip locked) s
)
update ${schema}.messages m set due_at = case when m.due_at is null then greatest(least(clock_timestamp(), coalesce(m.retried_at, m.received_at)), m.not_before, (select p.until from ${schema}.tenant_pauses p where p.tenant_id = m.tenant_id)) end
 where m.id = any (array(select id from uncalled union all select id from strays))
returning m.id, m.route, m.group_id, (extract(epoch from m.due_at) * 1000)::float8 as due_at_ms`
}

interface CalledColumns { readonly id: Buffer, readonly route: string, readonly group_id: Buffer, readonly due_at_ms: number | null }

/** A message that has its turn now. */
export interface CalledMessage { readonly id: Buffer, readonly route: string, readonly dueAtMs: number }

/** Each round takes back turns that were called meanwhile. `recover` does the rest. */
const CALLS_MAX = 3

/**
 * Returns the messages that have their turn now. A call that takes a turn back calls once more, after its own commit.
 * Otherwise the worker that ended the earlier message meanwhile would rely on a turn that is gone.
 */
export async function callGroups (session: Session, groups: readonly Buffer[]): Promise<CalledMessage[]> {
  const called: CalledMessage[] = []
  let open = groups
  for (let round = 1; open.length > 0 && round <= CALLS_MAX; round++) {
    const rows = await session.run<CalledColumns>(MESSAGE_CALL, [byteas(open)])
    for (const { id, route, due_at_ms: dueAtMs } of rows) if (dueAtMs !== null) called.push({ id, route, dueAtMs })
    open = rows.filter(({ due_at_ms: dueAtMs }) => dueAtMs === null).map(({ group_id: group }) => group)
  }
  return called
}

/** From group to group, one index entry each, at most $2 after $1. */
const MESSAGE_UNCALLED: Statement = {
  name: 'message_uncalled',
  writes: false,
  text: (schema) => `with recursive firsts as (
  (select m.group_id, m.state, m.due_at, 1 as place from ${schema}.messages m
    where m.blocks and m.group_id is not null and m.group_id > $1::bytea order by m.group_id, m.number limit 1)
  union all
  select n.group_id, n.state, n.due_at, f.place + 1 from firsts f cross join lateral (
    select m.group_id, m.state, m.due_at from ${schema}.messages m
     where m.blocks and m.group_id is not null and m.group_id > f.group_id order by m.group_id, m.number limit 1) n
   where f.place < $2
)
select group_id, state = 'waiting' and due_at is null as is_uncalled, place = $2 as is_last from firsts`
}

/** Groups per look: some milliseconds. */
const GROUPS_AT_ONCE = 1_000
const FIRST_GROUP = Buffer.alloc(0)

/** Goes through the groups in pieces, and then from the start again. `from`: where the last piece ended. */
export async function uncalledGroups (
  session: Session,
  from: Buffer | null
): Promise<{ readonly uncalled: Buffer[], readonly next: Buffer | null }> {
  const rows = await session.run<{ group_id: Buffer, is_uncalled: boolean, is_last: boolean }>(
    MESSAGE_UNCALLED,
    [from ?? FIRST_GROUP, GROUPS_AT_ONCE]
  )
  return {
    uncalled: rows.filter(({ is_uncalled: isUncalled }) => isUncalled).map(({ group_id: group }) => group),
    next: rows.find(({ is_last: isLast }) => isLast)?.group_id ?? null
  }
}
