/**
 * Whether this Redis belongs to this database alone. A copy of a whole database server (a snapshot of its disk, a restored
 * base backup) has the same installation id, name and system identifier. If both can reach one Redis, the copy's gateways
 * find production's locks, answers and marks there, and production finds theirs. The copy lacks what the live database wrote
 * after the copy was made. So every gateway shows its beats in Redis, each after the database has acknowledged it. It looks
 * at the beats of others *before* it asks the database for them. A gateway of the same database is never shown ahead of that
 * database. If a gateway is shown ahead, it is a stranger: its database is another one.
 *
 * - `waiting`, the first state: Redis is used for nothing but this. If a gateway sees a stranger, it stays out and shows
 *   nothing, so it disturbs no other. Else it shows its beat and looks *once more*. It begins only if its own beat stood
 *   there and no stranger's. If two begin at once, the one that showed itself later sees the other. A gateway that has stood
 *   still for longer than its beat is shown begins anew. So does one whose beat has vanished (Redis was emptied, or came back
 *   from a snapshot), if it sees a stranger before it has looked once more.
 * - `open`, in use: one stranger's beat proves nothing. An asynchronous failover of the database forgets beats that it has
 *   acknowledged, and just then the locks in Redis are worth most (P2). But live gateways write anew. If one shows a later
 *   beat and is still ahead, it has another database. Then this gateway stops (`shut`) and says so.
 * - `shut`: it waits again when no stranger has been seen for twice as long as a beat is shown.
 *
 * What this leaves: Redis may lose the beats of two databases in the same moment. Then both may be in use until each has
 * looked, which takes a heartbeat. If a copy is served from before production's next beat, it takes two. The answers that
 * they leave there are of different generations, unless the copy is younger than a minute (binding.ts).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Beat, Mirror } from '../../ports/locks.ts'
import type { Log } from '../../ports/telemetry.ts'
import type { Topology } from './topology.ts'

export interface MirrorOptions {
  readonly topology: Pick<Topology, 'call' | 'available'>
  readonly prefix: string
  readonly log: Log
  /** true: a stranger has been found. */
  readonly onChange: (stranger: boolean) => void
  /** How long a beat is shown. For tests. Default: {@link SHOWN_MS}. */
  readonly shownMs?: number
}

/** Six heartbeats at the longest pause between two (gateway.ts). */
const SHOWN_MS = 15_000
/** Share of that time after which a beat is shown again, also while the database takes no new one. */
const AGAIN_SHARE = 1 / 4
/** If no stranger is seen for this many of those times, they are gone. */
const GONE_AFTER = 2
/** If a gateway finds no free seat, it is enough that every seat is taken and none is a stranger's. */
const SEATS = 32
/** A name, a colon, a number of at most 16 digits. */
const VALUE_BYTES_MAX = 64
/** Time for a first connection on this machine or in this region. Without one, the heartbeat has waited once for nothing. */
const CONNECTED_WITHIN_MS = 500
const CONNECTED_LOOK_MS = 10

/** KEYS the seats. Returns the value of each. */
const LOOK = `
local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('GETRANGE', key, 0, ${VALUE_BYTES_MAX - 1}) end
return found
`

/** KEYS the seats. ARGV: name, beat, milliseconds to live. Takes its own seat, else a free one. 0: there is none. */
const SHOW = `
local seat = nil
for _, key in ipairs(KEYS) do
  local value = redis.call('GETRANGE', key, 0, ${VALUE_BYTES_MAX - 1})
  if string.sub(value, 1, #ARGV[1]) == ARGV[1] then seat = key break end
  if value == '' and not seat then seat = key end
end
if not seat then return 0 end
redis.call('SET', seat, ARGV[1] .. ARGV[2], 'PX', ARGV[3])
return 1
`

/** A beat that is shown in Redis. `text`: the name as it is written there. */
interface Shown extends Beat { readonly text: string }

interface Seen {
  readonly others: readonly Shown[]
  /** This gateway's own beat is shown, or there is no seat for it. */
  readonly represented: boolean
}

export class RedisMirror implements Mirror {
  readonly #options: MirrorOptions
  readonly #shownMs: number
  /** The braces put all of them into one slot of a cluster. */
  readonly #seats: readonly string[]
  #state: 'waiting' | 'open' | 'shut' = 'waiting'
  #mine: Beat | null = null
  /** What the last look has found. null: there was no answer. */
  #seen: Seen | null = null
  /** For every stranger, the beat at which it was first seen ahead. */
  #ahead = new Map<string, number>()
  /** While shut: since when no stranger is shown. */
  #clearSinceMs: number | null = null
  /** This gateway's beat has been shown ever since a look that found no stranger. */
  #sure = false
  #connected = false
  #lookedAgain = false
  #timer: NodeJS.Timeout | null = null
  #aliveAtMs = 0

  constructor (options: MirrorOptions) {
    this.#options = options
    this.#shownMs = options.shownMs ?? SHOWN_MS
    this.#seats = Array.from({ length: SEATS }, (_, seat) => `${options.prefix}:mirror:{beats}:${seat}`)
  }

  get open (): boolean { return this.#state === 'open' && !this.#stoodStill() }

  async look (self: Buffer): Promise<readonly Buffer[]> {
    await this.#connect()
    const found = await this.#call('mirror_look', LOOK, [])
    this.#seen = Array.isArray(found) ? seenBy(self, found) : null
    return this.#seen?.others.map(({ gateway }) => gateway) ?? []
  }

  async show (mine: Beat, known: ReadonlyArray<number | null>): Promise<boolean> {
    this.#mine = mine
    if (this.#seen === null) return false
    const { others, represented } = this.#seen
    const strangers = others.filter(({ beat }, at) => beat > (known[at] ?? -1))
    const proven = strangers.find(({ text, beat }) => beat > (this.#ahead.get(text) ?? Infinity))
    this.#ahead = new Map(strangers.map(({ text, beat }) => [text, this.#ahead.get(text) ?? beat]))
    if (this.#state === 'shut') return this.#comeBack(strangers.length > 0)
    if (proven !== undefined) return this.#shut(proven, known[others.indexOf(proven)] ?? null)
    const alone = strangers.length === 0
    this.#sure = represented && (alone || this.#sure)
    if (!this.open || (!alone && !this.#sure)) {
      this.#state = 'waiting'
      if (!alone) return false
    }
    if (represented) this.#begin()
    return this.#announce(!represented)
  }

  close (): void {
    this.#state = 'waiting'
    this.#still()
  }

  #begin (): void {
    this.#state = 'open'
    this.#aliveAtMs = nowMs()
    this.#timer ??= setInterval(() => { this.#again() }, this.#shownMs * AGAIN_SHARE).unref()
  }

  /** Shows the beat that was acknowledged last, for others that look while this database is slow to take another. */
  #again (): void {
    if (this.#stoodStill()) this.#state = 'waiting'
    this.#aliveAtMs = nowMs()
    if (this.#state === 'open') void this.#announce(false)
  }

  #shut ({ text, beat }: Shown, known: number | null): boolean {
    this.#state = 'shut'
    this.#clearSinceMs = null
    this.#still()
    this.#options.onChange(true)
    this.#options.log.error({ event: 'redis-shared', gateway: text, beat, known },
      'a gateway of another database uses this Redis under the same installation id: one of the two databases is a copy of the other. Redis is not used any more, since what stands there may be of either; give one of them another Redis, or another stores.redis.prefix')
    return false
  }

  #comeBack (strangers: boolean): boolean {
    if (strangers) this.#clearSinceMs = null
    else this.#clearSinceMs ??= nowMs()
    if (this.#clearSinceMs === null || nowMs() - this.#clearSinceMs < this.#shownMs * GONE_AFTER) return false
    this.#state = 'waiting'
    this.#options.onChange(false)
    this.#options.log.warn({ event: 'redis-unshared' }, 'no gateway of another database is seen in this Redis any more: it is used again')
    return true
  }

  /**
   * `anew`: the beat was not shown before. true: look again at once. This happens not twice in a row, in case what is shown
   * never stays there.
   */
  async #announce (anew: boolean): Promise<boolean> {
    if (this.#mine === null) return false
    const { gateway, beat } = this.#mine
    const stands = await this.#call('mirror_show', SHOW, [nameOf(gateway), beat, Math.round(this.#shownMs)]) === 1
    if (anew || this.#lookedAgain) this.#lookedAgain = stands && anew && !this.#lookedAgain
    return anew && this.#lookedAgain
  }

  #call (operation: string, script: string, values: ReadonlyArray<string | number>): Promise<unknown> {
    const [key = ''] = this.#seats
    return this.#options.topology.call({ operation, key, keys: this.#seats, script, values })
  }

  /** The connection is made in the background of the start. Without this wait the first look would always come too early. */
  async #connect (): Promise<void> {
    const endsAtMs = nowMs() + (this.#connected ? 0 : CONNECTED_WITHIN_MS)
    this.#connected = true
    while (!this.#options.topology.available() && nowMs() < endsAtMs) await sleep(CONNECTED_LOOK_MS)
  }

  /** This gateway's beat is shown no more. Others may have begun meanwhile. */
  #stoodStill (): boolean { return Math.abs(nowMs() - this.#aliveAtMs) >= this.#shownMs }

  #still (): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }
}

/** The wall clock, because the monotonic one stands still while the machine is suspended. A step of it costs another look. */
function nowMs (): number { return Date.now() }

function nameOf (gateway: Buffer): string { return `${gateway.toString('base64url')}:` }

function seenBy (self: Buffer, values: readonly unknown[]): Seen {
  const shown = values.map(shownIn).filter((each) => each !== null)
  const others = shown.filter(({ gateway }) => !gateway.equals(self))
  return { others, represented: others.length < shown.length || shown.length === SEATS }
}

/** A value that this build cannot read counts as no gateway. */
function shownIn (value: unknown): Shown | null {
  const [, text, beat] = /^([\w-]{22}):([0-9]{1,16})$/.exec(String(value)) ?? []
  return text === undefined ? null : { text, gateway: Buffer.from(text, 'base64url'), beat: Number(beat) }
}
