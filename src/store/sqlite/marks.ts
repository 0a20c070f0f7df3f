/** Marks of mode drop in the embedded store: the table as the worker has it, and the port as the gateway's thread does. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { MarkResult, MarkStore } from '../../ports.ts'
import type { MarkCall } from './wire.ts'

type MarkOf<Op extends MarkCall['op']> = Extract<MarkCall, { readonly op: Op }>

/** Inside the transaction that the worker holds; nobody else writes meanwhile. */
export class MarkTable {
  /** What is believed of the clock: no mark is over by more than this. Unix milliseconds. */
  believedMs = Infinity
  readonly #find: StatementSync
  readonly #put: StatementSync
  readonly #remove: StatementSync
  readonly #sweep: StatementSync
  readonly #free: StatementSync

  constructor (connection: DatabaseSync) {
    this.#find = connection.prepare('select token, done from marks where id = ? and expires_at > ?')
    this.#put = connection.prepare('insert or replace into marks (id, token, done, expires_at) values (?, ?, ?, ?)')
    this.#remove = connection.prepare('delete from marks where id = ? and token = ?')
    this.#sweep = connection.prepare('delete from marks where id in (select id from marks where expires_at <= ? order by expires_at limit ?)')
    this.#free = connection.prepare('delete from marks where done = 0')
  }

  mark (call: MarkOf<'mark'>, nowMs: number): MarkResult {
    const found = this.#find.get(call.id, Math.min(nowMs, this.believedMs))
    const mine = found !== undefined && call.token.equals(found.token as Uint8Array)
    if (found !== undefined && !mine) return found.done === 1 ? 'done' : 'running'
    if (found?.done !== 1) this.put(call, nowMs)
    return 'marked'
  }

  put ({ id, token, done, keepMs }: Omit<MarkOf<'mark'>, 'op'>, nowMs: number): null {
    this.#put.run(id, token, done ? 1 : 0, nowMs + Math.round(keepMs))
    return null
  }

  remove ({ id, token }: MarkOf<'markRemove'>): null {
    this.#remove.run(id, token)
    return null
  }

  sweep (limit: number, nowMs: number): number {
    return Number(this.#sweep.run(Math.min(nowMs, this.believedMs), limit).changes)
  }

  /** No other gateway lives here: whoever forwarded these is dead, and their senders' retries go through. */
  freeTheDead (): void {
    this.#free.run()
  }
}

export interface MarkLanes {
  readonly mark: (call: MarkOf<'mark'>) => Promise<MarkResult>
  readonly end: (call: MarkOf<'markDone' | 'markRemove'>) => Promise<null>
  readonly sweep: (limit: number) => Promise<number>
}

export class SqliteMarks implements MarkStore {
  readonly name = 'sqlite'
  readonly sweep: (limit: number) => Promise<number>
  readonly #lanes: MarkLanes

  constructor (lanes: MarkLanes) {
    this.#lanes = lanes
    this.sweep = lanes.sweep
  }

  mark (id: Buffer, token: Buffer, as: 'running' | 'done', keepMs: number): Promise<MarkResult> {
    return this.#lanes.mark({ op: 'mark', id, token, done: as === 'done', keepMs })
  }

  async done (id: Buffer, token: Buffer, keepMs: number): Promise<void> {
    await this.#lanes.end({ op: 'markDone', id, token, keepMs })
  }

  async remove (id: Buffer, token: Buffer): Promise<boolean> {
    await this.#lanes.end({ op: 'markRemove', id, token })
    return true
  }
}
