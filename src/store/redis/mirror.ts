/**
 * Whether this Redis is this database's alone. A copy of a whole database server (a snapshot of its disk, a restored base backup)
 * has the same installation id, name and system identifier: its gateways would find production's locks, answers and marks in a
 * Redis that both can reach, and production theirs. What the copy does not have is what the living wrote after it was made. So
 * every gateway shows its beats in Redis, each after the database has acknowledged it, and looks at what others show *before* it
 * asks the database for their beats: one that is beaten from the same database is never shown ahead of it. A stranger is: its
 * database is another one.
 *
 * - At first (`waiting`) nothing is asked of Redis but this. A gateway that sees a stranger stays out and shows nothing, so it
 *   disturbs nobody. Else it shows its beat, looks *once more*, and begins only when its own beat stood there and no stranger:
 *   of two that begin at once the one that showed itself later sees the other. One that has stood still for longer than its beat
 *   is shown begins anew; so does one whose beat has vanished (a Redis that was emptied, or came back from a snapshot) if it sees
 *   a stranger before it has looked once more.
 * - While it is in use (`open`) one stranger's beat proves nothing: an asynchronous failover of the database forgets beats that
 *   it has acknowledged, and just then the locks in Redis are worth most (P2). But the living write anew: who shows a later beat
 *   and is still ahead has another database. Then this gateway stops (`shut`) and says so.
 * - It waits again when no stranger has been seen for twice as long as a beat is shown.
 *
 * What this leaves: two databases whose Redis loses their beats in the same moment may both be in use until each has looked,
 * which is a heartbeat; and a copy that is served from before production's next beat takes two. The answers that they leave
 * there are of different generations, unless the copy is younger than a minute (binding.ts).
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
  /** How long a beat is shown. For tests; else {@link SHOWN_MS}. */
  readonly shownMs?: number
}

/** Six heartbeats of the longest pause between two (gateway.ts). */
const SHOWN_MS = 15_000
/** Of that time: a beat is shown again so often, also while the database takes no new one. */
const AGAIN_SHARE = 1 / 4
/** No stranger for so many of those times: they are gone. */
const GONE_AFTER = 2
/** Those who find no seat are content to see that all of them are taken by their own. */
const SEATS = 32
/** A name, a colon, a number of at most 16 digits. */
const VALUE_BYTES_MAX = 64
/** A first connection on this machine or in this region; without one, the heartbeat has waited once for nothing. */
const CONNECTED_WITHIN_MS = 500
const CONNECTED_LOOK_MS = 10

/** KEYS the seats. What stands on each. */
const LOOK = `
local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('GETRANGE', key, 0, ${VALUE_BYTES_MAX - 1}) end
return found
`

/** KEYS the seats. ARGV: name, beat, milliseconds to live. Takes its own seat, else one that is free; 0: there is none. */
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

/** A beat that stands in Redis; `text`: the name as it is written there. */
interface Shown extends Beat { readonly text: string }

interface Seen {
  readonly others: readonly Shown[]
  /** My own beat stands there, or there is no seat for it. */
  readonly represented: boolean
}

export class RedisMirror implements Mirror {
  readonly #options: MirrorOptions
  readonly #shownMs: number
  /** In one slot of a cluster, for the braces. */
  readonly #seats: readonly string[]
  #state: 'waiting' | 'open' | 'shut' = 'waiting'
  #mine: Beat | null = null
  /** What the last look has found; null: there was no answer. */
  #seen: Seen | null = null
  /** Of every stranger the beat at which it was first seen ahead. */
  #ahead = new Map<string, number>()
  /** While shut: since when no stranger stands there. */
  #clearSinceMs: number | null = null
  /** My beat has stood there ever since a look that found no stranger. */
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

  /** The beat that was acknowledged last, for those who ask while this database is slow to take another. */
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

  /** `anew`: it did not stand there before. true: look again at once; not twice in a row, where what is shown never stands there. */
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

  /** The connection is made behind the start: without this the first look would always come too early. */
  async #connect (): Promise<void> {
    const endsAtMs = nowMs() + (this.#connected ? 0 : CONNECTED_WITHIN_MS)
    this.#connected = true
    while (!this.#options.topology.available() && nowMs() < endsAtMs) await sleep(CONNECTED_LOOK_MS)
  }

  /** Its beat is shown no more: others may have begun meanwhile. */
  #stoodStill (): boolean { return Math.abs(nowMs() - this.#aliveAtMs) >= this.#shownMs }

  #still (): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }
}

/** The wall clock: the monotonic one stands still while the machine is suspended. Set back or forth, it costs another look. */
function nowMs (): number { return Date.now() }

function nameOf (gateway: Buffer): string { return `${gateway.toString('base64url')}:` }

function seenBy (self: Buffer, values: readonly unknown[]): Seen {
  const shown = values.map(shownIn).filter((each) => each !== null)
  const others = shown.filter(({ gateway }) => !gateway.equals(self))
  return { others, represented: others.length < shown.length || shown.length === SEATS }
}

/** What this build cannot read is nobody. */
function shownIn (value: unknown): Shown | null {
  const [, text, beat] = /^([\w-]{22}):([0-9]{1,16})$/.exec(String(value)) ?? []
  return text === undefined ? null : { text, gateway: Buffer.from(text, 'base64url'), beat: Number(beat) }
}
