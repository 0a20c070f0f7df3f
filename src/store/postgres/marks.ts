/**
 * Marks of mode drop in Postgres: one row per event of a window, claimed by an insert that may replace an expired mark. Times
 * are the database's. Marking, and the writes after a sending, have batchers and connections of their own, as claims and
 * settles have. Every statement takes its rows in the order of their ids.
 */
import type { Marking, MarkResult, MarkStore } from '../../ports/marks.ts'
import { Batcher } from '../shared/batcher.ts'
import { bigints, booleans, byteas } from './arrays.ts'
import { BATCHING, idText, MS_PER_PARALLEL_BATCH } from './batching.ts'
import { lockLimit } from './claims.ts'
import type { Connections } from './connections.ts'
import { BELIEVED, type Session, type Statement, type Values } from './statements.ts'
import { claimsNow, schemeValues } from './identities.ts'

interface Removal { readonly id: Buffer, readonly token: Buffer }

/** Batches of marks in flight at once, where a commit takes long. The same for the ends of marks, and one batch of removals. */
const BATCHES_MAX = 2
export const MARK_CONNECTIONS = 2 * BATCHES_MAX + 1

/** The marks in $1..$4, the lock's limit in $5, then scheme and earlier id. */
const WANTED = `${lockLimit(5)}, want as materialized (
  select * from unnest($1::bytea[], $2::bytea[], $3::bool[], $4::bigint[], $6::smallint[], $7::bytea[]) as w (id, token, done, keep_ms, scheme, earlier_id)
   cross join lock_limit
)`

/** An expired mark counts as none. */
const standsMark = (schema: string, id: string) =>
  `(select m.expires_at > least(statement_timestamp(), ${BELIEVED}) from ${schema}.marks m where m.id = ${id}) is true`

/**
 * The condition is tested on the locked row, so of all that come at once one wins. A row with the same token is the result of a
 * lost reply. If it says done, a late statement never makes it run again. A loser sees the mark from before the statement. A
 * mark that came meanwhile is not in the snapshot, and counts as running.
 */
const MARK: Statement = {
  name: 'mark',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${WANTED}, won as (
  insert into ${schema}.marks (id, token, done, expires_at, scheme)
  select w.id, w.token, w.done, clock_timestamp() + w.keep_ms * interval '1 ms', w.scheme from want w
   where (${claimsNow(schema, 'w.scheme')} and not ${standsMark(schema, 'w.earlier_id')}) or exists (select from ${schema}.marks m where m.id = w.id and m.token = w.token)
   order by w.id
  on conflict (id) do update
     set token = excluded.token, done = excluded.done, expires_at = excluded.expires_at
   where marks.expires_at <= least(clock_timestamp(), ${BELIEVED}) or (marks.token = excluded.token and (excluded.done or not marks.done))
  returning id
)
select w.id, won.id is not null as won, coalesce(m.done and m.expires_at > least(statement_timestamp(), ${BELIEVED}), false) as done,
       coalesce(m.expires_at <= least(statement_timestamp(), ${BELIEVED}), true) and not (${claimsNow(schema, 'w.scheme')} and not ${standsMark(schema, 'w.earlier_id')}) as moved
  from want w left join won on won.id = w.id left join ${schema}.marks m on m.id = w.id`
}

const MARK_DONE: Statement = {
  name: 'mark_done',
  writes: true,
  text: (schema) => `with ${WANTED}
insert into ${schema}.marks (id, token, done, expires_at, scheme)
select w.id, w.token, w.done, clock_timestamp() + w.keep_ms * interval '1 ms', w.scheme from want w order by w.id
on conflict (id) do update set token = excluded.token, done = excluded.done, expires_at = excluded.expires_at`
}

const MARK_STANDS: Statement = {
  name: 'mark_stands',
  writes: false,
  text: (schema) => `select ${standsMark(schema, '$1')} as stands`
}

const MARK_REMOVE: Statement = {
  name: 'mark_remove',
  writes: true,
  text: (schema) => `with ${lockLimit(3)}, mine as materialized (
  select m.id from ${schema}.marks m
    join unnest($1::bytea[], $2::bytea[]) as w (id, token) on m.id = w.id and m.token = w.token
   cross join lock_limit
   order by m.id
     for update of m
)
delete from ${schema}.marks m using mine where m.id = mine.id`
}

/** `skip locked`: the holder is marking anew. */
const MARK_SWEEP: Statement = {
  name: 'mark_sweep',
  writes: true,
  text: (schema) => `with gone as materialized (
  select id from ${schema}.marks where expires_at <= least(statement_timestamp(), ${BELIEVED})
   order by expires_at
   limit $1
     for update skip locked
)
delete from ${schema}.marks m using gone g where m.id = g.id
returning 1`
}

/** Returns how many. */
export async function sweepMarks (session: Session, limit: number): Promise<number> {
  return (await session.run(MARK_SWEEP, [limit])).length
}

export class PostgresMarks implements MarkStore {
  readonly name = 'postgres'
  readonly sweep: (limit: number) => Promise<number>
  readonly #connections: Connections
  readonly #marks: Batcher<Marking, MarkResult>
  readonly #dones: Batcher<Marking, null>
  readonly #removals: Batcher<Removal, null>

  /** `sweep` uses the connections of the background, so that a process without such routes opens none for them. */
  constructor (connections: Connections, sweep: (limit: number) => Promise<number>) {
    const batching = { ...BATCHING, idOf: idText, batchesMax: BATCHES_MAX, msPerParallelBatch: MS_PER_PARALLEL_BATCH }
    this.sweep = sweep
    this.#connections = connections
    this.#marks = new Batcher<Marking, MarkResult>({
      ...batching,
      name: 'marks',
      run: (batch) => connections.use('mark', (session) => markAll(session, batch))
    })
    this.#dones = new Batcher<Marking, null>({
      ...batching,
      name: 'marks that are done',
      run: (batch) => connections.use('mark_done', (session) => doneAll(session, batch))
    })
    this.#removals = new Batcher<Removal, null>({
      ...batching,
      name: 'marks to remove',
      batchesMax: 1,
      run: (batch) => connections.use('mark_remove', (session) => removeAll(session, batch))
    })
  }

  mark (marking: Marking): Promise<MarkResult> {
    return this.#marks.push(marking)
  }

  async done (marking: Omit<Marking, 'as'>): Promise<void> {
    await this.#dones.push({ ...marking, as: 'done' })
  }

  stands (id: Buffer): Promise<boolean> {
    return this.#connections.use(
      'mark_stands',
      async (session) => (await session.run<{ stands: boolean }>(MARK_STANDS, [id]))[0]?.stands === true
    )
  }

  async remove (id: Buffer, token: Buffer): Promise<boolean> {
    await this.#removals.push({ id, token })
    return true
  }
}

async function markAll (session: Session, markings: readonly Marking[]): Promise<MarkResult[]> {
  const rows = await session.run<{ id: string, won: boolean, done: boolean, moved: boolean }>(MARK, valuesOf(markings, session.lockTimeout))
  const found = new Map(rows.map(({ id, won, done, moved }): [string, MarkResult] => [
    id,
    won ? 'marked' : done ? 'done' : moved ? 'moved' : 'running'
  ]))
  return markings.map((marking) => found.get(idText(marking)) ?? 'running')
}

async function doneAll (session: Session, markings: readonly Marking[]): Promise<null[]> {
  await session.run(MARK_DONE, valuesOf(markings, session.lockTimeout))
  return markings.map(() => null)
}

async function removeAll (session: Session, removals: readonly Removal[]): Promise<null[]> {
  await session.run(MARK_REMOVE, [byteas(removals.map(({ id }) => id)), byteas(removals.map(({ token }) => token)), session.lockTimeout])
  return removals.map(() => null)
}

function valuesOf (markings: readonly Marking[], lockTimeout: string): Values {
  return [
    byteas(markings.map(({ id }) => id)),
    byteas(markings.map(({ token }) => token)),
    booleans(markings.map(({ as }) => as === 'done')),
    bigints(markings.map(({ keepMs }) => keepMs)),
    lockTimeout,
    ...schemeValues(markings)
  ]
}
