/**
 * What no durable first request on Node and Postgres can be below: node:http, undici's dispatch, and two commits in two lanes.
 * One row, one id, one fingerprint. No lease, no take-over, no limits, no log, no replay. Wrong after every fault.
 */
import { serveGuarded } from './floor/exchange.ts'
import type { Exchange } from './floor/exchange.ts'
import { Lane } from './floor/lane.ts'
import { byteas, changed, connect, smallints, texts } from './floor/postgres.ts'

const { UPSTREAM = '', DATABASE_URL = '' } = process.env

/** Half of each page stays free, so that a settle finds room beside the row that it changes (heap-only). */
const TABLE = `create table if not exists floor_records (
  id bytea primary key, owner bytea not null, state smallint not null, fingerprint bytea not null,
  lease_until timestamptz not null, expires_at timestamptz not null, about text not null,
  status smallint, headers bytea, body bytea
) with (fillfactor = 50)`
const CLAIM = `insert into floor_records (id, owner, state, fingerprint, lease_until, expires_at, about)
select w.id, w.owner, 0, w.fingerprint, clock_timestamp() + interval '30 seconds', clock_timestamp() + interval '1 day', w.about
  from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::text[]) as w (id, owner, fingerprint, about)
 order by w.id
    on conflict (id) do nothing`
const SETTLE = `update floor_records r set state = 1, status = w.status, headers = w.headers, body = w.body
  from unnest($1::bytea[], $2::bytea[], $3::smallint[], $4::bytea[], $5::bytea[]) as w (id, owner, status, headers, body)
 where r.id = w.id and r.owner = w.owner and r.state = 0`
/** What an operator would read of it: route, method and path. */
const ABOUT = 'charges POST /v1/charges'

const [claiming, settling] = [await connect(DATABASE_URL), await connect(DATABASE_URL)]
await claiming.query(TABLE)

serveGuarded(UPSTREAM, {
  claims: new Lane<Exchange>((batch, done) => {
    const values = [
      byteas(batch, ({ id }) => id), byteas(batch, ({ owner }) => owner), byteas(batch, ({ fingerprint }) => fingerprint),
      texts(batch, () => ABOUT)
    ]
    claiming.query({ name: 'claim', text: CLAIM, values }, changed(batch.length, done))
  }),
  settles: new Lane<Exchange>((batch, done) => {
    const values = [
      byteas(batch, ({ id }) => id), byteas(batch, ({ owner }) => owner), smallints(batch, ({ status }) => status),
      byteas(batch, ({ headers }) => headers), byteas(batch, ({ body }) => body)
    ]
    settling.query({ name: 'settle', text: SETTLE, values }, changed(batch.length, done))
  })
})
