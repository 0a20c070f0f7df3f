/**
 * The operator of a simulated world. It looks for records of unknown outcome, learns from the upstream what became of them, and resolves
 * them. It also releases and deletes records, as far as the product's commands allow.
 */
import { encodeHeaders } from '../../src/core/protocol/codec.ts'
import { keptHeaders } from '../../src/core/headers/headers.ts'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import type { Answer, RecordDetail } from '../../src/core/record/record.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import type { RecordStore, Resolution } from '../../src/ports/records.ts'
import { nameOf, printOfSettled } from '../crash/watched.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { HistoryKeeper } from './history-keeper.ts'
import type { OperatorAct } from './schedule.ts'

export interface OperatorOptions {
  readonly timeline: Timeline
  readonly records: RecordStore
  readonly locks: LockStore
  /** Its command waits like any other, and it tries again later. */
  readonly hampered: () => boolean
  readonly route: GuardedRoute
  readonly keeper: HistoryKeeper
  /** What the upstream has in its books for this record: the answer of its last execution, if that is to be kept. */
  readonly answered: (record: string) => Answer | null
}

/** Looks again so often, so many times: an outcome becomes unknown only when a lease is over. */
const AGAIN_MS = 700
const LOOKS_MAX = 20

export class Operator {
  readonly #options: OperatorOptions

  constructor (options: OperatorOptions) {
    this.#options = options
  }

  async act (act: OperatorAct): Promise<void> {
    const { timeline, records, hampered } = this.#options
    await timeline.sleep(act.atMs)
    for (let look = 0; look < LOOKS_MAX; look++) {
      const [row] = (await records.list({ limit: 100 })).filter((row) =>
        !row.past && row.state !== 'claimed' && (act.kind === 'delete') === (row.state !== 'indeterminate'))
      if (row !== undefined && !hampered() && await this.#do(act.kind, row)) return
      await timeline.sleep(AGAIN_MS)
    }
  }

  async #do (kind: OperatorAct['kind'], row: RecordDetail): Promise<boolean> {
    switch (kind) {
      case 'delete': return this.#delete(row)
      case 'release': return this.#resolve(row, { outcome: 'released', status: null, headers: null, body: null })
      case 'consume': return this.#resolve(row, { outcome: 'consumed', status: 201, headers: null, body: null })
      case 'complete': {
        const answer = this.#options.answered(nameOf(row.id))
        if (answer === null) return false
        const headers = encodeHeaders(keptHeaders(answer.headers, this.#options.route.idempotency.keep))
        return this.#resolve(row, { outcome: 'completed', status: answer.status, headers, body: answer.body })
      }
    }
  }

  async #resolve (row: RecordDetail, told: Pick<Resolution, 'outcome' | 'status' | 'headers' | 'body'>): Promise<boolean> {
    const { records, route, keeper, timeline } = this.#options
    const keepMs = route.idempotency.retentionMs
    const result = await records.resolve({
      ...told,
      token: row,
      keepMs,
      by: 'operator',
      tries: null,
      audit: { action: told.outcome === 'released' ? 'release' : 'resolve', who: 'operator', why: 'simulated' }
    })
    if (result.kind !== 'done') return false
    keeper.note({
      kind: 'settled',
      atMs: timeline.nowMs,
      record: nameOf(row.id),
      owner: nameOf(row.owner),
      attempt: row.attempt,
      outcome: told.outcome,
      by: 'operator',
      keepMs,
      print: printOfSettled(told)
    })
    return true
  }

  /** As the command does: the row, its copy in Redis, and that once more after a lease. */
  async #delete (row: RecordDetail): Promise<boolean> {
    const { records, locks, keeper, timeline } = this.#options
    const result = await records.expire(row, { action: 'delete', who: 'operator', why: 'simulated' })
    if (result.kind !== 'done') return false
    keeper.deletes(nameOf(row.id), timeline.nowMs + (result.row.keepLeftMs ?? 0))
    await locks.forget(row.id)
    await timeline.sleep(row.leaseMs)
    await locks.forget(row.id)
    return true
  }
}
