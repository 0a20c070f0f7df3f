/**
 * What the record store suite builds its cases from: claims, settlements, and rows brought into a state through the
 * port alone. Waits by looking at the row, never for a number of milliseconds.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestContext } from 'node:test'
import type { Claim, RecordDetail, Row, Seen, SettledState, Settlement, Token } from '../../src/core/record/record.ts'
import type { SwitchOrder, SwitchResult } from '../../src/core/record/scheme-switch.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import type { RecordStore, Resolution } from '../../src/ports/records.ts'

/** One empty database of a driver. `open` registers its closing with `t.after`. */
export interface StoreWorld {
  readonly store: RecordStore
  /** Moves the store's clock. Absent: real time passes, and the suite waits for it. */
  readonly advance?: (ms: number) => Promise<void> | void
  /** A second handle on the same database, as another process would have. */
  readonly reopen?: () => Promise<RecordStore>
  /** Gives the row a state that this build does not know, behind the store's back. null: a store of objects, which can hold none. */
  readonly corrupt: ((id: Buffer) => Promise<void> | void) | null
  /**
   * Another scheme claims from now on, by an order that says nothing else but what `over` does. Absent: several
   * databases make this store up, and an earlier id may be in another one.
   */
  readonly switchScheme?: SwitchScheme
  /** Audit rows, oldest first. */
  readonly audits: () => Promise<ReadonlyArray<{ action: string, who: string, why: string }>>
}

export type SwitchScheme = (name: string, over?: Partial<SwitchOrder>) => Promise<SwitchResult> | SwitchResult

export type OpenStore = (t: TestContext) => Promise<StoreWorld>

/** Longer than any test runs. */
export const LONG_MS = 600_000
/** Short enough to wait for, long enough to be written. */
export const SHORT_MS = 60
/** A machine that takes longer than this to notice is broken. */
const PATIENCE_MS = 15_000

export function claimOf (over: Partial<Claim> = {}): Claim {
  return {
    id: randomBytes(32),
    scheme: FIRST_SCHEME,
    earlierId: null,
    owner: randomBytes(16),
    fingerprint: { alg: 3, value: Buffer.alloc(32, 7) },
    leaseMs: LONG_MS,
    unknownKeepMs: LONG_MS,
    quarantineMs: 0,
    question: null,
    trace: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
    about: {
      route: 'charges',
      method: 'POST',
      path: '/v1/charges',
      requestId: 'req-1',
      instance: 'gateway-1',
      keyHash: randomBytes(32),
      keyText: null
    },
    ...over
  }
}

/** Somebody else's claim of the same request. */
export function rivalOf (claim: Claim, over: Partial<Claim> = {}): Claim {
  return { ...claim, owner: randomBytes(16), ...over }
}

export function tokenOf (claim: Claim, attempt = 1): Token {
  return { id: claim.id, owner: claim.owner, attempt }
}

/** As whoever looks at its row sees it. */
export function seenOf (claim: Claim, attempt = 1): Seen {
  return { ...tokenOf(claim, attempt), fingerprint: claim.fingerprint }
}

export function settlementOf (token: Token, outcome: SettledState, over: Partial<Settlement> = {}): Settlement {
  const kept = outcome === 'completed'
  return {
    token,
    outcome,
    keepMs: LONG_MS,
    status: kept || outcome === 'consumed' ? 201 : null,
    headers: kept ? Buffer.from('headers') : null,
    body: kept ? Buffer.from('body') : null,
    reason: outcome === 'indeterminate' ? { stage: 'during', code: 'ECONNRESET' } : null,
    ...over
  }
}

export function resolutionOf (token: Token, outcome: Resolution['outcome'], over: Partial<Resolution> = {}): Resolution {
  const { keepMs, status, headers, body } = settlementOf(token, outcome)
  const audit = { action: outcome === 'released' ? 'release' : 'resolve', who: 'ops@example.com', why: 'looked it up' } as const
  return { token, outcome, keepMs, status, headers, body, by: 'operator', tries: null, audit, ...over }
}

export const PLACES = [
  'none', 'live', 'over', 'completed', 'consumed', 'released', 'releasedByHand', 'indeterminate',
  'pastCompleted', 'pastConsumed', 'pastReleased', 'pastIndeterminate', 'undecodable'
] as const
export type Place = typeof PLACES[number]

const SETTLED: Readonly<Partial<Record<Place, SettledState>>> = {
  completed: 'completed',
  consumed: 'consumed',
  released: 'released',
  releasedByHand: 'indeterminate',
  indeterminate: 'indeterminate',
  undecodable: 'indeterminate',
  pastCompleted: 'completed',
  pastConsumed: 'consumed',
  pastReleased: 'released',
  pastIndeterminate: 'indeterminate'
}

/** Brings a new record to `place` through the port; answers the claim that its row carries (or would carry). */
export async function bring (world: StoreWorld, place: Place, over: Partial<Claim> = {}): Promise<Claim> {
  const claim = claimOf({ ...(place === 'over' ? { leaseMs: SHORT_MS } : {}), ...over })
  if (place === 'none') return claim
  await world.store.insert(claim)
  if (place === 'over') await untilLapsed(world, claim)
  const outcome = SETTLED[place]
  const past = place.startsWith('past')
  if (outcome !== undefined) await world.store.settle(settlementOf(tokenOf(claim), outcome, past ? { keepMs: SHORT_MS } : {}))
  if (place === 'releasedByHand') await world.store.resolve(resolutionOf(tokenOf(claim), 'released'))
  if (place === 'undecodable') await world.corrupt?.(claim.id)
  if (past) await untilPast(world, claim)
  return claim
}

export async function untilLapsed (world: StoreWorld, claim: Claim): Promise<void> {
  await world.advance?.(claim.leaseMs)
  await until(async () => (await world.store.look(claim.id))?.lapsed === true, 'the lease to be over')
}

export async function untilPast (world: StoreWorld, claim: Claim, keepMs = SHORT_MS): Promise<void> {
  await world.advance?.(keepMs)
  await until(async () => (await world.store.look(claim.id))?.past === true, 'the retention to be over')
}

/** Lets `ms` pass: on the store's clock if it can be moved, else in real time. */
export async function pass (world: StoreWorld, ms: number): Promise<void> {
  if (world.advance === undefined) await sleep(ms)
  else await world.advance(ms)
}

export async function until (holds: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while (!await holds()) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`)
    await sleep(5)
  }
}

export async function rowAt (store: RecordStore, id: Buffer): Promise<Row> {
  const row = await store.look(id)
  if (row === null) throw new Error('no such record')
  return row
}

export async function detailAt (store: RecordStore, id: Buffer): Promise<RecordDetail> {
  const [detail] = await store.list({ id, limit: 1 })
  if (detail === undefined) throw new Error('no such record')
  return detail
}

/** Everything that is stored but the lease's end; null: no row. Two of these are equal if nothing was written between. */
export async function snapshot (store: RecordStore, id: Buffer): Promise<object | null> {
  const [detail] = await store.list({ id, limit: 1 })
  if (detail === undefined) return null
  const { ageMs, leaseLeftMs, keepLeftMs, lapsed, past, ...stored } = detail
  return stored
}
