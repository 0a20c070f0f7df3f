/** Batches of settles: the statements of one batch, on one connection, and the outcome of each settle in it. */
import type { Settlement } from '../../core/record/record.ts'
import type { SettleResult } from '../../ports/records.ts'
import { Batcher } from '../shared/batcher.ts'
import { BATCHING, hex, idText, MS_PER_PARALLEL_BATCH, type Outcome } from './batching.ts'
import type { Connections, Session } from './connections.ts'
import { insertLost, lookAtRefused, settleRows, type LostOrder } from './settles.ts'

/** Settle batches in flight at once, and one connection for settles whose row vanished. */
export const SETTLE_BATCHES_MAX = 4
export const SETTLE_CONNECTIONS = SETTLE_BATCHES_MAX + 1
/** Bytes of the answers in a batch of settles. A large answer must not hold up the small ones behind it for long. */
const SETTLE_BYTES_MAX = 4 * 1024 * 1024

export interface SettleBatchers {
  readonly settles: Batcher<Settlement, Outcome<SettleResult>>
  /** Settles whose row vanished. */
  readonly lost: Batcher<LostOrder, SettleResult>
}

export function settleBatchers (settles: Connections): SettleBatchers {
  return {
    settles: new Batcher({
      ...BATCHING,
      name: 'settles',
      batchesMax: SETTLE_BATCHES_MAX,
      msPerParallelBatch: MS_PER_PARALLEL_BATCH,
      idOf: ({ token }) => idText(token),
      bytesOf: answerBytes,
      batchBytesMax: SETTLE_BYTES_MAX,
      run: (batch) => settles.use('settle', (session) => settleAll(session, batch))
    }),
    lost: new Batcher({
      ...BATCHING,
      name: 'settles of lost rows',
      batchMax: 1,
      idOf: ({ claim }) => idText(claim),
      run: (batch) => settles.use('settle_lost', (session) => settleLostAll(session, batch))
    })
  }
}

async function settleAll (session: Session, settlements: readonly Settlement[]): Promise<Array<Outcome<SettleResult>>> {
  const settled = await settleRows(session, settlements)
  const outcomes = new Map<string, Outcome<SettleResult>>(settled.map(({ id, keep_left_ms: keepLeftMs }) => [
    id,
    { result: { kind: 'settled', keepLeftMs } }
  ]))
  const refused = settlements.map(({ token }) => token.id).filter((id) => !outcomes.has(hex(id)))
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
