/**
 * The books of a simulated upstream: what it has really done, and since when it knows. A probe is answered from a copy that lags behind, as
 * with replicas and search indexes, and sometimes not at all.
 */
import type { Answer } from '../../src/core/record/record.ts'
import type { UpstreamResult } from '../../src/ports/upstream.ts'
import type { Behaviour } from '../crash/outside.ts'
import type { Chance } from './chance.ts'

interface Entry { readonly sentAtMs: number, readonly knownAtMs: number, readonly answer: Answer }

export interface BooksOptions {
  readonly chance: Chance
  /** No copy lags behind by more: as long as the record's quarantine and confirmAfter allow for beside the work itself. */
  readonly lagMaxMs: number
  /** The longest that it works on anything. */
  readonly workMaxMs: number
  /** When this life of a record began: it is asked by a reference of its own, as docs/reference/http.md says that it must be. */
  readonly begunAtMs: (record: string) => number
}

/** Of all questions: nobody answers, or not with what was asked for. */
const UNANSWERED_SHARE = 0.3
/** Of the executions that broke off or whose answer came from a hop: it was done all the same. */
const DONE_SHARE = 0.6
const NOT_THERE: Answer = { status: 404, headers: [], body: Buffer.alloc(0) }

export class Books {
  readonly #options: BooksOptions
  readonly #entries = new Map<string, Entry[]>()
  /** What was really done. */
  readonly done = new Set<number>()
  calm = false

  constructor (options: BooksOptions) {
    this.#options = options
  }

  /** An execution begins; it will be in the books when its work is over, if it is done at all. */
  enter (record: string, execution: number, behaviour: Exclude<Behaviour, { kind: 'refuse' }>, answer: Answer, nowMs: number): void {
    const { chance, lagMaxMs, workMaxMs } = this.#options
    if (!this.#isDone(behaviour)) return
    this.done.add(execution)
    const workMs = behaviour.kind === 'silence' ? workMaxMs : behaviour.afterMs
    const entries = this.#entries.get(record) ?? []
    this.#entries.set(record, [...entries, { sentAtMs: nowMs, knownAtMs: nowMs + workMs + Math.round(chance.unit() * lagMaxMs), answer }])
  }

  answer (record: string, nowMs: number): UpstreamResult {
    const { chance, begunAtMs } = this.#options
    if (!this.calm && chance.hit(UNANSWERED_SHARE)) return { kind: 'lost', code: 'ECONNRESET', timedOut: false, status: null }
    const entry = this.#entries.get(record)?.findLast(({ sentAtMs, knownAtMs }) => knownAtMs <= nowMs && sentAtMs >= begunAtMs(record))
    return { kind: 'answer', answer: entry === undefined ? NOT_THERE : { ...entry.answer, status: 200 } }
  }

  #isDone (behaviour: Exclude<Behaviour, { kind: 'refuse' }>): boolean {
    if (behaviour.kind === 'stream' || (behaviour.kind === 'answer' && behaviour.means === 'keep')) return true
    if (behaviour.kind === 'answer' && behaviour.means === 'release') return false
    if (behaviour.kind === 'page') return behaviour.done
    return this.#options.chance.hit(DONE_SHARE)
  }
}
