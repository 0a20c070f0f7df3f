/** How many records each caller has (ports/record-counts.ts), in the embedded store: the table as the worker has it. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { countEndsAtMs } from '../../core/record/counts.ts'
import type { RecordCount } from '../../ports/record-counts.ts'

export class CountTable {
  readonly #add: StatementSync
  readonly #total: StatementSync
  readonly #sweep: StatementSync

  constructor (connection: DatabaseSync) {
    this.#add = connection.prepare('insert into record_counts (route, who, expires_at, records) values (?, ?, ?, ?) on conflict (route, who, expires_at) do update set records = records + excluded.records')
    this.#total = connection.prepare(
      'select max(0, coalesce(sum(records), 0)) as total from record_counts where route = ? and who = ? and expires_at > ?'
    )
    this.#sweep = connection.prepare('delete from record_counts where (route, who, expires_at) in (select route, who, expires_at from record_counts where expires_at <= ? order by expires_at limit ?)')
  }

  add (counts: readonly RecordCount[], nowMs: number): number[] {
    return counts.map(({ route, who, records, keepMs }) => {
      if (records !== 0) this.#add.run(route, who, countEndsAtMs(nowMs, keepMs), records)
      return Number(this.#total.get(route, who, nowMs)?.total)
    })
  }

  sweep (limit: number, nowMs: number): number {
    return Number(this.#sweep.run(nowMs, limit).changes)
  }
}
