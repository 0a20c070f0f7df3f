/** The lanes of the inbox (held-lane.ts): acceptances, and what deliveries came to. The usual batch of either is one statement. */
import type { AcceptResult } from '../../ports/inbox.ts'
import { BATCHING, idBytes, MS_PER_PARALLEL_BATCH, type Outcome } from './batching.ts'
import { idAsText } from './connection.ts'
import type { Connections } from './connections.ts'
import { Fields, type OwnStatement } from './fields.ts'
import { HeldLane } from './held-lane.ts'
import { acceptEach, ACCEPTED, acceptRest, type Groups } from './inbox-accept.ts'
import {
  beforeTheBarrier,
  dueAtArrival,
  entersUnclaimed,
  MESSAGE_COLUMNS,
  nextNumber,
  notBefore,
  PLAIN_ARRIVAL,
  type Arrival
} from './inbox-arrivals.ts'
import { bytesOfFate } from '../shared/message-fate.ts'
import { isDelivered, MESSAGE_DELIVERED, SETTLING, settleMessages, type Settling } from './inbox-deliver.ts'

/** Batches of acceptances in flight at once, where a commit takes long. */
export const ACCEPT_BATCHES_MAX = 4
export const SETTLE_BATCHES_MAX = 2

/** Bytes of the bodies in a batch. A large body must not hold up the small ones behind it for long. */
export const ACCEPT_BYTES_MAX = 4 * 1024 * 1024

/** Does the work, and calls the turns of the groups that it adds. */
export type Calling = <Result>(work: (groups: Groups) => Promise<Result>) => Promise<Result>

const SHARED = { ...BATCHING, msPerParallelBatch: MS_PER_PARALLEL_BATCH, batchBytesMax: ACCEPT_BYTES_MAX }

function succeed<Result> ({ resolve }: PromiseWithResolvers<Result>, result: Result): void { resolve(result) }

function fail<Result> ({ reject }: PromiseWithResolvers<Result>, error: unknown): void { reject(error) }

// ---------------------------------------------------------------- acceptances

const PLAIN = new Fields<Arrival>(PLAIN_ARRIVAL)

/** In a session of the lane's own. Numbered in the order of arrival, inserted in the order of their ids. */
const ACCEPT_OWN: OwnStatement<Arrival> = {
  fields: PLAIN,
  many: {
    name: 'message_accept',
    writes: true,
    text: (schema) => acceptingOwn(schema, `unnest(${PLAIN.arrays}) as w (${PLAIN.names})`, '$3::text[]')
  },
  one: {
    name: 'message_accept',
    writes: true,
    text: (schema) => acceptingOwn(schema, `(select ${PLAIN.scalars}) as w`, 'array[$3::text]')
  }
}

function acceptingOwn (schema: string, from: string, routes: string): string {
  return `with ${beforeTheBarrier(schema)}
insert into ${schema}.messages (${MESSAGE_COLUMNS})
select o.id, o.scheme, o.number, 0, 'waiting', true, statement_timestamp(), ${dueAtArrival(schema, 'o')}, o.route, null, o.holds, o.stops,
       o.keep_ms, o.dead_keep_ms, o.bytes, o.fp_alg, o.fingerprint, o.scope_hash, o.method, o.path, o.request_id, o.instance,
       o.key_hash, o.key_text, o.target, o.headers, o.body, o.tenant_id, ${notBefore('o')}
  from (select w.*, ${nextNumber(schema)} as number from (select * from ${from} order by w.arrival) w) o
 where ${entersUnclaimed(schema, routes)}
 order by o.id
on conflict (id) do nothing
returning id`
}

export type AcceptLane = HeldLane<Arrival, Outcome<AcceptResult>, PromiseWithResolvers<Outcome<AcceptResult>>>

export function acceptLane (connections: Connections, calling: Calling): AcceptLane {
  return new HeldLane({
    ...SHARED,
    name: 'acceptances',
    batchesMax: ACCEPT_BATCHES_MAX,
    idOf: ({ message }) => idBytes(message),
    bytesOf: ({ message }) => message.request.body.length,
    succeed,
    fail,
    connections,
    statement: ACCEPT_OWN,
    isUsual: (arrivals) => arrivals.every(({ message: { underClaim, group, earlierId } }) =>
      underClaim === undefined && group === null && earlierId === null),
    written: () => ACCEPTED,
    finish: (session, arrivals, _count, ids) => calling((groups) => acceptRest(session, arrivals, ids.map(idAsText), groups)),
    otherwise: (session, arrivals) => calling((groups) => acceptEach(session, arrivals, groups))
  })
}

// ---------------------------------------------------------------- settles

/**
 * Of messages that are delivered, which list nothing. In a session of the lane's own, where the plan takes the settlings in their order
 * (settles.ts). The tests of owner and state are such that no index serves them (inbox-deliver.ts, MAY_SETTLE in settles.ts).
 */
const SETTLE_OWN: OwnStatement<Settling> = {
  fields: SETTLING,
  many: {
    name: 'message_settle',
    writes: true,
    text: (schema) => settlingOwn(schema, `unnest(${SETTLING.arrays}) with ordinality as w (${SETTLING.names}, place)`)
  },
  one: {
    name: 'message_settle',
    writes: true,
    text: (schema) => settlingOwn(schema, `(select ${SETTLING.scalars}, 1 as place) as w`)
  }
}

/** Returns its place from 1, and behind a space the group whose next message may now have its turn. */
function settlingOwn (schema: string, from: string): string {
  return `update ${schema}.messages m
   set ${MESSAGE_DELIVERED}
  from ${from}
 where m.id = any (array[w.id]) and m.owner is not distinct from w.owner and m.attempt = w.attempt
   and coalesce(m.state = 'delivering', false)
returning w.place || case when m.blocks or m.group_id is null then '' else ' ' || encode(m.group_id, 'hex') end`
}

export type MessageSettleLane = HeldLane<Settling, boolean, PromiseWithResolvers<boolean>>

export function messageSettleLane (connections: Connections, calling: Calling): MessageSettleLane {
  return new HeldLane({
    ...SHARED,
    name: 'settles of messages',
    batchesMax: SETTLE_BATCHES_MAX,
    idOf: ({ token }) => idBytes(token),
    bytesOf: ({ fate }) => bytesOfFate(fate),
    succeed,
    fail,
    connections,
    statement: SETTLE_OWN,
    isUsual: (settlings) => settlings.every(isDelivered),
    written: () => true,
    isWhole: (rows) => rows.every((row) => !row.includes(' ')),
    finish: (_session, settlings, _count, rows) => calling(async (groups) => settledOf(settlings, rows, groups)),
    otherwise: (session, settlings) => calling((groups) => settleMessages(session, settlings, groups))
  })
}

function settledOf (settlings: readonly Settling[], rows: readonly string[], groups: Groups): boolean[] {
  const settled = settlings.map(() => false)
  for (const row of rows) {
    const [place, group] = row.split(' ')
    settled[Number(place) - 1] = true
    if (group !== undefined) groups.add(group)
  }
  return settled
}
