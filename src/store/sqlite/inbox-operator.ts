/** What operators do to the inbox of one SQLite connection. Each change leaves its audit row. */
import { errorOfRetried } from '../../core/inbox/row.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { MessageAudit, MessageFilter } from '../../ports/inbox.ts'
import type { PausedRoute } from '../../ports/operator.ts'
import type { Columns } from './columns.ts'
import { wantedOf } from './filter.ts'
import { listLast } from './inbox-deliveries.ts'
import { detailOf } from './inbox-rows.ts'
import { STOPS_ITS_GROUP, failsNoMore, find, note, pause, paused, resume } from './inbox-statements.ts'
import type { SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite'

export type Prepare = (text: string) => StatementSync

export class InboxOperator {
  readonly #prepare: Prepare
  readonly #over: (nowMs: number) => number
  readonly #call: (group: SQLOutputValue | undefined, nowMs: number) => void

  /** `over`: until when a time is past, as far as the clock is trusted. `call`: whose turn it is in a group now. */
  constructor (prepare: Prepare, over: (nowMs: number) => number, call: (group: SQLOutputValue | undefined, nowMs: number) => void) {
    this.#prepare = prepare
    this.#over = over
    this.#call = call
  }

  list (filter: MessageFilter, nowMs: number): MessageDetail[] {
    return this.#matching(filter, nowMs).map(detailOf)
  }

  retry (filter: MessageFilter, audit: MessageAudit, nowMs: number): MessageDetail[] {
    return this.#change('retry', filter, audit, nowMs, ({ id, group_id: group, error }) => {
      const values = [nowMs, group === null ? nowMs : null, errorOfRetried(error as string | null), id as Uint8Array]
      this.#prepare('update messages set state = \'waiting\', tries = 0, not_before = null, retried_at = ?, blocks = 1, due_at = ?, settled_at = null, expires_at = null, error = ? where id = ?').run(...values)
    })
  }

  discard (filter: MessageFilter, audit: MessageAudit, nowMs: number): MessageDetail[] {
    return this.#change('discard', filter, audit, nowMs, ({ id, dead_keep_ms: keepMs }) => {
      this.#prepare(
        'update messages set state = \'discarded\', blocks = 0, due_at = null, settled_at = ?, expires_at = ? where id = ?'
      ).run(nowMs, nowMs + (keepMs as number), id as Uint8Array)
    })
  }

  replay (filter: MessageFilter, audit: MessageAudit, nowMs: number): MessageDetail[] {
    return this.#change('replay', filter, audit, nowMs, ({ id, group_id: group }) => {
      this.#prepare(`
update messages set state = 'waiting', tries = 0, not_before = null, retried_at = ?, replayed_at = ?, request_until = null, blocks = 1, due_at = ?, settled_at = null, expires_at = null,
       took_ms = null, content_type = null
 where id = ?`).run(nowMs, nowMs, group === null ? nowMs : null, id as Uint8Array)
    })
  }

  paused (): PausedRoute[] {
    return this.#prepare(paused).all() as unknown as PausedRoute[]
  }

  /** false: it was so already. */
  pause (route: string, audit: MessageAudit, nowMs: number): boolean {
    this.#prepare(failsNoMore).run(route)
    const isNew = this.#prepare(pause).run(route, nowMs, audit.who, audit.why).changes === 1
    if (isNew) this.#noteRoute('pause', route, ['delivers', 'paused'], audit, nowMs)
    return isNew
  }

  resume (route: string, audit: MessageAudit, nowMs: number): boolean {
    // It gets all the time again that a consumer may fail.
    this.#prepare(failsNoMore).run(route)
    const isNew = this.#prepare(resume).run(route).changes === 1
    if (isNew) this.#noteRoute('resume', route, ['paused', 'delivers'], audit, nowMs)
    return isNew
  }

  #noteRoute (
    action: 'pause' | 'resume',
    route: string,
    [before, after]: readonly [string, string],
    { who, why, via }: MessageAudit,
    nowMs: number
  ): void {
    const states = [before, after].map((state) => JSON.stringify({ state }))
    this.#prepare(note).run(nowMs, action, null, after, null, route, null, who, why, via ?? null, ...states)
  }

  #change (
    action: 'retry' | 'discard' | 'replay',
    filter: MessageFilter,
    { who, why, via }: MessageAudit,
    nowMs: number,
    change: (columns: Columns) => void
  ): MessageDetail[] {
    const chosen = action === 'replay'
      ? this.#matching(filter, nowMs, ['delivered'], true)
      : this.#matching(filter, nowMs, ['waiting', 'held', 'dead'])
    for (const columns of chosen) {
      this.#prepare(note).run(
        nowMs,
        action,
        columns.id as Uint8Array,
        columns.state as string,
        columns.attempt as number,
        columns.route as string,
        columns.request_id as string,
        who,
        why,
        via ?? null,
        JSON.stringify({
          state: columns.state as string,
          attempt: columns.attempt as number,
          ...(columns.error !== null && { error: columns.error as string })
        }),
        JSON.stringify({ state: action === 'discard' ? 'discarded' : 'waiting' })
      )
      listLast(this.#prepare, columns)
      change(columns)
    }
    for (const { group_id: group } of chosen) this.#call(group, nowMs)
    return chosen.map(({ id }) => detailOf(this.#prepare(find).get(id as Uint8Array) as Columns))
  }

  #matching ({ olderMs, limit, ...filter }: MessageFilter, nowMs: number, states?: readonly string[], isKept = false): Columns[] {
    const wanted = wantedOf(filter)
    const conditions = [
      `(expires_at is null or expires_at > ? or ${STOPS_ITS_GROUP})`,
      'received_at <= ?',
      ...wanted.conditions,
      ...states === undefined ? [] : ['state in (select value from json_each(?))'],
      ...isKept ? ['request_until > ?'] : []
    ]
    // Of any age is also what was accepted before the clock was put back.
    const until = olderMs === undefined ? Number.MAX_SAFE_INTEGER : nowMs - olderMs
    const values: SQLInputValue[] = [this.#over(nowMs), until, ...wanted.values, ...states === undefined ? [] : [JSON.stringify(states)]]
    if (isKept) values.push(this.#over(nowMs))
    return this.#prepare(`select * from messages where ${conditions.join(' and ')} order by number limit ?`).all(...values, limit)
  }
}
