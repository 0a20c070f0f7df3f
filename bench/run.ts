/**
 * A run: for each concurrency, servers and contestants anew; then round by round every contestant one turn for each of its
 * works. A turn is a lead-in that nobody counts, the load, and the books: processor time, answers, executions.
 */
import type { Child } from './child.ts'
import { BASELINE, overOf } from './contestants.ts'
import type { Contestant, InboxWork, Need, Work } from './contestants.ts'
import { cpuSecondsOf, rssMibOf } from './cpu.ts'
import { drained, playInbox } from './inbox/turns.ts'
import type { Costs, Told } from './inbox/turns.ts'
import { judgePool, judgeTurn } from './judge.ts'
import type { Violation } from './judge.ts'
import { settlePool } from './pool.ts'
import { casesOf } from './results.ts'
import type { Absolute, Case, Measured, Rounds } from './results.ts'
import { startServers } from './servers.ts'
import type { Servers } from './servers.ts'
import { drive } from './wrk.ts'

export interface RunOptions {
  readonly contestants: readonly Contestant[]
  readonly concurrencies: readonly number[]
  readonly rounds: number
  readonly seconds: number
  readonly poolKeys: number
  readonly say: (line: string) => void
}

export interface RunResult {
  readonly cases: readonly Case[]
  readonly rounds: readonly Rounds[]
  readonly violations: readonly Violation[]
}

interface Standing { readonly contestant: Contestant, readonly child: Child, readonly poolSeries: string }
/** Wakes what slept while the others had their turns: code, connections, and answers that were dropped from memory meanwhile. */
const LEAD_IN_SECONDS = 1
/** The first seconds of a process are its compiler's. */
const WARM_UP_SECONDS = 2
/** A single connection would not get round the pool in the lead-in. */
const LEAD_IN_CONNECTIONS_MIN = 32
/** What is put off until after the answers is charged too, if it comes within this. */
const AFTERWARDS_MS = 200
/** Of the client that settles the pool, which has one core at best. */
const POOL_CONNECTIONS_MAX = 64

export async function runBench (options: RunOptions): Promise<RunResult> {
  const turns: Measured[] = []
  const violations: Violation[] = []
  for (const concurrency of options.concurrencies) {
    const stage = new Stage(options, concurrency, turns, violations)
    await stage.play()
  }
  return { ...casesOf(turns, BASELINE), violations }
}

/** One concurrency. */
class Stage {
  readonly #options: RunOptions
  readonly #concurrency: number
  readonly #turns: Measured[]
  readonly #violations: Violation[]
  #series = 0

  constructor (options: RunOptions, concurrency: number, turns: Measured[], violations: Violation[]) {
    this.#options = options
    this.#concurrency = concurrency
    this.#turns = turns
    this.#violations = violations
  }

  async play (): Promise<void> {
    const { contestants, rounds, say } = this.#options
    const servers = await startServers(new Set(contestants.flatMap(({ needs }) => needs)), this.#concurrency)
    const standing: Standing[] = []
    try {
      for (const contestant of contestants) standing.push(await this.#enter(contestant, servers))
      for (let round = 1; round <= rounds; round++) {
        say(`${this.#concurrency} connections, round ${round} of ${rounds}`)
        await this.#round(round, standing, servers)
      }
    } finally {
      for (const { child } of standing) await child.stop()
      await servers.stop()
    }
  }

  async #enter (contestant: Contestant, { world, upstream }: Servers): Promise<Standing> {
    const child = await contestant.start(world)
    const poolSeries = this.#nextSeries('p')
    if (contestant.works.includes('replay')) {
      const keys = this.#options.poolKeys
      await upstream.taken()
      const wrong = await settlePool({
        url: child.url,
        series: poolSeries,
        keys,
        connections: Math.min(this.#concurrency, POOL_CONNECTIONS_MAX)
      })
      this.#blame(contestant.name, 'pool', [...wrong, ...judgePool(await upstream.taken(), keys)])
    }
    const accepts = contestant.works.includes('accept')
    const before = await upstream.count()
    const warmth = this.#nextSeries('w')
    const warmed = await drive({
      url: child.url,
      series: warmth,
      pool: null,
      accepts,
      seconds: WARM_UP_SECONDS,
      connections: Math.max(this.#concurrency, LEAD_IN_CONNECTIONS_MIN)
    })
    if (accepts) await drained(upstream, before + warmed.answered)
    const trouble = child.trouble()
    if (trouble !== null) throw new Error(trouble)
    child.forgetLog()
    return { contestant, child, poolSeries }
  }

  /** Nobody is always the one after nginx. */
  async #round (round: number, standing: readonly Standing[], servers: Servers): Promise<void> {
    const first = (round - 1) % standing.length
    for (const each of [...standing.slice(first), ...standing.slice(0, first)]) {
      const { name, works } = each.contestant
      const note = (work: Work, absolute: Absolute): void => {
        this.#turns.push({ contestant: name, work, over: overOf(each.contestant, work), concurrency: this.#concurrency, round, absolute })
      }
      if (works.includes('accept')) await this.#inboxTurns(each, servers, note)
      else for (const work of works) note(work, await this.#turn(each, work, servers))
    }
  }

  async #inboxTurns (
    { contestant, child }: Standing,
    { upstream, pids }: Servers,
    note: (work: InboxWork, absolute: Absolute) => void
  ): Promise<void> {
    await playInbox({
      child,
      upstream,
      concurrency: this.#concurrency,
      leadIn: { seconds: LEAD_IN_SECONDS, connections: Math.max(this.#concurrency, LEAD_IN_CONNECTIONS_MIN) },
      seconds: this.#options.seconds,
      afterwardsMs: AFTERWARDS_MS,
      ordered: contestant.ordered === true,
      costs: () => costsOf(contestant.needs, child, pids),
      nextSeries: (kind) => this.#nextSeries(kind),
      note: (work, from, to, told) => { note(work, absoluteOf(told, from, to, rssMibOf(child.pid))) },
      blame: (work, all) => { this.#blame(contestant.name, work, all) }
    })
    for (const trouble of [child.trouble(), upstream.trouble()]) if (trouble !== null) throw new Error(trouble)
    child.forgetLog()
  }

  async #turn ({ contestant, child, poolSeries }: Standing, work: Work, { upstream, pids }: Servers): Promise<Absolute> {
    const load = { url: child.url, pool: work === 'replay' ? this.#options.poolKeys : null }
    const [leadIn, series] = [this.#nextSeries('l'), this.#nextSeries('m')]
    await upstream.taken()
    const led = await drive({
      ...load,
      series: work === 'replay' ? poolSeries : leadIn,
      seconds: LEAD_IN_SECONDS,
      connections: Math.max(this.#concurrency, LEAD_IN_CONNECTIONS_MIN)
    })
    const before = costsOf(contestant.needs, child, pids)
    const result = await drive({
      ...load,
      series: work === 'replay' ? poolSeries : series,
      seconds: this.#options.seconds,
      connections: this.#concurrency
    })
    await new Promise((resolve) => { setTimeout(resolve, AFTERWARDS_MS) })
    const after = costsOf(contestant.needs, child, pids)
    const rssMib = rssMibOf(child.pid)
    const taken = await upstream.taken()
    this.#blame(contestant.name, work, [
      ...judgeTurn({ work, series: leadIn, poolSeries, load: led, taken }),
      ...judgeTurn({ work, series, poolSeries, load: result, taken })
    ])
    for (const trouble of [child.trouble(), upstream.trouble()]) if (trouble !== null) throw new Error(trouble)
    child.forgetLog()
    return absoluteOf(result, before, after, rssMib)
  }

  #blame (contestant: string, work: Violation['work'], all: readonly string[]): void {
    for (const what of new Set(all)) this.#violations.push({ contestant, work, concurrency: this.#concurrency, what })
  }

  /** Distinct within a run of a concurrency, and of one length. */
  #nextSeries (kind: string): string {
    return `${kind}${String(++this.#series).padStart(5, '0')}`
  }
}

function costsOf (needs: readonly Need[], child: Child, pids: Servers['pids']): Costs {
  const of = (name: Need): number | null => needs.includes(name) && pids[name] !== undefined ? cpuSecondsOf(pids[name]) : null
  return { own: cpuSecondsOf(child.pid), postgres: of('postgres') ?? of('slow postgres'), redis: of('redis') }
}

function absoluteOf (load: Told, before: Costs, after: Costs, rssMib: number): Absolute {
  if (load.answered === 0) throw new Error(`not one request was answered: ${JSON.stringify(load)}`)
  const micros = (from: number | null, to: number | null): number | null => from === null || to === null
    ? null
    : (to - from) * 1e6 / load.answered
  return {
    requestsPerSecond: load.answered / load.durationMs * 1_000,
    p50Ms: load.p50Ms,
    p99Ms: load.p99Ms,
    cpuMicros: micros(before.own, after.own) ?? 0,
    postgresCpuMicros: micros(before.postgres, after.postgres),
    redisCpuMicros: micros(before.redis, after.redis),
    rssMib,
    addedP50Ms: 0,
    generatorBusy: load.cpuSeconds / load.durationMs * 1_000
  }
}
