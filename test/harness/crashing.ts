/**
 * A gateway process that dies, or whose calls fail, at a chosen call. Every port goes through a wire that counts the calls and
 * applies the planned fault to one of them. A dead process gets no replies, makes no calls, and its timers have stopped.
 * Its calls in flight at the stores and at the upstream go on without it.
 */
import { createHash } from 'node:crypto'
import { StoreUnavailable } from '../../src/ports/errors.ts'
import type { Clock, Random } from '../../src/ports/clock.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import type { Upstream, UpstreamResult } from '../../src/ports/upstream.ts'
import { upstreamOf } from './promised-upstream.ts'
import type { PromisedSending, PromisedUpstream, UpstreamRequest } from './promised-upstream.ts'
import type { Timeline } from './timeline.ts'

/**
 * `before`: the process dies instead of the call. `after`: it dies when the call is applied, without a reply.
 * In the others the process lives. `refused`: not applied, with an error. `lost`: applied, and the reply is lost.
 * `late`: the reply is lost at once, and the call is applied later. `slow`: applied at once, and the reply comes after every timeout.
 */
export const FAULTS = ['before', 'after', 'refused', 'lost', 'late', 'slow'] as const
export type Fault = typeof FAULTS[number]

export type Port = 'records' | 'locks' | 'inbox' | 'upstream'
type StorePort = Exclude<Port, 'upstream'>
export interface Call { readonly number: number, readonly port: Port, readonly operation: string, readonly atMs: number }
/** null: the call goes through. */
export type Plan = (call: Call) => Fault | null

export const NO_FAULT: Plan = () => null

/** One way between the process and a store. */
const TRANSIT_MS = 1
/** Longer than `claimWithin` and the wait for a settle (3 s), shorter than a statement's longest time (10 s). */
const LATE_MS = 4_000
const SLOW_MS = 4_500

export interface ProcessOptions {
  readonly name: string
  readonly timeline: Timeline
  readonly records: RecordStore
  readonly locks: LockStore
  /** Absent: unused. */
  readonly inbox?: InboxStore
  readonly upstream: PromisedUpstream
  readonly plan: Plan
  /** The start of this process's monotonic clock. */
  readonly originMs: number
}

export class CrashingProcess {
  readonly name: string
  readonly records: RecordStore
  readonly locks: LockStore
  readonly inbox: InboxStore | null
  readonly upstream: Upstream
  readonly clock: Clock
  readonly random: Random
  readonly calls: Call[] = []
  /** Resolves when it dies. */
  readonly death: Promise<void>
  readonly #options: ProcessOptions
  readonly #dies: () => void
  #alive = true
  #drawn = 0

  constructor (options: ProcessOptions) {
    const { name, timeline, originMs } = options
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#options = options
    this.name = name
    this.death = promise
    this.#dies = resolve
    this.records = this.#wired('records', options.records)
    this.locks = this.#wired('locks', options.locks)
    this.inbox = options.inbox === undefined ? null : this.#wired('inbox', options.inbox)
    this.upstream = upstreamOf((request, maySend) => this.#send(request, maySend))
    this.clock = {
      monotonicMs: () => timeline.nowMs + originMs,
      wallMs: () => timeline.wallMs,
      bootMs: () => timeline.nowMs,
      after: (ms, call) => timeline.after(ms, () => { if (this.#alive) call() })
    }
    this.random = { bytes: (size) => this.#draw(size) }
  }

  get alive (): boolean { return this.#alive }

  /** Like kill -9: no further call, answer or timer. */
  die (): void {
    this.#alive = false
    this.#dies()
  }

  #next (port: Port, operation: string): Fault | null {
    const call: Call = { number: this.calls.length + 1, port, operation, atMs: this.#options.timeline.nowMs }
    this.calls.push(call)
    return this.#options.plan(call)
  }

  /** Deterministic, and all different. */
  #draw (size: number): Buffer {
    return createHash('sha256').update(`${this.name} ${++this.#drawn}`).digest().subarray(0, size)
  }

  // -------------------------------------------------------------- the stores

  #wired<Store extends RecordStore | LockStore | InboxStore> (port: StorePort, store: Store): Store {
    return new Proxy(store, {
      get: (target, property) => {
        // Its methods are wired, so it has no other way in.
        if (property === 'lanes' || property === 'lane') return undefined
        const member: unknown = Reflect.get(target, property, target)
        if (typeof member !== 'function') return member
        const operation = String(property)
        const apply = (args: unknown[]): unknown => Reflect.apply(member, target, args)
        if (operation === 'available' || operation === 'close') return (...args: unknown[]) => apply(args)
        if (operation === 'wake') return (...args: unknown[]) => { this.#wake(() => { apply(args) }) }
        if (operation === 'watch') {
          return async (id: Buffer, onWake: () => void) => this.#call(
            port,
            operation,
            async () => await apply([id, () => { if (this.#alive) onWake() }])
          )
        }
        return async (...args: unknown[]) => this.#call(port, operation, async () => await apply(args))
      }
    })
  }

  async #call (port: StorePort, operation: string, apply: () => Promise<unknown>): Promise<unknown> {
    if (!this.#alive) return never()
    const { timeline } = this.#options
    const fault = this.#next(port, operation)
    if (fault === 'before') {
      this.die()
      return never()
    }
    await timeline.sleep(TRANSIT_MS)
    if (fault === 'refused') return this.#answer(() => failure(port, operation, false))
    if (fault === 'late') {
      timeline.after(LATE_MS, () => { apply().catch(ignored) })
      return this.#answer(() => failure(port, operation, true))
    }
    // A call in flight when the process dies is applied all the same.
    const result = await settledly(apply())
    if (fault === 'after') this.die()
    if (fault === 'slow') await timeline.sleep(SLOW_MS)
    return this.#answer(fault === 'lost' ? () => failure(port, operation, true) : result)
  }

  async #answer (result: () => unknown): Promise<unknown> {
    await this.#options.timeline.sleep(TRANSIT_MS)
    return this.#alive ? result() : never()
  }

  #wake (apply: () => void): void {
    if (!this.#alive) return
    const fault = this.#next('locks', 'wake')
    if (fault === 'before') this.die()
    if (fault === null || fault === 'after' || fault === 'slow') apply()
    if (fault === 'after') this.die()
  }

  // -------------------------------------------------------------- the upstream

  #send (request: UpstreamRequest, maySend: () => boolean): PromisedSending {
    const fault = this.#alive ? this.#next('upstream', 'send') : 'before'
    const { timeline, upstream } = this.#options
    const told = Promise.withResolvers<UpstreamResult>()
    const tell = (result: UpstreamResult): void => { if (this.#alive) told.resolve(result) }
    let cancelled: string | null = null
    let sending: PromisedSending | null = null
    const asked = (): boolean => {
      const may = this.#alive && cancelled === null && maySend()
      if (may && fault === 'after') queueMicrotask(() => { this.die() })
      return may
    }
    const begin = (): void => {
      if (cancelled !== null) return
      sending = upstream.send(request, asked)
      void sending.result.then(async (result) => {
        if (fault === 'slow') await timeline.sleep(SLOW_MS)
        tell(fault === 'lost' && result.kind !== 'unsent' ? { kind: 'lost', code: 'ECONNRESET', timedOut: false, status: null } : result)
      })
    }
    if (fault === 'before') this.die()
    else if (fault === 'refused') tell({ kind: 'unsent', code: 'ECONNREFUSED' })
    else if (fault === 'late') timeline.after(LATE_MS, begin)
    else begin()
    return {
      result: told.promise,
      cancel: (code, timedOut) => {
        cancelled ??= code
        if (sending === null) tell({ kind: 'unsent', code })
        else if (fault === 'slow') tell({ kind: 'lost', code, timedOut, status: null })
        else sending.cancel(code, timedOut)
      }
    }
  }
}

/** A new promise for each call: a shared one would keep every dead process in memory. */
function never (): Promise<never> {
  return new Promise(() => {})
}

function ignored (): void {
  // No caller is left to get the answer.
}

async function settledly (work: Promise<unknown>): Promise<() => unknown> {
  try {
    const value = await work
    return () => value
  } catch (error) {
    return () => { throw error }
  }
}

/** How a port reports a failed call: the arbiter rejects, for records and messages. The fast path never does. */
export function failure (port: StorePort, operation: string, inDoubt: boolean): unknown {
  if (port !== 'locks') throw new StoreUnavailable('simulated', operation, inDoubt)
  switch (operation) {
    case 'lock': return { kind: 'unavailable' }
    case 'swap':
    case 'forget': return false
    case 'watch': return () => {}
    default: return undefined
  }
}
