/**
 * The arbiter of a simulated world: the memory store of src/, and what can befall it. Its clock steps; its commits hang while
 * its reads go on, and are lost if another takes over meanwhile; somebody holds a row locked; it forgets. Whatever else can
 * go wrong with it goes wrong on the way (network.ts).
 */
import { StoreUnavailable } from '../../src/errors.ts'
import type { Token } from '../../src/core/record.ts'
import type { LapseOrder, RecordStore, RenewResult } from '../../src/ports.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { Action } from './schedule.ts'
import { StoreTime } from './store-time.ts'
import type { Write } from './store-time.ts'

type Hang = Extract<Action, { kind: 'hang' }>

/** Who waits for a synchronous standby, or for a row. */
interface Gate { readonly open: Promise<void>, readonly opens: () => void }

/** Commits hang. `lost`: another has taken over since, and knows nothing of what was written. */
interface Hanging extends Gate { readonly shows: boolean, lost: boolean }

export interface ArbiterOptions {
  readonly timeline: Timeline
  /** A standby will take over: what it has is done again, so all that is written is noted. */
  readonly promoted: boolean
  /** What is written from now on may be lost; to be called if it is. */
  readonly doubtful: () => () => void
}

/** These write a row of somebody whose lease, outcome or name they carry: they wait for whoever holds it locked. */
const ROW_WRITES: ReadonlySet<string> = new Set(['take', 'confirm', 'settle', 'settleLost', 'noteProbe', 'resolve', 'expire'])
/** Of these it shows only in their result whether they wrote anything. */
const READS: ReadonlySet<string> = new Set(['look', 'unresolved', 'list'])

export class SimulatedArbiter {
  /** As it stands, whatever hangs: for who looks from outside. */
  readonly records: RecordStore
  readonly #options: ArbiterOptions
  readonly #time: StoreTime
  #store: MemoryStore
  #log: Array<Write<RecordStore>> = []
  #aheadMs = 0
  #hanging: Hanging | null = null
  readonly #locked = new Map<string, Gate & { readonly owner: Buffer }>()

  constructor (options: ArbiterOptions) {
    this.#options = options
    this.#time = new StoreTime(() => options.timeline.wallMs + this.#aheadMs)
    this.#store = this.#empty()
    this.records = new Proxy(this.#store, {
      get: (_, property) => {
        const member: unknown = Reflect.get(this.#store, property, this.#store)
        return typeof member === 'function' ? this.#logged(String(property), member.bind(this.#store) as (...args: unknown[]) => unknown) : member
      }
    })
  }

  /** A call may wait for as long as it pleases whoever hampers it. */
  get hampered (): boolean { return this.#hanging !== null || this.#locked.size > 0 }

  /** Outside the promise (protocol §10), but for what Redis still knows. */
  forget (): void {
    this.#log = []
    this.#store = this.#empty()
  }

  step (byMs: number): void {
    this.#aheadMs += byMs
  }

  hang ({ forMs, shows, promoted }: Hang): void {
    if (this.#hanging !== null) return
    const { timeline, doubtful } = this.#options
    const forgotten = doubtful()
    const { promise, resolve } = Promise.withResolvers<void>()
    const hanging: Hanging = { open: promise, opens: resolve, shows, lost: promoted }
    const durable = this.#log.length
    this.#hanging = hanging
    timeline.after(forMs, () => {
      this.#hanging = null
      if (promoted) {
        this.#log.length = durable
        this.#store = this.#empty()
        this.#time.again(this.#log, this.#store)
        forgotten()
      }
      resolve()
    })
  }

  /** Somebody looks at a row with `for update`. */
  lockRow (id: Buffer, owner: Buffer, forMs: number): void {
    const name = id.toString('hex')
    if (this.#locked.has(name)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#locked.set(name, { owner, open: promise, opens: resolve })
    this.#options.timeline.after(forMs, () => {
      this.#locked.delete(name)
      resolve()
    })
  }

  /** `records`: these rows, watched. A call ends here as a driver's ends: acknowledged, or not. */
  async carried (records: RecordStore, operation: string, args: readonly unknown[]): Promise<unknown> {
    const call = records[operation as keyof RecordStore] as (...args: readonly unknown[]) => Promise<unknown>
    if (this.#hanging === null && this.#locked.size === 0) return call(...args)
    if (this.#hanging !== null && !this.#hanging.shows && await this.#writes(operation, args)) await this.#through(this.#hanging, operation)
    const result = await this.#besideLocks(records, operation, args)
    // A settled row is shown only when it is durable: a driver vouches for it by a write of its own (ports.ts).
    if (this.#hanging !== null && (hasWritten(operation, result) || showsSettled(result))) await this.#through(this.#hanging, operation)
    return result
  }

  async #through (hanging: Hanging, operation: string): Promise<void> {
    await hanging.open
    if (hanging.lost) throw new StoreUnavailable('simulated', operation, true)
  }

  async #besideLocks (records: RecordStore, operation: string, args: readonly unknown[]): Promise<unknown> {
    const call = records[operation as keyof RecordStore] as (...args: readonly unknown[]) => Promise<unknown>
    if (this.#locked.size === 0) return call(...args)
    if (operation === 'renew') return this.#renewed(records, args[0] as Token[])
    if (operation === 'lapse') {
      const order = args[0] as LapseOrder
      return records.lapse({ ...order, running: [...order.running, ...Array.from(this.#locked.values(), ({ owner }) => owner)] })
    }
    if (operation === 'sweep') return []
    const gate = ROW_WRITES.has(operation) ? this.#locked.get(idOf(args[0])) : undefined
    if (gate !== undefined) await gate.open
    return call(...args)
  }

  async #renewed (records: RecordStore, tokens: readonly Token[]): Promise<RenewResult[]> {
    const free = tokens.filter(({ id }) => !this.#locked.has(id.toString('hex')))
    const results = await records.renew(free)
    return tokens.map(token => results[free.indexOf(token)] ?? 'skipped')
  }

  /** Would it, as things stand? Who only reads is answered while commits hang. */
  async #writes (operation: string, args: readonly unknown[]): Promise<boolean> {
    if (READS.has(operation)) return false
    return operation !== 'insert' || await this.#store.look((args[0] as { readonly id: Buffer }).id) === null
  }

  #logged (operation: string, call: (...args: unknown[]) => unknown): (...args: unknown[]) => unknown {
    if (!this.#options.promoted || READS.has(operation)) return call
    return (...args) => {
      const again = operation === 'lapse' ? [{ ...args[0] as LapseOrder, still: () => true }] : args
      const done = call(...args) as Promise<unknown>
      const atMs = this.#time.nowMs()
      return done.then(result => {
        if (hasWritten(operation, result)) this.#log.push({ atMs, apply: async store => (store[operation as keyof RecordStore] as (...args: unknown[]) => Promise<unknown>)(...again) })
        return result
      })
    }
  }

  #empty (): MemoryStore {
    return new MemoryStore({ nowMs: this.#time.nowMs, installation: 'simulated' })
  }
}

/** A token, a claim, a settlement, a note or a resolution: whatever it is, it is about one record. */
function idOf (about: unknown): string {
  const { id, token } = about as { readonly id?: Buffer, readonly token?: Token }
  return (id ?? token?.id)?.toString('hex') ?? ''
}

function hasWritten (operation: string, result: unknown): boolean {
  if (READS.has(operation)) return false
  if (operation === 'beat') return true
  if (typeof result === 'boolean') return result
  if (Array.isArray(result)) return operation === 'renew' ? result.includes('renewed') : result.length > 0
  return ['won', 'settled', 'done'].includes((result as { readonly kind: string }).kind)
}

function showsSettled (result: unknown): boolean {
  if (result === null || typeof result !== 'object') return false
  const { row, state } = result as { readonly row?: { readonly state: string } | null, readonly state?: string }
  const shown = state ?? row?.state
  return shown !== undefined && shown !== 'claimed'
}

/** Every method of the port, behind whatever hangs or is locked. */
export function carriedBy (arbiter: SimulatedArbiter, records: RecordStore): RecordStore {
  const calls = Object.keys(records).filter(name => typeof records[name as keyof RecordStore] === 'function')
  return { ...records, ...Object.fromEntries(calls.map(name => [name, async (...args: unknown[]) => arbiter.carried(records, name, args)])) }
}
