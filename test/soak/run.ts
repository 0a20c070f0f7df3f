/**
 * One soak: two gateways on a Postgres, a Redis and an upstream of its own, a steady load, and a look at everything every
 * few seconds. Flat means that nothing of it has grown; right means that no answer was wrong.
 */
import { SoakLoad } from './load.ts'
import type { LoadCounts } from './load.ts'
import { Sampler } from './sampler.ts'
import type { Sample } from './sampler.ts'
import { GATEWAYS, startStand, stoppingAll } from './stand.ts'
import type { AtEnd, Stand } from './stand.ts'
import { tolerated } from './tolerances.ts'
import type { Scale } from './tolerances.ts'
import { SoakUpstream } from './upstream.ts'
import { judge } from './verdict.ts'
import type { Verdict } from './verdict.ts'

export interface SoakOptions {
  readonly minutes: number
  /** Requests a second over both gateways. */
  readonly rate: number
  readonly scale: Scale
  /** A break of test/broken; null: the gateway as it is. */
  readonly broken: string | null
  readonly onSample?: (sample: Sample) => void
  /** Done to the gateways from the beginning of the load to its end; the answer takes it back. */
  readonly beside?: (urls: readonly string[]) => () => void
}

export interface SoakResult {
  readonly minutes: number
  readonly rate: number
  readonly gateways: number
  readonly sampleEveryMs: number
  readonly warmUpMs: number
  readonly retentionMs: number
  readonly counts: LoadCounts
  readonly executions: number
  readonly samples: readonly Sample[]
  readonly verdicts: readonly Verdict[]
  readonly wrongCount: number
  readonly wrong: readonly string[]
  readonly flat: boolean
}

const MINUTE_MS = 60_000
/** Keys there may be, over what the rate says: ticks come late and catch up. */
const KEYS_SLACK = 1.1
/** A retry comes within this share of the retention: what it asks for is still remembered. */
const LATER_SHARE = 1 / 3

/** The lease is short so that a short retention may be. */
const routesOf = (retentionMs: number): string => `  - name: soak
    match: { path: "/things", methods: [POST] }
    upstream: upstream
    idempotency: { scope: public, lease: 2s, inFlight: { wait: 2s }, retention: ${retentionMs}ms }`

export async function runSoak (options: SoakOptions): Promise<SoakResult> {
  return stoppingAll(async (atEnd) => soak(options, atEnd))
}

async function soak (options: SoakOptions, atEnd: AtEnd): Promise<SoakResult> {
  const { minutes, rate, scale, broken } = options
  const keysMax = Math.ceil(minutes * 60 * rate * KEYS_SLACK)
  const upstream = await SoakUpstream.start(keysMax)
  atEnd(() => upstream.stop())
  const stand = await startStand(
    { name: 'soak', broken, upstreamOf: () => `upstream: { url: "${upstream.url}", timeout: 20s }`, routes: routesOf(scale.retentionMs) },
    atEnd
  )
  const load = new SoakLoad({
    gateways: stand.gateways.map(({ url }) => url),
    upstream,
    rate,
    keysMax,
    laterMs: scale.retentionMs * LATER_SHARE,
    retentionMs: scale.retentionMs
  })
  await load.warmUp()
  const samples = await watched(stand, load, options)
  return resultOf(options, load, upstream.executions, samples)
}

async function watched (
  { gateways, database, redis }: Stand,
  load: SoakLoad,
  { minutes, scale, onSample, beside }: SoakOptions
): Promise<readonly Sample[]> {
  const sampler = new Sampler({ gateways, database, redis, everyMs: scale.sampleEveryMs, onSample: onSample ?? (() => {}) })
  const takeBack = beside?.(gateways.map(({ url }) => url))
  load.start()
  await sampler.start()
  await Promise.race([new Promise((resolve) => { setTimeout(resolve, minutes * MINUTE_MS) }), sampler.failed])
  await sampler.stop()
  await load.stop()
  takeBack?.()
  return sampler.samples
}

function resultOf ({ minutes, rate, scale }: SoakOptions, load: SoakLoad, executions: number, samples: readonly Sample[]): SoakResult {
  const judged = samples.filter(({ atMs }) => atMs >= scale.warmUpMs)
  const verdicts = tolerated(judged, scale).map(judge)
  const { counts, wrongAnswers, wrongExecutions, wrongCount } = load
  const refused = counts.refused > scale.refusedShare * counts.requests ? [`${counts.refused} requests were refused`] : []
  return {
    minutes,
    rate,
    gateways: GATEWAYS.length,
    sampleEveryMs: scale.sampleEveryMs,
    warmUpMs: scale.warmUpMs,
    retentionMs: scale.retentionMs,
    counts,
    executions,
    samples,
    verdicts,
    wrongCount: wrongCount + refused.length,
    wrong: [...refused, ...wrongExecutions, ...wrongAnswers],
    flat: verdicts.every(({ flat }) => flat)
  }
}
