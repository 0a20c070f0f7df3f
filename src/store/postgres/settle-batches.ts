/** Batches of settles: the statements of one batch, on one connection, and the outcome of each settle in it. */
import type { Settlement } from '../../core/record/record.ts'
import type { SettleReply, SettleResult } from '../../ports/records.ts'
import { Batcher } from '../shared/batcher.ts'
import { BATCHING, hex, idBytes, idText, MS_PER_PARALLEL_BATCH, type Outcome } from './batching.ts'
import type { Connections } from './connections.ts'
import type { Session } from './statements.ts'
import { HeldLane } from './held-lane.ts'
import { insertLost, lookAtRefused, SETTLE_OWN, settleRows, type LostOrder } from './settles.ts'

/** Settle batches in flight at once, and one connection for settles whose row vanished. */
export const SETTLE_BATCHES_MAX = 4
export const SETTLE_CONNECTIONS = SETTLE_BATCHES_MAX + 1
/** Bytes of the answers in a batch of settles. A large answer must not hold up the small ones behind it for long. */
const SETTLE_BYTES_MAX = 4 * 1024 * 1024

export type SettleLane = HeldLane<Settlement, Outcome<SettleResult>, SettleReply>

export function settleLane (connections: Connections): SettleLane {
  return new HeldLane({
    ...BATCHING,
    name: 'settles',
    batchesMax: SETTLE_BATCHES_MAX,
    msPerParallelBatch: MS_PER_PARALLEL_BATCH,
    idOf: ({ token }) => idBytes(token),
    bytesOf: answerBytes,
    batchBytesMax: SETTLE_BYTES_MAX,
    succeed: (reply, outcome) => {
      if ('result' in outcome) reply.settled(outcome.result)
      else reply.settleFailed(outcome.error)
    },
    fail: (reply, error) => { reply.settleFailed(error) },
    connections,
    statement: SETTLE_OWN,
    isUsual: () => true,
    written: settledOf,
    finish: settleRest,
    otherwise: settleAll
  })
}

/** Settles whose row vanished. */
export function lostSettles (settles: Connections): Batcher<LostOrder, SettleResult> {
  return new Batcher({
    ...BATCHING,
    name: 'settles of lost rows',
    batchMax: 1,
    idOf: ({ claim }) => idText(claim),
    run: (batch) => settles.use('settle_lost', (session) => settleLostAll(session, batch))
  })
}

/** The caller counts from before the statement, so the row is kept at least as long. */
function settledOf ({ keepMs }: Settlement): Outcome<SettleResult> { return { result: { kind: 'settled', keepLeftMs: keepMs } } }

/** `places`: of those that were settled, from 1. */
async function settleRest (
  session: Session,
  settlements: readonly Settlement[],
  _count: number,
  places: readonly string[]
): Promise<Array<Outcome<SettleResult>>> {
  const settled = new Set(places.map((place) => hex((settlements[Number(place) - 1] as Settlement).token.id)))
  return outcomesOf(session, settlements, settled)
}

async function settleAll (session: Session, settlements: readonly Settlement[]): Promise<Array<Outcome<SettleResult>>> {
  const settled = new Set((await settleRows(session, settlements)).map(({ id }) => id))
  return outcomesOf(session, settlements, settled)
}

/** `settled`: ids as hex. */
async function outcomesOf (
  session: Session,
  settlements: readonly Settlement[],
  settled: ReadonlySet<string>
): Promise<Array<Outcome<SettleResult>>> {
  const outcomes = new Map<string, Outcome<SettleResult>>()
  for (const settlement of settlements) {
    if (settled.has(idText(settlement.token))) outcomes.set(idText(settlement.token), settledOf(settlement))
  }
  const refused = settlements.map(({ token }) => token.id).filter((id) => !settled.has(hex(id)))
  if (refused.length > 0) await noteRefused(session, refused, outcomes)
  return settlements.map(({ token }) => outcomes.get(idText(token)) ?? { result: { kind: 'refused', row: null } })
}

/** A refusal without its row says nothing. If the look fails, the settle is tried again like any that failed. */
async function noteRefused (session: Session, ids: readonly Buffer[], outcomes: Map<string, Outcome<SettleResult>>): Promise<void> {
  try {
    for (const row of await lookAtRefused(session, ids)) outcomes.set(hex(row.id), { result: { kind: 'refused', row } })
  } catch (error) {
    for (const id of ids) outcomes.set(hex(id), { error })
  }
}

async function settleLostAll (session: Session, orders: readonly LostOrder[]): Promise<SettleResult[]> {
  const results: SettleResult[] = []
  for (const order of orders) {
    const { token, keepMs } = order.settlement
    const inserted = await insertLost(session, order)
    results.push(
      inserted ? { kind: 'settled', keepLeftMs: keepMs } : { kind: 'refused', row: (await lookAtRefused(session, [token.id]))[0] ?? null }
    )
  }
  return results
}

function answerBytes ({ headers, body }: Settlement): number { return (headers?.length ?? 0) + (body?.length ?? 0) }
