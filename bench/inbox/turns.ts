/**
 * An inbox's turn, three works long. accept: deliveries are held, and the load is accepted. deliver: they are let go, until
 * the backlog is gone. steady: so many a second come, and are timed from their 202 to the consumer.
 */
import type { Child } from '../child.ts'
import type { InboxWork } from '../contestants.ts'
import { judgeTurn } from '../judge.ts'
import type { Arrival, Upstream } from '../nginx.ts'
import { drive } from '../wrk.ts'
import type { LoadResult } from '../wrk.ts'
import { comeAndGo, judgeSteady, latenciesOf } from './steady.ts'

/** Processor seconds so far. */
export interface Costs { readonly own: number, readonly postgres: number | null, readonly redis: number | null }

/** What a load told, or what was seen of deliveries in its place. */
export type Told = Pick<LoadResult, 'answered' | 'durationMs' | 'cpuSeconds'> & {
  readonly p50Ms: number | null
  readonly p99Ms: number | null
}

export interface InboxTurn {
  readonly child: Child
  readonly upstream: Upstream
  readonly concurrency: number
  readonly leadIn: { readonly seconds: number, readonly connections: number }
  readonly seconds: number
  readonly afterwardsMs: number
  readonly ordered: boolean
  readonly costs: () => Costs
  readonly nextSeries: (kind: string) => string
  readonly note: (work: InboxWork, from: Costs, to: Costs, told: Told) => void
  readonly blame: (work: InboxWork, all: readonly string[]) => void
}

export async function playInbox (turn: InboxTurn): Promise<void> {
  const { child, upstream } = turn
  await child.deliveries('held')
  await upstream.taken()
  const before = await upstream.count()
  const accepted = await accept(turn)
  await deliver(turn, before, accepted)
  await steady(turn)
}

interface Accepted { readonly series: string, readonly load: LoadResult }

async function accept (turn: InboxTurn): Promise<Accepted[]> {
  const { child, concurrency, leadIn, seconds, nextSeries } = turn
  const load = { url: child.url, pool: null, accepts: true }
  const [first, series] = [nextSeries('l'), nextSeries('m')]
  const led = await drive({ ...load, ...leadIn, series: first })
  const from = turn.costs()
  const result = await drive({ ...load, series, seconds, connections: concurrency })
  await pause(turn.afterwardsMs)
  turn.note('accept', from, turn.costs(), result)
  return [{ series: first, load: led }, { series, load: result }]
}

/** By the consumer's own clock, from the first delivery to the last. */
async function deliver (turn: InboxTurn, before: number, accepted: readonly Accepted[]): Promise<void> {
  const { child, upstream } = turn
  const from = turn.costs()
  const freeAtMs = Date.now()
  await child.deliveries('free')
  await drained(upstream, before + accepted.reduce((sum, { load }) => sum + load.answered, 0))
  const to = turn.costs()
  const arrivals = await upstream.arrivals()
  const taken = arrivals.map(({ key }) => key)
  turn.blame('deliver', accepted.flatMap(({ series, load }) => judgeTurn({ work: 'accept', series, poolSeries: '', load, taken })))
  turn.note('deliver', from, to, told(arrivals.filter(({ atMs }) => atMs >= freeAtMs)))
}

function told (arrivals: readonly Arrival[]): Told {
  const [first, last] = [arrivals.at(0)?.atMs ?? 0, arrivals.at(-1)?.atMs ?? 0]
  return { answered: arrivals.length, durationMs: Math.max(1, last - first), p50Ms: null, p99Ms: null, cpuSeconds: 0 }
}

async function steady (turn: InboxTurn): Promise<void> {
  const { child, upstream, concurrency, seconds } = turn
  const before = await upstream.count()
  const from = turn.costs()
  const sent = await comeAndGo({
    url: child.url,
    series: turn.nextSeries('s'),
    seconds,
    perSecond: Math.min(STEADY_PER_SECOND, STEADY_PER_DELIVERY * concurrency)
  })
  await drained(upstream, before + sent.length)
  const to = turn.costs()
  const arrivals = await upstream.arrivals()
  turn.blame('steady', judgeSteady(sent, arrivals, turn.ordered))
  turn.note('steady', from, to, { ...told(arrivals), ...latenciesOf(sent, arrivals) })
}

/** A fifth of what a gateway delivers here, so that nothing waits for its turn but behind the commits. */
const STEADY_PER_SECOND = 500
/** With one delivery at a time, a sixth of what it can do. */
const STEADY_PER_DELIVERY = 100

/** So long nothing came: longer than the poll of a worker that nobody woke. */
const QUIET_MS = 1_500
/** What has not come by then is lost, which the judge says. */
const LOST_MS = 10_000
const LOOK_EVERY_MS = 50

/** Until as many have come, and nothing else comes. */
export async function drained (upstream: Upstream, expected: number): Promise<void> {
  let [count, sinceMs] = [await upstream.count(), performance.now()]
  for (;;) {
    await pause(LOOK_EVERY_MS)
    const now = await upstream.count()
    if (now !== count) [count, sinceMs] = [now, performance.now()]
    if (performance.now() - sinceMs > (count < expected ? LOST_MS : QUIET_MS)) return
  }
}

async function pause (ms: number): Promise<void> {
  await new Promise((resolve) => { setTimeout(resolve, ms) })
}
