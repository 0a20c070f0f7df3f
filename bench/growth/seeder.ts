/**
 * Makes settled records by the million, inside the database: each is a copy of one that a gateway has written, with an
 * id, owner, key hash, answer and expiry of its own. The ids are those of the keys `seed-…`, so that a gateway replays
 * them. Into the table as it is, logged and with all its indexes: what is measured afterwards has grown, not been built.
 */
import { Client } from 'pg'
import { keyHash, recordId } from '../../src/core/record/record-id.ts'
import { ANSWER_HEAD, ANSWER_TAIL, KEY_CHARS, keyOf, ROUTE, SCOPE } from './thing.ts'

export interface SeedOrder {
  readonly database: string
  /** Numbers of the keys: from, and how many. */
  readonly from: number
  readonly count: number
  /** null: spread over the day to come, none before the run is over. Else all of them end within the second from then on. */
  readonly expiresAtMs: number | null
  /** The key of a record that a gateway has settled in this database. */
  readonly template: string
}

export interface Seeded { readonly count: number, readonly seconds: number, readonly perSecond: number }

/** A second's work of a statement, so that a checkpoint finds short transactions. */
const CHUNK = 20_000
/** One per core of the machine that the design was measured on; more wait for the same index pages. */
const CONNECTIONS = 2
const DAY_SECONDS = 86_400
/** Longer than any run: a seeded record that ended meanwhile would be executed. */
const LEAST_SECONDS = 7_200

/** SHA-256 over a fixed beginning and the key: what core/record/record-id makes, whose frames SQL cannot write. */
const SEED = `insert into onceway.records (id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms,
       claimed_at, settled_at, settled_by, expires_at, status, route, method, path, request_id, instance, key_hash, headers, body)
select sha256($1::bytea || convert_to(k.key, 'UTF8')), t.scheme, t.state, uuid_send(gen_random_uuid()), t.attempt, t.fp_alg, t.fingerprint, t.lease_ms, t.unknown_keep_ms, t.quarantine_ms,
       k.ends - interval '1 day' - interval '50 ms', k.ends - interval '1 day', t.settled_by, k.ends, t.status, t.route, t.method, t.path, gen_random_uuid()::text, t.instance,
       sha256($2::bytea || convert_to(k.key, 'UTF8')), t.headers, convert_to($3::text || k.key || $4::text, 'UTF8')
  from onceway.records t,
       generate_series($6::bigint, $7::bigint) n,
       lateral (select 'seed-' || lpad(n::text, 12, '0') as key,
                       coalesce(to_timestamp($8::float8) + random() * interval '1 s', now() + ($9::float8 + random() * $10::float8) * interval '1 s') as ends) k
 where t.id = $5::bytea`

export async function seed (order: SeedOrder): Promise<Seeded> {
  const began = performance.now()
  const end = order.from + order.count
  let next = order.from
  const fill = async (): Promise<void> => {
    const client = new Client({ connectionString: order.database, application_name: 'the seeder' })
    await client.connect()
    try {
      while (next < end) {
        const from = next
        next = Math.min(end, from + CHUNK)
        await insert(client, order, from, next - 1)
      }
    } finally {
      await client.end()
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, fill))
  const seconds = (performance.now() - began) / 1_000
  await verify(order)
  return { count: order.count, seconds, perSecond: order.count / seconds }
}

async function insert (client: Client, { expiresAtMs, template }: SeedOrder, from: number, to: number): Promise<void> {
  const { rowCount } = await client.query(SEED, [
    framed([ROUTE, SCOPE]), framed(['onceway:key:1']), ANSWER_HEAD, ANSWER_TAIL, recordId(ROUTE, SCOPE, template),
    from, to, expiresAtMs === null ? null : expiresAtMs / 1_000, LEAST_SECONDS, DAY_SECONDS - LEAST_SECONDS
  ])
  if (rowCount !== to - from + 1) throw new Error(`${rowCount} records of ${to - from + 1}: is there one of ${template}?`)
}

/** As core/record/digest frames its parts: six bytes of length, then the part; and the frame of the key that follows. */
function framed (parts: readonly string[]): Buffer {
  const frame = (length: number): Buffer => {
    const bytes = Buffer.alloc(6)
    bytes.writeUIntBE(length, 0, 6)
    return bytes
  }
  return Buffer.concat([...parts.flatMap((part) => [frame(Buffer.byteLength(part)), Buffer.from(part)]), frame(KEY_CHARS)])
}

/** The first and the last must be where a gateway will look for them. */
async function verify ({ database, from, count }: SeedOrder): Promise<void> {
  if (count === 0) return
  const client = new Client({ connectionString: database })
  await client.connect()
  try {
    for (const number of [from, from + count - 1]) {
      const key = keyOf('seed', number)
      const { rowCount } = await client.query(
        'select from onceway.records where id = $1 and key_hash = $2',
        [recordId(ROUTE, SCOPE, key), keyHash(key)]
      )
      if (rowCount !== 1) throw new Error(`the record of ${key} is not where its id says: has core/record/record-id.ts changed?`)
    }
  } finally {
    await client.end()
  }
}
