/**
 * A run: for each concurrency, servers and contestants anew; then round by round every contestant one turn for each of its
 * works. A turn is a lead-in that nobody counts, the load, and the books: processor time, answers, executions.
 */
import type { Child } from './child.ts'
import { oversOf } from './contestants.ts'
import type { Contestant, InboxWork, Need, Work } from './contestants.ts'
import { cpuSecondsOf, rssMibOf } from './cpu.ts'
import { drained, playInbox } from './inbox/turns.ts'
import type { Costs, Told } from './inbox/turns.ts'
import { judgePool, judgeTurn } from './judge.ts'
import type { Violation } from './judge.ts'
import { settlePool } from './pool.ts'
import { BASELINE } from './names.ts'
import {
  ALLOCATIONS_SECONDS, enterSeconds, LEAD_IN_SECONDS, LEAD_IN_SECONDS_MAX, plannedSeconds, roundSeconds, SERVERS_SECONDS, turnSeconds,
  WARM_UP_POOLS, WARM_UP_SECONDS, WARM_UP_TURNS_MAX
} from './plan.ts'
import type { Planned } from './plan.ts'
import { Progress } from './progress.ts'
import type { Show } from './progress.ts'
import { casesOf } from './results.ts'
import type { Absolute, Allocations, Case, Measured, Rounds } from './results.ts'
import { startServers } from './servers.ts'
import type { Servers } from './servers.ts'
import { drive } from './wrk.ts'
import type { LoadResult } from './wrk.ts'

export interface RunOptions extends Planned {
  readonly poolKeys: number
  readonly show: Show
}

export interface RunResult {
  readonly cases: readonly Case[]
  readonly rounds: readonly Rounds[]
  readonly allocations: readonly Allocations[]
  readonly violations: readonly Violation[]
}

/** On each side of a load. */
interface Mark { readonly costs: Costs, readonly rssMib: number }
interface Standing { readonly contestant: Contestant, readonly child: Child, readonly poolSeries: string }
/** A single connection would not get round the pool in the lead-in. */
const LEAD_IN_CONNECTIONS_MIN = 32
/** On a busy machine, all of a process may stand still for a turn. That is no reason to lose the run. */
const ATTEMPTS = 3
/** What is put off until after the answers is charged too, if it comes within this. */
const AFTERWARDS_MS = 200
/** Of the client that settles the pool, which has one core at best. One connection alone would take half a minute. */
const [POOL_CONNECTIONS_MIN, POOL_CONNECTIONS_MAX] = [16, 64]

export async function runBench (options: RunOptions): Promise<RunResult> {
  const kept: Kept = { turns: [], allocations: [], violations: [] }
  const progress = new Progress(plannedSeconds(options), options.show)
  for (const concurrency of options.concurrencies) {
    const stage = new Stage(options, concurrency, progress, kept)
    await stage.play()
  }
  return { ...casesOf(kept.turns, BASELINE), allocations: kept.allocations, violations: kept.violations }
}

interface Kept { readonly turns: Measured[], readonly allocations: Allocations[], readonly violations: Violation[] }

/** One concurrency. */
class Stage {
  readonly #options: RunOptions
  readonly #concurrency: number
  readonly #progress: Progress
  readonly #kept: Kept
  #series = 0

  constructor (options: RunOptions, concurrency: number, progress: Progress, kept: Kept) {
    this.#options = options
    this.#concurrency = concurrency
    this.#progress = progress
    this.#kept = kept
  }

  async play (): Promise<void> {
    const { contestants, rounds, allocationsAt } = this.#options
    this.#begin('start', 'servers', SERVERS_SECONDS)
    const servers = await startServers(new Set(contestants.flatMap(({ needs }) => needs)), this.#concurrency)
    const standing: Standing[] = []
    try {
      for (const contestant of contestants) {
        this.#begin('start', contestant.name, enterSeconds(contestant))
        standing.push(await this.#enter(contestant, servers))
      }
      for (let round = 1; round <= rounds; round++) await this.#round(round, standing, servers)
      if (allocationsAt.includes(this.#concurrency)) for (const each of standing) await this.#countAllocations(each, servers)
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
        connections: Math.min(Math.max(this.#concurrency, POOL_CONNECTIONS_MIN), POOL_CONNECTIONS_MAX)
      })
      this.#blame(contestant.name, 'pool', [...wrong, ...judgePool(await upstream.taken(), keys)])
    }
    const accepts = contestant.works.includes('accept')
    const before = await upstream.count()
    let warmed = 0
    // What an inbox takes has to be delivered before it counts.
    const turnsMax = accepts ? 1 : WARM_UP_TURNS_MAX
    for (let turn = 0; turn < turnsMax && warmed < WARM_UP_POOLS * this.#options.poolKeys; turn++) {
      const { answered } = await drive({
        url: child.url,
        series: this.#nextSeries('w'),
        pool: null,
        accepts,
        seconds: WARM_UP_SECONDS,
        connections: Math.max(this.#concurrency, LEAD_IN_CONNECTIONS_MIN)
      })
      warmed += answered
    }
    if (accepts) await drained(upstream, before + warmed)
    const trouble = child.trouble()
    if (trouble !== null) throw new Error(trouble)
    child.forgetLog()
    return { contestant, child, poolSeries }
  }

  /** Nobody always follows the same one: what Postgres still writes of one turn is told of the next. */
  async #round (round: number, standing: readonly Standing[], servers: Servers): Promise<void> {
    const first = (round - 1) % standing.length
    const turns = [...standing.slice(first), ...standing.slice(0, first)]
    for (const each of round % 2 === 1 ? turns : turns.toReversed()) {
      const { name, works } = each.contestant
      const { rounds, seconds } = this.#options
      this.#begin(`round ${round} of ${rounds}`, `${name}, ${works.join(' and ')}`, roundSeconds(each.contestant, seconds))
      const note = (work: Work, absolute: Absolute): void => {
        const overs = oversOf(each.contestant, work)
        this.#kept.turns.push({ contestant: name, work, overs, concurrency: this.#concurrency, round, absolute })
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

  async #turn (standing: Standing, work: Work, servers: Servers): Promise<Absolute> {
    const { contestant: { name, needs }, child } = standing
    const mark = (): Mark => ({ costs: costsOf(needs, child, servers.pids), rssMib: rssMibOf(child.pid) })
    for (let attempt = 1; ; attempt++) {
      const { load, from, to } = await this.#measured(standing, work, servers, this.#options.seconds, mark)
      if (load.answered > 0) return absoluteOf(load, from.costs, to.costs, to.rssMib)
      if (attempt === ATTEMPTS) throw new Error(`${name}, ${work}: nothing was answered: ${JSON.stringify(load)}`)
    }
  }

  async #countAllocations (standing: Standing, servers: Servers): Promise<void> {
    const { contestant, child: { allocations } } = standing
    for (const work of contestant.works) {
      if (allocations === null || contestant.works.includes('accept')) return
      this.#begin('allocations', `${contestant.name}, ${work}`, turnSeconds(ALLOCATIONS_SECONDS))
      const { load, to } = await this.#measured(standing, work, servers, ALLOCATIONS_SECONDS, allocations)
      if (to === null || load.answered === 0) throw new Error(`${contestant.name} has counted nothing`)
      this.#kept.allocations.push({
        contestant: contestant.name,
        work,
        concurrency: this.#concurrency,
        heapBytes: Math.round(to.heap / load.answered),
        externalBytes: Math.round(to.external / load.answered)
      })
    }
  }

  /** A lead-in, the load with a mark on both sides, and its judge. */
  async #measured<Of> (
    { contestant, child, poolSeries }: Standing,
    work: Work,
    { upstream }: Servers,
    seconds: number,
    mark: () => Of | Promise<Of>
  ): Promise<{ readonly load: LoadResult, readonly from: Of, readonly to: Of }> {
    const target = { url: child.url, pool: work === 'replay' ? this.#options.poolKeys : null }
    const [leadIn, series] = [this.#nextSeries('l'), this.#nextSeries('m')]
    await upstream.taken()
    const lead = async (seconds: number): Promise<LoadResult> => drive({
      ...target,
      series: work === 'replay' ? poolSeries : leadIn,
      seconds,
      connections: Math.max(this.#concurrency, LEAD_IN_CONNECTIONS_MIN)
    })
    const leads = [await lead(LEAD_IN_SECONDS)]
    const [{ answered }] = leads as [LoadResult]
    if (work === 'replay' && answered > 0 && answered < this.#options.poolKeys) {
      leads.push(await lead(Math.min(LEAD_IN_SECONDS_MAX, Math.ceil(LEAD_IN_SECONDS * this.#options.poolKeys / answered))))
    }
    const from = await mark()
    const load = await drive({
      ...target,
      series: work === 'replay' ? poolSeries : series,
      seconds,
      connections: this.#concurrency
    })
    await new Promise((resolve) => { setTimeout(resolve, AFTERWARDS_MS) })
    const to = await mark()
    const taken = await upstream.taken()
    this.#blame(contestant.name, work, [
      ...leads.flatMap((led) => judgeTurn({ work, series: leadIn, poolSeries, load: led, taken })),
      ...judgeTurn({ work, series, poolSeries, load, taken })
    ])
    for (const trouble of [child.trouble(), upstream.trouble()]) if (trouble !== null) throw new Error(trouble)
    child.forgetLog()
    return { load, from, to }
  }

  #begin (phase: string, what: string, seconds: number): void {
    const connections = `${this.#concurrency} ${this.#concurrency === 1 ? 'connection' : 'connections'}`
    this.#progress.begin({ phase: `${connections}, ${phase}`, what, seconds })
  }

  #blame (contestant: string, work: Violation['work'], all: readonly string[]): void {
    for (const what of new Set(all)) this.#kept.violations.push({ contestant, work, concurrency: this.#concurrency, what })
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
  if (load.answered === 0) throw new Error(`nothing was answered: ${JSON.stringify(load)}`)
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
