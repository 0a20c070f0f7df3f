/** The system's clock and random generator behind their ports. */
import { randomBytes } from 'node:crypto'
import { uptime } from 'node:os'
import { NOWHERE, UnorderedList } from '../unordered-list.ts'
import type { Cancel, Clock, Random } from '../ports/clock.ts'

export const SYSTEM_CLOCK: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  bootMs,
  after: (ms, call) => ms < SHARED_FROM_MS ? ownTimer(Math.max(ms, 0), call) : sharedTimer(ms, call)
}

/**
 * Twice the resolution of the system's uptime. Linux has hundredths of a second (/proc/uptime counts sleep, as
 * CLOCK_BOOTTIME does). Windows has ticks of a sixtieth, other systems whole seconds.
 */
const UPTIME_GRAIN_MS = process.platform === 'linux' || process.platform === 'win32' ? 40 : 2_000

/** The uptime minus the monotonic clock, which stops while the machine sleeps. */
let sleptMs = sleptSoFar() ?? 0

/** As fine as the monotonic clock. Only the time of sleep comes from the uptime. */
function bootMs (): number {
  const now = sleptSoFar()
  if (now !== null && now > sleptMs + UPTIME_GRAIN_MS) sleptMs = now
  return performance.now() + sleptMs
}

/** null: the system does not report its uptime. Then sleep stays unknown. */
function sleptSoFar (): number | null {
  try {
    return uptime() * 1_000 - performance.now()
  } catch {
    return null
  }
}

/** Shorter waits end soon and need their own timer. Longer waits are time limits, and most are cancelled. */
const SHARED_FROM_MS = 500
/** A time limit may be late by this share of itself. So limits of similar length need few timers. */
const LATE_SHARE = 1 / 32
/** The most that a time limit may be late. A request must not outlast its timeout by more than its lease allows (E3). */
const LATE_MS_MAX = 4_096

function ownTimer (ms: number, call: () => void): Cancel {
  return timerAt(performance.now() + ms, call)
}

/**
 * Not before `dueMs` (monotonic). Node counts a timer from the start of its event-loop turn, in whole milliseconds. A
 * timer that is set late in a long turn would fire early.
 */
function timerAt (dueMs: number, call: () => void): Cancel {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const leftMs = dueMs - performance.now()
    if (leftMs <= 0) call()
    else timer = setTimeout(wait, Math.min(Math.ceil(leftMs), TIMER_LONGEST_MS)).unref()
  }
  // After a pause of the machine the time may be past. Node warns on stderr about a negative delay.
  timer = setTimeout(wait, Math.min(Math.max(Math.ceil(dueMs - performance.now()), 1), TIMER_LONGEST_MS)).unref()
  return () => { clearTimeout(timer) }
}

interface Call { readonly call: () => void, place: number }
type Calls = UnorderedList<Call>

/** Calls by slot width (a power of two, in ms) and by slot number. They are due at the start of the slot. */
const slotsByWidth = new Map<number, Map<number, Calls>>()

/**
 * Every request has four time limits that it rarely reaches. One timer serves all that end at about the same time. A
 * request pays only for an entry in a list.
 */
function sharedTimer (ms: number, call: () => void): Cancel {
  const waitMs = Math.min(ms, TIMER_LONGEST_MS)
  const width = Math.min(LATE_MS_MAX, 2 ** (31 - Math.clz32(waitMs * LATE_SHARE)))
  const now = performance.now()
  const number = Math.ceil((now + waitMs) / width)
  const calls = slotsByWidth.get(width)?.get(number) ?? open(width, number)
  const entry: Call = { call, place: NOWHERE }
  calls.add(entry)
  return () => { calls.remove(entry) }
}

function open (width: number, number: number): Calls {
  const calls: Calls = new UnorderedList('place')
  const slots = slotsByWidth.get(width) ?? new Map<number, Calls>()
  slotsByWidth.set(width, slots.set(number, calls))
  timerAt(number * width, () => {
    slots.delete(number)
    // A call may cancel another.
    for (let entry = calls.take(); entry !== undefined; entry = calls.take()) entry.call()
  })
  return calls
}

export const SYSTEM_RANDOM: Random = { bytes: (size) => size > POOL_BYTES ? randomBytes(size) : fromPool(size) }

/** The generator costs the same for 16 bytes as for some thousand. No byte is given out twice. */
const POOL_BYTES = 4096
let pool = Buffer.alloc(0)

function fromPool (size: number): Buffer {
  if (pool.length < size) pool = randomBytes(POOL_BYTES)
  const bytes = pool.subarray(0, size)
  pool = pool.subarray(size)
  return bytes
}

/** setTimeout fires at once above 2^31-1 ms, and warns below 0. */
const TIMER_LONGEST_MS = 2 ** 31 - 1
