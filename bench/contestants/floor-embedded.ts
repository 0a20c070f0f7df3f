/**
 * What no durable first request on Node and its SQLite can be below: as floor-durable, with both commits in one file. WAL and
 * synchronous = FULL, as src/store/sqlite/database.ts has it. Claims and settles of one moment share a commit.
 *
 * On the main thread, because a worker is not better at any concurrency. A worker behind shared memory (batches by Atomics.wait,
 * results by message) took 1.2 to 1.3 times the CPU and had 0.7 to 0.85 of the throughput at one connection. At 32 and 256
 * connections it had 0.96 to 1.05 of the throughput and 1.04 to 1.1 times the CPU. (2026-11-25, 2 cores, fdatasync 0.4 ms,
 * medians of 5 turns in alternation. Where a commit takes longer, the worker has more to hide.)
 */
import { DatabaseSync } from 'node:sqlite'
import { serveGuarded } from './floor/exchange.ts'
import type { Exchange } from './floor/exchange.ts'
import { Lane } from './floor/lane.ts'

const { UPSTREAM = '', FILE = '' } = process.env

const WAL_BYTES_MAX = 64 * 1024 * 1024
const [LEASE_MS, TTL_MS] = [30_000, 24 * 3_600_000]
/** What an operator would read of it: route, method and path. */
const ABOUT = 'charges POST /v1/charges'

const database = new DatabaseSync(FILE)
database.exec(`pragma journal_mode = wal; pragma synchronous = full; pragma journal_size_limit = ${WAL_BYTES_MAX};
create table if not exists floor_records (
  id blob primary key, owner blob not null, state integer not null, fingerprint blob not null,
  lease_until integer not null, expires_at integer not null, about text not null,
  status integer, headers blob, body blob
) strict`)
const begin = database.prepare('begin immediate')
const commit = database.prepare('commit')
const claim = database.prepare(`insert into floor_records (id, owner, state, fingerprint, lease_until, expires_at, about)
values (?, ?, 0, ?, ?, ?, ?) on conflict (id) do nothing`)
const settle = database.prepare('update floor_records set state = 1, status = ?, headers = ?, body = ? where id = ? and owner = ? and state = 0')

const lane = new Lane<Exchange>((batch, done) => {
  const nowMs = Date.now()
  begin.run()
  for (const each of batch) {
    const { id, owner, claimed, fingerprint, status, headers, body } = each
    const { changes } = claimed
      ? settle.run(status, headers, body, id, owner)
      : claim.run(id, owner, fingerprint, nowMs + LEASE_MS, nowMs + TTL_MS, ABOUT)
    if (changes !== 1) throw new Error(`a row of ${each.name} was to be changed, and ${changes} were`)
  }
  commit.run()
  done(null)
})
serveGuarded(UPSTREAM, { claims: lane, settles: lane })
