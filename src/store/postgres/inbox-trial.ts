/**
 * A trial of consumers whose inboxes gateways have paused: one message that tries whether the consumer is back. It is rare, and has a
 * statement of its own, so that the usual take need not ask for it. It looks at all that is due, not where the last takes found something
 * (inbox-reach.ts): what waits there may be older, and nothing else would end the pause.
 */
import type { TakeMessages } from '../../ports/inbox.ts'
import { TRIAL_AMONG } from '../shared/shares.ts'
import { integers, texts } from './arrays.ts'
import { lockLimit } from './claims.ts'
import { hasWaitedInVain, isDeadlock, isUniqueViolation } from './faults.ts'
import { isAlive, roomValues, taking } from './inbox-deliver.ts'
import { mayGo } from './inbox-pressure.ts'
import { toDelivery, type TakenColumns } from './inbox-rows.ts'
import { hasItsTurn } from './inbox-turns.ts'
import { isPausedByOperator } from './paused-routes.ts'
import type { Session, Statement } from './statements.ts'

/** The state and the time are tested once more after the lock, such that no index serves the test, as in message_take. */
const MESSAGE_TRY: Statement = {
  name: 'message_try',
  writes: true,
  text: (schema) => `with ${lockLimit(4)}, want as materialized (
  select w.route, w.places from unnest($1::text[], $2::int[]) as w (route, places)
   cross join lock_limit
   where ${isAlive(schema)} and not ${isPausedByOperator(schema, 'w.route')}
), chosen as materialized (
  select c.id from want w cross join lateral (
    select e.id from (
      ${[...endsOf(schema, 'm.group_id is null'), ...endsOf(schema, ofGroups(schema))].join(' union all\n      ')}) e
     order by e.attempt, e.due_at, e.number
     limit w.places) c
), due as materialized (
  select m.id, m.route, m.due_at, m.number, m.bytes from ${schema}.messages m
   where m.id = any (array(select id from chosen)) and coalesce(m.state = 'waiting' and m.due_at <= statement_timestamp(), false)
     for no key update of m skip locked
), ${taking(schema)}
       null::text as called`
}

function ofGroups (schema: string): string {
  return `m.group_id is not null and ${hasItsTurn(schema)}`
}

/** Those that are due first, and last. */
function endsOf (schema: string, condition: string): string[] {
  return ['asc', 'desc'].map((order) => `(select m.id, m.attempt, m.due_at, m.number from ${schema}.messages m
        where m.route = w.route and m.state = 'waiting' and m.due_at <= statement_timestamp() and ${condition} and ${mayGo(schema)}
        order by m.due_at ${order}, m.number ${order} limit ${TRIAL_AMONG})`)
}

/** Empty, if another has the message or its group. The next trial finds one. */
export async function tryMessages (
  session: Session,
  { routes, owner, room }: TakeMessages
): Promise<Array<ReturnType<typeof toDelivery>>> {
  try {
    const rows = await session.run<TakenColumns>(MESSAGE_TRY, [
      texts(routes.map(({ route }) => route)),
      integers(routes.map(({ places }) => places)),
      owner,
      session.lockTimeout,
      ...roomValues(room)
    ])
    return rows.sort((one, other) => one.place - other.place).map((row) => toDelivery(row, owner))
  } catch (error) {
    if (hasWaitedInVain(error) || isUniqueViolation(error) || isDeadlock(error)) return []
    throw error
  }
}
