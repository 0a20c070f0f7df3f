/**
 * Was it a stampede? Bounds of docs/guides/accept-now-deliver-later.md, "How many at once", for each process and each
 * route, over what the consumer wrote down. None of them depends on how fast the machine is: who paces itself by an
 * answer cannot have acted before the consumer gave it, and what comes late comes later than it may. Pure.
 */
import type { Seen } from './consumer.ts'

export interface RoutePace {
  readonly route: string
  readonly concurrency: number
  readonly ratePerSecond: number | null
}

export interface Wrong {
  readonly rule: 'while down' | 'places' | 'ramp' | 'rate' | 'delivered once' | 'order'
  readonly detail: string
}

/**
 * Of an outage's deliveries, before each is a second after the answer to the one before: pauses of 50, 100, 200, 400
 * and 800 ms, and one more.
 */
const PAUSES_BELOW_A_SECOND = 6
const LONGEST_PAUSE_MS = 1_000
/** Both ends read one clock, as numbers with a fraction. */
const GRAIN_MS = 1
/** What a route saves up of its rate, in seconds. */
const SAVED_SECONDS = 0.1

export function isDown ({ phase }: Pick<Seen, 'phase'>): boolean {
  return phase === 'refusing' || phase === 'silent'
}

/**
 * So many are asked before each is one at a time: twice the places, since those that were under way fail one after
 * another; and the short pauses.
 */
export function asksUntilSlow ({ concurrency }: RoutePace): number {
  return 2 * concurrency + PAUSES_BELOW_A_SECOND
}

/** One more place for as many successes as there are: 2 after 1, 3 after 3, 4 after 6, … */
export function placesAfter (successes: number, { concurrency }: RoutePace): number {
  let places = 1
  while (places < concurrency && successes >= places * (places + 1) / 2) places++
  return places
}

/** `accepted`: the numbers of the messages; of a group they rise in the order of their acceptance. */
export function wrongsOf (seen: readonly Seen[], accepted: readonly number[], paces: readonly RoutePace[]): Wrong[] {
  const gateways = new Set(seen.map(({ gateway }) => gateway))
  return [
    ...paces.flatMap((pace) => Array.from(gateways, (gateway) =>
      ofProcess(seen.filter((each) => each.gateway === gateway && each.route === pace.route), pace, `${gateway}, ${pace.route}`)).flat()),
    ...deliveredOnce(seen, accepted),
    ...inOrder(seen)
  ]
}

function ofProcess (seen: readonly Seen[], pace: RoutePace, who: string): Wrong[] {
  return [...whileDown(seen, pace, who), ...places(seen, pace, who), ...ramp(seen, pace, who), ...rate(seen, pace, who)]
}

function whileDown (seen: readonly Seen[], pace: RoutePace, who: string): Wrong[] {
  const asked = seen.filter((each) => each.kind === 'asked' && isDown(each))
  return asked.flatMap(({ atMs }, index) => {
    const sinceMs = atMs - (asked[index - 1]?.atMs ?? -Infinity)
    return index < asksUntilSlow(pace) || sinceMs >= LONGEST_PAUSE_MS - GRAIN_MS
      ? []
      : [{
          rule: 'while down',
          detail: `${who}: delivery ${index + 1} of the outage ${Math.round(sinceMs)} ms after the one before`
        } as const]
  })
}

function places (seen: readonly Seen[], { concurrency }: RoutePace, who: string): Wrong[] {
  const most = Math.max(0, ...underWayAt(seen))
  return most <= concurrency ? [] : [{ rule: 'places', detail: `${who}: ${most} at once, and the route has ${concurrency} places` }]
}

/** How many are under way after each line. */
export function underWayAt (seen: readonly Seen[]): number[] {
  let underWay = 0
  return seen.map(({ kind }) => {
    underWay += kind === 'asked' ? 1 : -1
    return underWay
  })
}

function ramp (seen: readonly Seen[], pace: RoutePace, who: string): Wrong[] {
  // What the outage has left hanging was asked before, and ends now.
  const underWay = new Set<number>()
  let successes = 0
  return seen.filter(({ phase }) => phase === 'after').flatMap(({ kind, message }) => {
    if (kind === 'taken') successes++
    if (kind === 'asked') underWay.add(message)
    else underWay.delete(message)
    const allowed = placesAfter(successes, pace)
    return kind === 'asked' && underWay.size > allowed
      ? [{ rule: 'ramp', detail: `${who}: ${underWay.size} at once after ${successes} successes, where ${allowed} may be` } as const]
      : []
  })
}

/** Since its first answer: each that the rate lets begin comes at that moment, or later. */
function rate (seen: readonly Seen[], { ratePerSecond }: RoutePace, who: string): Wrong[] {
  if (ratePerSecond === null) return []
  const asked = seen.filter(({ kind, phase }) => kind === 'asked' && phase === 'after')
  const [first] = asked
  return asked.flatMap(({ atMs }, index) => {
    const allowed = 1 + Math.max(1, ratePerSecond * SAVED_SECONDS) + ratePerSecond * (atMs + GRAIN_MS - (first?.atMs ?? atMs)) / 1_000
    return index + 1 <= allowed
      ? []
      : [{ rule: 'rate', detail: `${who}: ${index + 1} deliveries ${Math.round(atMs - (first?.atMs ?? atMs))} ms after the first, where ${Math.floor(allowed)} may be` } as const]
  })
}

function deliveredOnce (seen: readonly Seen[], accepted: readonly number[]): Wrong[] {
  const times = new Map<number, number>()
  for (const { kind, message } of seen) if (kind === 'taken') times.set(message, (times.get(message) ?? 0) + 1)
  return accepted
    .filter((message) => times.get(message) !== 1)
    .map((message) => ({ rule: 'delivered once', detail: `message ${message} was taken ${times.get(message) ?? 0} times` }))
}

/** None is lower than the one before it in its group, and none is asked for before the one before it was taken. */
function inOrder (seen: readonly Seen[]): Wrong[] {
  const latest = new Map<number, { readonly message: number, readonly taken: boolean }>()
  return seen.flatMap(({ kind, group, message }) => {
    if (group === null || kind === 'lost') return []
    const before = latest.get(group)
    latest.set(group, { message, taken: kind === 'taken' })
    const wrong = before !== undefined && (message < before.message || (message > before.message && !before.taken))
    return wrong
      ? [{ rule: 'order', detail: `group ${group}: message ${message} was ${kind} after message ${before.message}${before.taken ? '' : ', which was not taken yet'}` } as const]
      : []
  })
}
