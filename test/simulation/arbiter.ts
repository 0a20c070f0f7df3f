/**
 * The arbiter of a simulated world: the memory store of src/, and its faults. Its clock steps. Its commits hang while its reads go on, and
 * are lost if another takes over meanwhile. Rows can be locked, and it can forget. Other faults are those of the network (network.ts).
 */
import { StoreUnavailable } from '../../src/ports/errors.ts'
import type { Token } from '../../src/core/record/record.ts'
import type { SwitchResult } from '../../src/core/record/scheme-switch.ts'
import type { Scheme } from '../../src/core/record/schemes.ts'
import type { Beaten, LapseOrder, RecordStore, RenewResult, SignOfLife } from '../../src/ports/records.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { Action } from './schedule.ts'
import { ClockWords } from './clock-words.ts'
import { StoreTime } from './store-time.ts'
import type { Write } from './store-time.ts'

type Hang = Extract<Action, { kind: 'hang' }>

/** Who waits for a synchronous standby, or for a row. */
interface Gate { readonly open: Promise<void>, readonly opens: () => void }

/**
 * Commits hang. `held`: rows that somebody has written whose commit hangs, and who owns them; nobody sees what was written, and
 * nobody writes them meanwhile. `lost`: another takes over, and knows nothing of it.
 */
interface Hanging extends Gate { readonly shows: boolean, readonly held: Map<string, Buffer>, readonly lost: boolean }

export interface ArbiterOptions {
  readonly timeline: Timeline
  /** Its clock will step ahead. */
  readonly steps: boolean
  /** A standby will take over: what it has is done again, so all that is written is noted. */
  readonly promoted: boolean
  /** The name of its first scheme. */
  readonly scheme: string
  /** Another one claims from now on, acknowledged or not. */
  readonly switched: (scheme: Scheme) => void
  /** What is written from now on may be lost; to be called if it is. */
  readonly doubtful: () => () => void
}

/** null: as it is. */
export type Believed = () => number | null
const NOTHING_BELIEVED: Believed = () => null
/** A renewal is asked for again before this is over, or its owner needs it no more (gateway/execution/lease-renewal.ts). */
const ASKED_AGAIN_MS = 1_500
/** Of any schedule. */
const ROWS_MAX = 100
const GRANTS: ReadonlySet<string> = new Set(['insert', 'take', 'confirm'])
const READS: ReadonlySet<string> = new Set(['look', 'schemes', 'lostAlgorithms', 'mayBeLost', 'unresolved', 'list'])

export class SimulatedArbiter {
  /** As it stands, whatever hangs: for who looks from outside. */
  readonly records: RecordStore
  readonly #options: ArbiterOptions
  readonly #time: StoreTime
  #store: MemoryStore
  #inbox: MemoryInbox
  #log: Array<Write<MemoryStore>> = []
  #aheadMs = 0
  /** Ahead, and nobody has said that it is right. */
  stepped = false
  /** How far the clock is believed by whoever calls just now. */
  #believedMs: Believed = NOTHING_BELIEVED
  #words = new ClockWords()
  #hanging: Hanging | null = null
  /** Renewals that have found their rows locked, and when they were asked for. */
  readonly #renewals = new Map<string, { readonly token: Token, readonly askedAtMs: number }>()
  readonly #locked = new Map<string, Gate & { readonly owner: Buffer }>()

  constructor (options: ArbiterOptions) {
    this.#options = options
    this.#time = new StoreTime(() => options.timeline.wallMs + this.#aheadMs)
    this.#store = this.#empty()
    this.#inbox = this.#emptyInbox()
    this.records = new Proxy(this.#store, {
      get: (_, property) => {
        if (property === 'beat') return async (sign: SignOfLife) => this.#beat(sign)
        const member: unknown = Reflect.get(this.#store, property, this.#store)
        return typeof member === 'function'
          ? this.#logged(String(property), member.bind(this.#store) as (...args: unknown[]) => unknown)
          : member
      }
    })
  }

  /** Beside the records, in the same database, as it stands. Nobody delivers. */
  get inbox (): InboxStore { return this.#inbox }

  /** For a process that believes the clock so far: what it accepts is tested against the records by that. */
  inboxOf (believedMs: Believed): Pick<InboxStore, 'accept' | 'acceptAll' | 'look'> {
    return {
      accept: async (message) => this.#believing(believedMs, async () => this.#inbox.accept(message)),
      acceptAll: async (messages) => this.#believing(believedMs, async () => this.#inbox.acceptAll(messages)),
      look: async (id) => this.#inbox.look(id)
    }
  }

  /** A call may wait for as long as it pleases whoever hampers it. */
  get hampered (): boolean { return this.#hanging !== null || this.#locked.size > 0 }

  /** The number of the scheme that claims. */
  get scheme (): number { return this.#store.scheme }

  /** null: its commit was lost, and nobody was told that it is done. */
  async switchScheme (name: string, isLost: boolean): Promise<SwitchResult | null> {
    const before = this.#hanging
    // Its lock waits for all that has been written and hangs.
    if (before?.shows === false) {
      await before.open
      if (before.lost) return null
      // In its place behind what is written when they go on.
      await this.#options.timeline.sleep(0)
    }
    const result = this.#store.switchScheme(name, { isLost })
    if (result.kind !== 'switched') return result
    const atMs = this.#time.nowMs()
    this.#options.switched({ number: result.number, name })
    this.#log.push({ atMs, apply: async (store) => store.switchScheme(name, { isLost }) })
    const hanging = this.#hanging
    await hanging?.open
    return hanging?.lost === true ? null : result
  }

  /** Outside the promise (protocol §10), but for what Redis still knows. */
  forget (): void {
    this.#log = []
    this.#store = this.#empty()
    this.#inbox = this.#emptyInbox()
  }

  step (byMs: number): void {
    this.#aheadMs += byMs
    this.stepped ||= byMs > 0
  }

  /** An operator says that the time is right: what it calls over is over. */
  confirmTime (): void {
    this.#words.confirm(this.#time.nowMs())
    this.stepped = false
  }

  hang ({ forMs, shows, promoted }: Hang): void {
    if (this.#hanging !== null) return
    const { timeline, doubtful } = this.#options
    const forgotten = doubtful()
    const { promise, resolve } = Promise.withResolvers<void>()
    const hanging: Hanging = { open: promise, opens: resolve, shows, held: new Map(), lost: promoted }
    const durable = this.#log.length
    this.#hanging = hanging
    timeline.after(forMs, () => {
      this.#hanging = null
      if (!promoted) this.#renewWaiting(Array.from(hanging.held.keys()))
      if (promoted) {
        this.#log.length = durable
        this.#store = this.#empty()
        this.#inbox = this.#emptyInbox()
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
      this.#renewWaiting([name])
      resolve()
    })
  }

  async #beat (sign: SignOfLife): Promise<Beaten> {
    const beaten = await this.#store.beat(sign)
    // Where no clock ever steps ahead nobody has anything to tell.
    if (!this.#options.steps) return beaten
    return { ...beaten, ...this.#words.beat(sign, beaten.nowMs) }
  }

  /** Behind the call that has skipped it, and before everybody else who comes when the row is free (ports.ts). */
  #renewWaiting (rows: readonly string[]): void {
    for (const row of rows) {
      const waiting = this.#renewals.get(row)
      if (waiting !== undefined && waiting.askedAtMs > this.#options.timeline.nowMs - ASKED_AGAIN_MS) {
        void this.records.renew([waiting.token])
      }
      this.#renewals.delete(row)
    }
  }

  /** `records`: these rows, watched. A call ends here as a driver's ends: acknowledged, or not. */
  async carried (records: RecordStore, operation: string, args: readonly unknown[], believedMs: Believed): Promise<unknown> {
    if (!this.hampered) {
      // Carried out at once, told later: another caller's word counts by then.
      this.#believedMs = believedMs
      const told = (records[operation as keyof RecordStore] as (...args: readonly unknown[]) => Promise<unknown>)(...args)
      this.#believedMs = NOTHING_BELIEVED
      return told
    }
    const hanging = this.#hanging
    const call = async (given: readonly unknown[]): Promise<unknown> => this.#believing(
      believedMs,
      async () => (records[operation as keyof RecordStore] as (...args: readonly unknown[]) => Promise<unknown>)(...given)
    )
    if (READS.has(operation)) return this.#vouched(operation, await call(args))
    if (operation === 'renew') return this.#renewed(args[0] as Token[], async (tokens) => call([tokens]) as Promise<RenewResult[]>)
    if (operation === 'lapse') return this.#lapsed(args[0] as LapseOrder, call)
    if (operation === 'sweep') return []
    const about = aboutOf(args[0])
    // Who inserts looks first: what stands there is told at once, locked or not.
    if (operation === 'insert' && await this.#store.look(Buffer.from(about.id, 'hex')) !== null) {
      return this.#vouched(operation, await call(args))
    }
    await this.#locked.get(about.id)?.open
    return hanging === null || hanging.shows
      ? this.#vouched(operation, await call(args))
      : this.#held(hanging, operation, about, async () => call(args))
  }

  /** As a driver sends it along with every statement, which tests it where it is carried out. */
  async #believing<Told> (believedMs: Believed, call: () => Promise<Told>): Promise<Told> {
    this.#believedMs = believedMs
    // Carried out at once, told later: another caller's word counts by then.
    const told = call()
    this.#believedMs = NOTHING_BELIEVED
    return told
  }

  /** A settled row is shown only when it is durable: a driver vouches for it by a write of its own (ports.ts). */
  async #vouched<Result> (operation: string, result: Result): Promise<Result> {
    const hanging = this.#hanging
    if (hanging !== null && (operation === 'schemes' || hasWritten(operation, result) || showsSettled(result))) {
      await through(hanging, operation)
    }
    return result
  }

  /** Seen when commits no longer hang: a lease that it grants is as old as the statement. Who finds the row locked writes it then. */
  async #held (hanging: Hanging, operation: string, { id, owner }: About, call: () => Promise<unknown>): Promise<unknown> {
    const atMs = GRANTS.has(operation) && !hanging.held.has(id) ? this.#time.nowMs() : null
    if (!hanging.held.has(id)) hanging.held.set(id, owner)
    await through(hanging, operation)
    return atMs === null ? call() : this.#time.at(atMs, call)
  }

  /** What is locked is skipped. */
  async #renewed (tokens: readonly Token[], renew: (tokens: readonly Token[]) => Promise<RenewResult[]>): Promise<RenewResult[]> {
    const hanging = this.#hanging
    const isFree = ({ id }: Token): boolean => !this.#locked.has(id.toString('hex')) && hanging?.held.has(id.toString('hex')) !== true
    const free = tokens.filter(isFree)
    for (const token of tokens) {
      if (!isFree(token)) this.#renewals.set(token.id.toString('hex'), { token, askedAtMs: this.#options.timeline.nowMs })
    }
    if (free.length === 0) return tokens.map(() => 'skipped')
    const inTheirPlaces = (results: RenewResult[]): RenewResult[] => tokens.map((token) => results[free.indexOf(token)] ?? 'skipped')
    if (hanging === null || hanging.shows) return inTheirPlaces(await this.#vouched('renew', await renew(free)))
    const atMs = this.#time.nowMs()
    for (const { id, owner } of free) hanging.held.set(id.toString('hex'), owner)
    await through(hanging, 'renew')
    return inTheirPlaces(await this.#time.at(atMs, async () => renew(free)))
  }

  async #lapsed (order: LapseOrder, lapse: (args: readonly unknown[]) => Promise<unknown>): Promise<unknown> {
    const hanging = this.#hanging
    const running = [...order.running, ...Array.from(this.#locked.values(), ({ owner }) => owner), ...hanging?.held.values() ?? []]
    if (hanging?.shows === false) {
      // Nothing to write is nothing to wait for.
      const rows = await this.#store.list({ state: 'claimed', limit: ROWS_MAX })
      const over = rows.filter(({ id, owner, lapsed }) =>
        lapsed && !running.some((each) => each.equals(owner)) && order.ids?.some((each) => each.equals(id)) !== false)
      if (over.length === 0) return []
      await through(hanging, 'lapse')
    }
    return this.#vouched('lapse', await lapse([{ ...order, running }]))
  }

  #logged (operation: string, call: (...args: unknown[]) => unknown): (...args: unknown[]) => unknown {
    if (!this.#options.promoted || READS.has(operation)) return call
    return (...args) => {
      const again = operation === 'lapse' ? [{ ...args[0] as LapseOrder, still: () => true }] : args
      const believedMs = this.#believedMs()
      const done = call(...args) as Promise<unknown>
      const atMs = this.#time.nowMs()
      const apply = async (store: RecordStore): Promise<unknown> => this.#believing(
        () => believedMs,
        async () => (store[operation as keyof RecordStore] as (...args: unknown[]) => Promise<unknown>)(...again)
      )
      return done.then((result) => {
        if (hasWritten(operation, result)) this.#log.push({ atMs, apply })
        return result
      })
    }
  }

  #emptyInbox (): MemoryInbox {
    return new MemoryInbox({ nowMs: this.#time.nowMs, records: this.#store })
  }

  #empty (): MemoryStore {
    return new MemoryStore({
      nowMs: this.#time.nowMs,
      installation: 'simulated',
      scheme: this.#options.scheme,
      believedMs: () => this.#believedMs()
    })
  }
}

async function through (hanging: Hanging, operation: string): Promise<void> {
  await hanging.open
  if (hanging.lost) throw new StoreUnavailable('simulated', operation, true)
}

interface About { readonly id: string, readonly owner: Buffer }

const NOBODY = Buffer.alloc(0)

/** A token, a claim, a settlement, a note or a resolution: whatever it is, it is about one record. A sign of life is about none. */
function aboutOf (about: unknown): About {
  const { id, owner, token } = (about ?? {}) as { readonly id?: Buffer, readonly owner?: Buffer, readonly token?: Token }
  return { id: (id ?? token?.id ?? NOBODY).toString('hex'), owner: owner ?? token?.owner ?? NOBODY }
}

function hasWritten (operation: string, result: unknown): boolean {
  if (READS.has(operation)) return false
  if (operation === 'beat' || operation === 'endEarlierScheme') return true
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

/** Every method of the port, behind whatever hangs or is locked, for a process that believes the clock so far. */
export function carriedBy (arbiter: SimulatedArbiter, records: RecordStore, believedMs: Believed): RecordStore {
  const calls = Object.keys(records).filter((name) => typeof records[name as keyof RecordStore] === 'function')
  return {
    ...records,
    ...Object.fromEntries(calls.map((name) => [name, async (...args: unknown[]) => arbiter.carried(records, name, args, believedMs)]))
  }
}
