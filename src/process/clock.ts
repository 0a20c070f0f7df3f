/** The real time and the real chance behind their ports. */
import { randomBytes } from 'node:crypto'
import { uptime } from 'node:os'
import { UnorderedList } from '../unordered-list.ts'
import type { Cancel, Clock, Random } from '../ports/clock.ts'

export const SYSTEM_CLOCK: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  bootMs,
  after: (ms, call) => ms < SHARED_FROM_MS ? ownTimer(Math.max(ms, 0), call) : sharedTimer(ms, call)
}

/**
 * How coarsely the system tells its uptime, twice over: Linux in hundredths of a second (/proc/uptime, which counts sleep as
 * CLOCK_BOOTTIME does), Windows in ticks of a sixtieth, the others in whole seconds.
 */
const UPTIME_GRAIN_MS = process.platform === 'linux' || process.platform === 'win32' ? 40 : 2_000

/** What the uptime has over the monotonic clock, which stands still while the machine sleeps. */
let sleptMs = sleptSoFar() ?? 0

/** As fine as the monotonic clock; of the uptime it takes only what the machine has slept. */
function bootMs (): number {
  const now = sleptSoFar()
  if (now !== null && now > sleptMs + UPTIME_GRAIN_MS) sleptMs = now
  return performance.now() + sleptMs
}

/** null: this system does not tell; then no sleep is known of. */
function sleptSoFar (): number | null {
  try {
    return uptime() * 1_000 - performance.now()
  } catch {
    return null
  }
}

/** Shorter waits are for something that is about to happen; longer ones are limits, and most are cancelled. */
const SHARED_FROM_MS = 500
/** A limit may come late by this share of itself; so there are at most twice as many timers for limits of about one length. */
const LATE_SHARE = 1 / 32
/** But by no more than this: a sending must not outlast its time-out by more than its record stays claimed for it (E3). */
const LATE_MS_MAX = 4_096

function ownTimer (ms: number, call: () => void): Cancel {
  return timerAt(performance.now() + ms, call)
}

/**
 * Not before `dueMs` (monotonic). Node counts a timer from the beginning of the turn that sets it, in whole milliseconds,
 * so that one set late in a long turn ends early.
 */
function timerAt (dueMs: number, call: () => void): Cancel {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const leftMs = dueMs - performance.now()
    if (leftMs <= 0) call()
    else timer = setTimeout(wait, Math.min(Math.ceil(leftMs), TIMER_LONGEST_MS)).unref()
  }
  // By a machine that stood still since, it may be past already: less than nothing is a warning on stderr.
  timer = setTimeout(wait, Math.min(Math.max(Math.ceil(dueMs - performance.now()), 1), TIMER_LONGEST_MS)).unref()
  return () => { clearTimeout(timer) }
}

type Calls = UnorderedList<() => void>

/** The calls of one width of slots (a power of two, in ms), by the number of the slot at whose beginning they are due. */
const slotsByWidth = new Map<number, Map<number, Calls>>()

/**
 * Every request has four limits that it never reaches. One timer for all that end at about the same time: what a request
 * pays is a place in a list.
 */
function sharedTimer (ms: number, call: () => void): Cancel {
  const waitMs = Math.min(ms, TIMER_LONGEST_MS)
  const width = Math.min(LATE_MS_MAX, 2 ** (31 - Math.clz32(waitMs * LATE_SHARE)))
  const now = performance.now()
  const number = Math.ceil((now + waitMs) / width)
  const calls = slotsByWidth.get(width)?.get(number) ?? open(width, number)
  const place = calls.add(call)
  return () => { calls.remove(place) }
}

function open (width: number, number: number): Calls {
  const calls: Calls = new UnorderedList()
  const slots = slotsByWidth.get(width) ?? new Map<number, Calls>()
  slotsByWidth.set(width, slots.set(number, calls))
  timerAt(number * width, () => {
    slots.delete(number)
    // One may cancel another.
    for (let call = calls.take(); call !== undefined; call = calls.take()) call()
  })
  return calls
}

export const SYSTEM_RANDOM: Random = { bytes: (size) => size > POOL_BYTES ? randomBytes(size) : fromPool(size) }

/** The generator costs the same for 16 bytes as for some thousand. What was given out is never given again. */
const POOL_BYTES = 4096
let pool = Buffer.alloc(0)

function fromPool (size: number): Buffer {
  if (pool.length < size) pool = randomBytes(POOL_BYTES)
  const bytes = pool.subarray(0, size)
  pool = pool.subarray(size)
  return bytes
}

/** setTimeout fires at once for more than 2^31-1 ms, and warns below 0. */
const TIMER_LONGEST_MS = 2 ** 31 - 1
