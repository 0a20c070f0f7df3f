/**
 * Claim, settle, sweep, again and again, through the store's own statements: what comes in at one end goes out at the other, so a
 * table grows old without growing.
 */
import { randomBytes } from 'node:crypto'
import { encodeHeaders } from '../../src/core/protocol/codec.ts'
import { keyHash, recordId } from '../../src/core/record/record-id.ts'
import { OWNER_BYTES } from '../../src/core/record/record.ts'
import type { Claim, Fingerprint } from '../../src/core/record/record.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import type { PostgresRecordStore } from '../../src/store/postgres/open.ts'
import type { Table } from './table.ts'
import { ANSWER_HEADERS, ANSWER_STATUS, answerOf, PATH, ROUTE, SCOPE } from './thing.ts'

/** Claimed together, then settled together, as many as a busy gateway has under way. */
const TOGETHER = 256
/** Of which one waits for its commit while another is written. */
const STREAMS = 2
/** In a table that was turned over, this many of the oldest keys may be gone: what was under way together ended in any order. */
export const EDGE = TOGETHER * STREAMS
/** As the sweeper does it. */
const SWEEP_BATCH = 500
const HOUR_MS = 3_600_000
const HEADERS = encodeHeaders(Object.entries(ANSWER_HEADERS).flat())

/** The sweeper's statement without its clock: what is oldest is over. From $2 on, or each batch would read all dead entries before it. */
const SWEEP_OLDEST = `with gone as materialized (
  select id, expires_at from onceway.records where expires_at >= to_timestamp($2::float8 / 1000) order by expires_at limit $1
  for update skip locked
), swept as (
  delete from onceway.records r using gone g where r.id = g.id returning r.expires_at
)
select floor(extract(epoch from max(expires_at)) * 1000)::float8 as latest_ms from swept`

export interface Cycles {
  readonly store: PostgresRecordStore
  readonly table: Table
  readonly count: number
  readonly nextKey: () => string
  /** Default: of each key another. */
  readonly fingerprint?: Fingerprint
  /** Batches at a time, which end in any order. Default: 1. */
  readonly streams?: number
  readonly note?: (settled: number, swept: number) => Promise<void>
}

/** Settles `count` records and sweeps as many, up to the part of a batch that is left. */
export async function turnOver ({ store, table, count, nextKey, fingerprint, streams = 1, note }: Cycles): Promise<void> {
  let [begun, made, swept, fromMs] = [0, 0, 0, 0]
  let sweeping: Promise<void> | null = null
  const sweepDue = async (): Promise<void> => {
    for (; made - swept >= SWEEP_BATCH; swept += SWEEP_BATCH) {
      const { latest_ms: latestMs } = await table.one<{ latest_ms: number | null }>(SWEEP_OLDEST, [SWEEP_BATCH, fromMs])
      fromMs = latestMs ?? fromMs
    }
  }
  // Every stream waits for it, so that no backlog grows.
  const sweep = async (): Promise<void> => {
    sweeping ??= sweepDue().finally(() => { sweeping = null })
    await sweeping
  }
  const stream = async (): Promise<void> => {
    while (begun < count) {
      const together = Math.min(TOGETHER, count - begun)
      begun += together
      await makeTogether(store, Array.from({ length: together }, nextKey), fingerprint)
      made += together
      const before = swept
      await sweep()
      await note?.(together, swept - before)
    }
  }
  await Promise.all(Array.from({ length: streams }, stream))
  await sweep()
}

/** Without a sweep. */
export async function fill (store: PostgresRecordStore, nextKey: () => string, count: number): Promise<void> {
  for (let made = 0; made < count; made += TOGETHER) {
    await makeTogether(store, Array.from({ length: Math.min(TOGETHER, count - made) }, nextKey))
  }
}

export interface Aged { readonly cycles: number, readonly seconds: number, readonly autovacuums: number }

interface Ageing { readonly cycles: number, readonly nextKey: () => string, readonly template: string }

/** Autovacuum does what it does. The records can be replayed to whom asks as for `template`, which is swept. */
export async function age (store: PostgresRecordStore, table: Table, { cycles, nextKey, template }: Ageing): Promise<Aged> {
  const { alg, value } = await table.one<{ alg: number, value: Buffer }>(
    'select fp_alg as alg, fingerprint as value from onceway.records where id = $1',
    [recordId(ROUTE, SCOPE, template)]
  )
  const before = await table.counts()
  const began = performance.now()
  await turnOver({ store, table, count: cycles, nextKey, fingerprint: { alg, value }, streams: STREAMS })
  const seconds = (performance.now() - began) / 1_000
  return { cycles, seconds, autovacuums: (await table.counts()).autovacuums - before.autovacuums }
}

async function makeTogether (store: PostgresRecordStore, keys: readonly string[], fingerprint?: Fingerprint): Promise<void> {
  await Promise.all(keys.map(async (key) => make(store, key, fingerprint)))
}

async function make (store: PostgresRecordStore, key: string, fingerprint?: Fingerprint): Promise<void> {
  const claim = claimOf(key, fingerprint ?? { alg: 1, value: randomBytes(32) })
  const won = await store.insert(claim)
  if (won.kind !== 'won') throw new Error(`${key} was there before`)
  const settled = await store.settle({
    token: { id: claim.id, owner: claim.owner, attempt: won.attempt },
    outcome: 'completed',
    keepMs: 24 * HOUR_MS,
    status: ANSWER_STATUS,
    headers: HEADERS,
    body: Buffer.from(answerOf(key)),
    reason: null
  })
  if (settled.kind !== 'settled') throw new Error(`${key} could not be settled`)
}

function claimOf (key: string, fingerprint: Fingerprint): Claim {
  return {
    id: recordId(ROUTE, SCOPE, key),
    scheme: FIRST_SCHEME,
    earlierId: null,
    owner: randomBytes(OWNER_BYTES),
    fingerprint,
    leaseMs: 15_000,
    unknownKeepMs: 30 * 24 * HOUR_MS,
    quarantineMs: 315_000,
    question: null,
    about: {
      route: ROUTE,
      method: 'POST',
      path: PATH,
      requestId: '01234567-89ab-cdef-0123-456789abcdef',
      instance: 'gateway-of-the-churn',
      keyHash: keyHash(key),
      keyText: null
    }
  }
}
