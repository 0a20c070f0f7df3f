/** Marks of mode drop in the embedded store: the table on the worker's thread, and the port on the gateway's. */
import type { DatabaseSync, SQLOutputValue, StatementSync } from 'node:sqlite'
import type { Identity } from '../../core/record/record-id.ts'
import type { MarkEnding, Marking, MarkResult, MarkStore } from '../../ports/marks.ts'
import type { MarkCall } from './worker-protocol.ts'

type MarkOf<Op extends MarkCall['op']> = Extract<MarkCall, { readonly op: Op }>

/** Inside the worker's transaction: it is the only writer. */
export class MarkTable {
  /** How far the clock is trusted: no mark later than this is over. Unix milliseconds. */
  believedMs = Infinity
  readonly #find: StatementSync
  readonly #put: StatementSync
  readonly #remove: StatementSync
  readonly #sweep: StatementSync
  readonly #free: StatementSync
  readonly #forget: StatementSync
  readonly #scheme: StatementSync

  constructor (connection: DatabaseSync) {
    this.#find = connection.prepare('select token, done from marks where id = ? and expires_at > ?')
    this.#put = connection.prepare('insert or replace into marks (id, token, done, expires_at, scheme) values (?, ?, ?, ?, ?)')
    this.#remove = connection.prepare('delete from marks where id = ? and token = ?')
    this.#sweep = connection.prepare(
      'delete from marks where id in (select id from marks where expires_at <= ? order by expires_at limit ?)'
    )
    this.#free = connection.prepare('delete from marks where done = 0')
    this.#forget = connection.prepare('delete from marks where id = ?')
    this.#scheme = connection.prepare('select scheme from installation')
  }

  mark (call: MarkOf<'mark'>, nowMs: number): MarkResult {
    const found = this.#live(call.id, nowMs)
    const mine = found !== undefined && call.token.equals(found.token as Uint8Array)
    if (found !== undefined && !mine) return found.done === 1 ? 'done' : 'running'
    if (found === undefined && this.#isMoved(call, nowMs)) return 'moved'
    if (call.earlierId !== null && found === undefined) this.#forget.run(call.earlierId)
    if (found?.done !== 1) this.#write(call, call.done, nowMs)
    return 'marked'
  }

  stands ({ id }: MarkOf<'markStands'>, nowMs: number): boolean {
    return this.#live(id, nowMs) !== undefined
  }

  end (call: MarkOf<'markDone'>, nowMs: number): null {
    this.#write(call, true, nowMs)
    return null
  }

  remove ({ id, token }: MarkOf<'markRemove'>): null {
    this.#remove.run(id, token)
    return null
  }

  sweep (limit: number, nowMs: number): number {
    return Number(this.#sweep.run(Math.min(nowMs, this.believedMs), limit).changes)
  }

  #live (id: Buffer, nowMs: number): Record<string, SQLOutputValue> | undefined {
    return this.#find.get(id, Math.min(nowMs, this.believedMs))
  }

  /** Another scheme claims, or a mark that lives stands under the earlier id. */
  #isMoved ({ scheme, earlierId }: Identity, nowMs: number): boolean {
    return scheme !== this.#scheme.get()?.scheme || (earlierId !== null && this.#live(earlierId, nowMs) !== undefined)
  }

  #write ({ id, scheme, token, keepMs }: MarkEnding, done: boolean, nowMs: number): void {
    this.#put.run(id, token, done ? 1 : 0, nowMs + Math.round(keepMs), scheme)
  }

  /** No other gateway lives here, so the gateways that forwarded these are dead. The retries of their senders go through. */
  freeTheDead (): void {
    this.#free.run()
  }
}

export interface MarkBatchers {
  readonly mark: (call: MarkOf<'mark'>) => Promise<MarkResult>
  readonly stands: (call: MarkOf<'markStands'>) => Promise<boolean>
  readonly end: (call: MarkOf<'markDone' | 'markRemove'>) => Promise<null>
  readonly sweep: (limit: number) => Promise<number>
}

export class SqliteMarks implements MarkStore {
  readonly name = 'sqlite'
  readonly sweep: (limit: number) => Promise<number>
  readonly #batchers: MarkBatchers

  constructor (batchers: MarkBatchers) {
    this.#batchers = batchers
    this.sweep = batchers.sweep
  }

  mark ({ as, ...marking }: Marking): Promise<MarkResult> {
    return this.#batchers.mark({ op: 'mark', ...marking, done: as === 'done' })
  }

  stands (id: Buffer): Promise<boolean> {
    return this.#batchers.stands({ op: 'markStands', id })
  }

  async done (ending: MarkEnding): Promise<void> {
    await this.#batchers.end({ op: 'markDone', ...ending })
  }

  async remove (id: Buffer, token: Buffer): Promise<boolean> {
    await this.#batchers.end({ op: 'markRemove', id, token })
    return true
  }
}
