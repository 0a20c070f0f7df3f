/**
 * One gateway process in virtual time: its own clocks, a pool in front of the upstream, a connection to every port. It can die, be stopped
 * and continued, or be suspended with its machine. A dead process gets nothing and calls nothing, but what it had sent goes on. A stopped
 * one finds everything waiting.
 */
import type { Cancel, Clock, Random } from '../../src/ports/clock.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import type { Upstream, UpstreamResult } from '../../src/ports/upstream.ts'
import { upstreamOf } from '../harness/promised-upstream.ts'
import type { PromisedSending, UpstreamRequest } from '../harness/promised-upstream.ts'
import type { SimulatedUpstream } from '../crash/outside.ts'
import { failure } from '../harness/crashing.ts'
import type { Port } from '../harness/crashing.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { Chance } from './chance.ts'
import type { Director, Met } from './director.ts'
import type { Network } from './network.ts'
import type { Machine, Moment } from './schedule.ts'

/** Who is told of what the history does not show. */
export interface Watcher {
  /** A call was applied with this result, by this process. */
  readonly applied: (process: SimulatedProcess, operation: string, args: readonly unknown[], result: unknown) => void
  /** At the last point before sending, so long after the dispatch. */
  readonly asked: (may: boolean, waitedMs: number) => void
}

export interface ProcessOptions {
  readonly name: string
  /** Which gateway: the seat, not the process in it. */
  readonly gateway: number
  readonly machine: Machine
  /** Where its monotonic clock began. */
  readonly originMs: number
  readonly timeline: Timeline
  readonly chance: Chance
  readonly network: Network
  readonly director: Director
  readonly records: RecordStore
  /** The arbiter may keep a call waiting for longer than the driver does. */
  readonly hangs: () => boolean
  readonly locks: LockStore
  readonly inbox: Pick<InboxStore, typeof INBOX_CALLS[number]>
  readonly upstream: SimulatedUpstream
  /** How long the n-th dispatch of the run waits for a connection. */
  readonly poolMs: () => number
  /** How long the driver waits for the reply to this operation. */
  readonly patienceMs: (port: Port, operation: string) => number
  readonly watcher: Watcher
}

const RECORD_CALLS = [
  'insert', 'take', 'confirm', 'look', 'schemes', 'lostAlgorithms', 'mayBeLost', 'endEarlierScheme', 'renew', 'settle',
  'settleLost', 'lapse', 'sweep', 'takeProbes', 'noteProbe', 'unresolved', 'list', 'resolve', 'expire', 'beat'
] as const
const LOCK_CALLS = ['lock', 'renew', 'swap', 'unlock', 'clear', 'forget'] as const
const INBOX_CALLS = ['accept', 'acceptAll', 'look'] as const
/** Nothing depends on when these are applied: one event for both ways is enough. */
const IDLE_READS: ReadonlySet<string> = new Set(['beat', 'unresolved'])
/** What a driver needs to notice that a connection is gone. */
const RESET_MS = 1
/** Timers that are not due yet by less than this are due. */
const TIMER_GRAIN_MS = 0.001

/** Machines drift by up to 2,000 ppm here, to wear out leases; the clock that the arbiter's is held against by what clocks do drift. */
const BOOT_DRIFT_SHARE = 1 / 8

type Call = {
  readonly port: 'records' | 'locks'
  readonly operation: string
  readonly args: readonly unknown[]
  readonly calledAtMs: number
  readonly patienceMs: number
  done: boolean
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

export class SimulatedProcess {
  readonly name: string
  readonly gateway: number
  readonly records: RecordStore
  readonly locks: LockStore
  readonly inbox: InboxStore
  readonly upstream: Upstream
  readonly clock: Clock
  readonly random: Random
  /** Resolves when it dies. */
  readonly death: Promise<void>
  /** Owners that it has drawn, as hex. */
  readonly drawn = new Set<string>()
  readonly #options: ProcessOptions
  readonly #dies: () => void
  #alive = true
  #wallStepsMs = 0
  /** How long its monotonic clock has stood still, and since when it does. */
  #stoodMs = 0
  #standsSinceMs: number | null = null
  #stops = 0
  #held: Array<() => void> = []

  constructor (options: ProcessOptions) {
    const { name, gateway, timeline, machine, originMs } = options
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#options = options
    this.name = name
    this.gateway = gateway
    this.death = promise
    this.#dies = resolve
    this.records = this.#wiredRecords(options.records)
    this.locks = this.#wiredLocks(options.locks)
    this.inbox = this.#wiredInbox(options.inbox)
    this.upstream = upstreamOf((request, maySend) => this.#send(request, maySend))
    this.clock = {
      monotonicMs: () => originMs + this.#monotonicMs(),
      bootMs: () => timeline.nowMs * (1 + (machine.rate - 1) * BOOT_DRIFT_SHARE),
      wallMs: () => timeline.wallMs + timeline.nowMs * (machine.rate - 1) + machine.skewMs + this.#wallStepsMs,
      after: (ms, call) => this.#timer(ms, () => {
        options.director.step(gateway)
        if (this.#alive) call()
      })
    }
    this.random = { bytes: (size) => this.#draw(size) }
  }

  get alive (): boolean { return this.#alive }
  get stopped (): boolean { return this.#stops > 0 }

  /** As kill -9: no call after this one, no answer, no timer. */
  die (): void {
    this.#alive = false
    this.#held = []
    this.#dies()
  }

  /** SIGSTOP for a while; `stands`: with its monotonic clock. */
  stop (forMs: number, clock: 'runs' | 'stands'): void {
    const { timeline } = this.#options
    this.#stops++
    if (clock === 'stands') this.#standsSinceMs ??= timeline.nowMs
    timeline.after(forMs, () => { this.#goOn() })
  }

  setWallClock (byMs: number): void {
    this.#wallStepsMs += byMs
  }

  /** What comes from outside: now, or when it goes on, or never. */
  enter (come: () => void): void {
    if (!this.#alive) return
    if (this.stopped) this.#held.push(come)
    else come()
  }

  #goOn (): void {
    if (--this.#stops > 0 || !this.#alive) return
    const { timeline, chance } = this.#options
    if (this.#standsSinceMs !== null) this.#stoodMs += timeline.nowMs - this.#standsSinceMs
    this.#standsSinceMs = null
    const held = this.#held
    this.#held = []
    // Timers or replies first: where in its loop it was stopped decides.
    if (chance.hit(0.5)) held.reverse()
    for (const come of held) timeline.after(0, () => { this.enter(come) })
  }

  // -------------------------------------------------------------- its clocks

  #monotonicMs (): number {
    const { timeline, machine } = this.#options
    return ((this.#standsSinceMs ?? timeline.nowMs) - this.#stoodMs) * machine.rate
  }

  #timer (ms: number, call: () => void): Cancel {
    const { timeline, machine } = this.#options
    const dueMs = this.#monotonicMs() + Math.max(0, ms)
    let cancel: Cancel = () => {}
    let cancelled = false
    const arm = (leftMs: number): void => {
      cancel = timeline.after(leftMs / machine.rate, () => {
        this.enter(() => {
          if (cancelled) return
          const stillMs = dueMs - this.#monotonicMs()
          if (stillMs > TIMER_GRAIN_MS) arm(stillMs)
          else call()
        })
      })
    }
    arm(Math.max(0, ms))
    return () => {
      cancelled = true
      cancel()
    }
  }

  #draw (size: number): Buffer {
    const bytes = this.#options.chance.bytes(size)
    this.drawn.add(bytes.toString('hex'))
    return bytes
  }

  #meets (operation: string, moment: Moment): Met | null {
    return this.#options.director.meets(this.gateway, operation, moment)
  }

  // -------------------------------------------------------------- the stores

  /** These calls of a store, on its way. */
  #wired (port: 'records' | 'locks', names: readonly string[], store: object): object {
    const call = (name: string, args: unknown[]): unknown =>
      Reflect.apply(Reflect.get(store, name, store) as (...args: unknown[]) => unknown, store, args)
    return Object.fromEntries(names.map((name) => [
      name,
      async (...args: unknown[]) => this.#call(port, name, args, async () => call(name, args))
    ]))
  }

  #wiredRecords (store: RecordStore): RecordStore {
    return {
      name: store.name,
      installation: store.installation,
      close: async () => {},
      ...this.#wired('records', RECORD_CALLS, store)
    } as unknown as RecordStore
  }

  /** As far as it accepts: nobody delivers here. */
  #wiredInbox (store: ProcessOptions['inbox']): InboxStore {
    return {
      sweep: async () => 0,
      depths: async () => [],
      list: async () => [],
      ...this.#wired('records', INBOX_CALLS, store)
    } as unknown as InboxStore
  }

  #wiredLocks (store: LockStore): LockStore {
    return {
      name: store.name,
      available: () => this.#options.network.blocked(this.gateway, 'locks') === null,
      close: async () => {},
      wake: (id: Buffer) => { this.#wake(store, id) },
      watch: async (id: Buffer, onWake: () => void) => this.#call('locks', 'watch', [id], async () => store.watch(id, () => {
        this.#woken(onWake)
      })),
      ...this.#wired('locks', LOCK_CALLS, store)
    } as unknown as LockStore
  }

  async #call (port: 'records' | 'locks', operation: string, args: readonly unknown[], apply: () => Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (!this.#alive) return
      const met = this.#meets(operation, 'call')
      if (!this.#alive) return
      const { timeline, patienceMs } = this.#options
      const call: Call = {
        port,
        operation,
        args,
        calledAtMs: timeline.nowMs,
        patienceMs: patienceMs(port, operation),
        done: false,
        resolve,
        reject
      }
      // Stopped at this very point: it leaves when the process goes on.
      this.enter(() => { this.#leave(call, met, apply) })
    })
  }

  #leave (call: Call, met: Met | null, apply: () => Promise<unknown>): void {
    const { timeline, network } = this.#options
    const way = network.blocked(this.gateway, call.port)
    if (way === null && met === null && IDLE_READS.has(call.operation)) {
      void this.#apply(call, met, apply)
      return
    }
    if (way === 'reset' || met?.fault === 'refused') return this.#fail(call, network.oneWayMs(), false)
    const thereMs = network.oneWayMs() + (met?.fault === 'late' ? met.lateMs : 0)
    const lost = met?.fault === 'request' || network.loses()
    if (met?.fault === 'late') network.delays(thereMs)
    if (!lost && way === null) timeline.after(thereMs, () => { void this.#apply(call, met, apply) })
    if (lost || way === 'hole' || thereMs >= call.patienceMs || met?.fault === 'late') {
      this.#fail(call, Math.min(call.patienceMs, met?.lateMs ?? Infinity), true)
    }
  }

  async #apply (call: Call, met: Met | null, apply: () => Promise<unknown>): Promise<void> {
    const { network, timeline, watcher, hangs } = this.#options
    if (call.port === 'records' && hangs()) this.#fail(call, call.calledAtMs + call.patienceMs - timeline.nowMs, true)
    let told: () => void
    try {
      const result = await apply()
      watcher.applied(this, call.operation, call.args, result)
      told = () => { call.resolve(result) }
    } catch (error) {
      told = () => { call.reject(error) }
    }
    this.#meets(call.operation, 'applied')
    const backMs = network.oneWayMs() + (met?.fault === 'slow' ? met.lateMs : 0)
    const leftMs = call.calledAtMs + call.patienceMs - timeline.nowMs
    const way = network.blocked(this.gateway, call.port)
    if (way === 'reset') return this.#fail(call, RESET_MS, true)
    if (way === 'hole' || met?.fault === 'reply' || network.loses() || backMs >= leftMs) return this.#fail(call, leftMs, true)
    timeline.after(backMs, () => { this.#reply(call, told) })
  }

  #reply (call: Call, told: () => void): void {
    this.enter(() => {
      if (call.done) return
      const { timeline, chance } = this.#options
      // Both had come while it was stopped: the reply, and the end of the driver's patience.
      const late = timeline.nowMs >= call.calledAtMs + call.patienceMs
      call.done = true
      this.#meets(call.operation, 'reply')
      if (!this.#alive) return
      if (late && chance.hit(0.5)) this.#say(call, true)
      else told()
    })
  }

  #fail (call: Call, ms: number, inDoubt: boolean): void {
    this.#options.timeline.after(Math.max(0, ms), () => {
      this.enter(() => {
        if (call.done) return
        call.done = true
        this.#meets(call.operation, 'reply')
        if (this.#alive) this.#say(call, inDoubt)
      })
    })
  }

  #say (call: Call, inDoubt: boolean): void {
    try {
      call.resolve(failure(call.port, call.operation, inDoubt))
    } catch (error) {
      call.reject(error)
    }
  }

  // -------------------------------------------------------------- wake-ups: nobody is told whether they came

  #wake (store: LockStore, id: Buffer): void {
    if (!this.#alive) return
    this.#meets('wake', 'call')
    const { network, timeline } = this.#options
    this.enter(() => {
      if (network.blocked(this.gateway, 'locks') === null && !network.loses()) timeline.after(network.oneWayMs(), () => { store.wake(id) })
    })
  }

  #woken (onWake: () => void): void {
    const { network, timeline } = this.#options
    if (network.blocked(this.gateway, 'locks') === null && !network.loses()) {
      timeline.after(network.oneWayMs(), () => { this.enter(onWake) })
    }
  }

  // -------------------------------------------------------------- the upstream

  #send (request: UpstreamRequest, maySend: () => boolean): PromisedSending {
    const { timeline, network, upstream, poolMs, watcher } = this.#options
    const told = Promise.withResolvers<UpstreamResult>()
    const met = this.#alive ? this.#meets('send', 'call') : null
    const calledAtMs = timeline.nowMs
    let cancelled = false
    let started = false
    let arrive = (): void => {}
    const tell = (result: UpstreamResult): void => {
      timeline.after(network.oneWayMs(), () => {
        this.enter(() => {
          this.#meets('send', 'reply')
          if (this.#alive) told.resolve(result)
        })
      })
    }
    const asked = (): boolean => {
      started = maySend()
      watcher.asked(started, timeline.nowMs - calledAtMs)
      return started
    }
    const begin = (): void => {
      if (cancelled) return
      if (met?.fault === 'refused') return tell({ kind: 'unsent', code: 'ECONNREFUSED' })
      const lost: UpstreamResult = { kind: 'lost', code: 'ECONNRESET', timedOut: false, status: null }
      arrive = upstream.begin(
        request,
        asked,
        (result) => { tell(met?.fault === 'reply' && result.kind !== 'unsent' ? lost : result) },
        network.wireMs()
      )
      if (started) this.#meets('send', 'applied')
    }
    this.#timer(poolMs() + network.oneWayMs(), begin)
    return {
      result: told.promise,
      cancel: (code, timedOut) => {
        cancelled = true
        // Bytes on the wire cannot be called back: what is given up counts as arrived, so that nothing arrives later.
        arrive()
        told.resolve(started ? { kind: 'lost', code, timedOut, status: null } : { kind: 'unsent', code })
      }
    }
  }
}
