/**
 * What operators' searches cost the requests beside them: a gateway process under a steady load, in turns of so many seconds without
 * searches and with one search after another. Half of the load are first requests. The others are replays that are read from the database.
 */
import { filled, fillRecords } from '../test/harness/many-records.ts'
import { Client, closedLoop, measured, Numbers, OpenLoop, percentile } from './growth/load.ts'
import type { Ask, Measured } from './growth/load.ts'
import { withGateway, withServers } from './growth/servers.ts'
import { keyOf } from './growth/thing.ts'
import { wrongExecutions } from './growth/upstream.ts'

export interface SearchLoadOptions {
  readonly records: number
  readonly rounds: number
  /** Of one turn. */
  readonly seconds: number
  /** Requests a second. */
  readonly rate: number
  readonly say: (text: string) => void
}

/** Keys that are replayed. */
const POOL = 2_000
const POOL_CONNECTIONS = 16
/** More than a gateway that keeps up ever has under way. */
const CONNECTIONS = 256
const WARM_UP_SECONDS = 5
/** Between two turns: what the one has left is over. */
const REST_MS = 500
const WANTED = 1.5
/** The p99 without searches moves by no more from round to round on a machine that does nothing else. */
const QUIET = 2

/** Queries of records, by the kind of search. `n`: of a record that is there. */
const KINDS: Readonly<Record<string, (n: number) => string>> = {
  key: (n) => `key=${filled.key(n)}`,
  id: (n) => `id=${filled.id(n).toString('hex')}`,
  state: () => 'state=indeterminate',
  'last hour': () => 'from=1h',
  path: (n) => `path=${filled.path(n)}`,
  route: (n) => `route=${filled.route(n)}`,
  'request id': (n) => `requestId=${filled.requestId(n)}`
}

interface Searched { readonly ms: number, readonly whole: boolean }

/** One search at a time, each kind in turn, for as long as the run wants. */
class Searches {
  readonly done = new Map<string, Searched[]>(Object.keys(KINDS).map((kind) => [kind, []]))
  readonly #url: string
  readonly #records: number
  #turn = 0

  constructor (adminUrl: string, records: number) {
    this.#url = `${adminUrl}/api/v1/records?`
    this.#records = records
  }

  async during (ms: number): Promise<void> {
    const kinds = Object.entries(KINDS)
    for (const until = performance.now() + ms; performance.now() < until; this.#turn++) {
      const [kind, query] = kinds[this.#turn % kinds.length] as (typeof kinds)[number]
      const began = performance.now()
      const response = await fetch(`${this.#url}${query(1 + Math.floor(Math.random() * this.#records))}`)
      const { whole } = await response.json() as { whole?: boolean }
      // A search that could read nothing in its time is 503.
      if (!response.ok && response.status !== 503) throw new Error(`a search by ${kind} is ${response.status}`)
      this.done.get(kind)?.push({ ms: performance.now() - began, whole: whole === true })
    }
  }
}

/** The number of wrong answers and executions. */
export async function measureSearchLoad (options: SearchLoadOptions): Promise<number> {
  const { records, say } = options
  return withServers(async (servers) => {
    const database = await servers.postgres.createDatabase('searches')
    const { fillSeconds, indexSeconds } = await fillRecords({ database, records, withUnknown: true, say })
    say(`${records} records: ${fillSeconds.toFixed(0)} s, their indexes: ${indexSeconds.toFixed(0)} s`)
    const choice = { stores: 'redis and postgres', database, limits: 'recentBytes: 0B', copies: '0B' } as const
    const wrong = await withGateway(servers, choice, async ({ url, adminUrl }) => {
      const client = new Client(url, CONNECTIONS)
      const searches = new Searches(adminUrl, records)
      report(await turns(client, searches, options), searches, options)
      await client.close()
      for (const line of client.wrong) say(line)
      return client.wrongCount
    })
    const executions = wrongExecutions(await servers.upstream.ask('count'))
    for (const line of executions) say(line)
    return wrong + executions.length
  })
}

interface Round { readonly without: Measured, readonly beside: Measured }

async function turns (client: Client, searches: Searches, { rounds, seconds, rate, say }: SearchLoadOptions): Promise<readonly Round[]> {
  const numbers = new Numbers()
  const first = (): Ask => ({ key: keyOf('made', numbers.take()), expected: 'executed' })
  const replay = (): Ask => ({ key: keyOf('made', Math.floor(Math.random() * POOL)), expected: 'replayed' })
  for (let settled = 0; settled < POOL;) settled += (await closedLoop(client, POOL_CONNECTIONS, 1_000, first)).requests
  let asked = 0
  const load = new OpenLoop(client, rate, () => asked++ % 2 === 0 ? first() : replay())
  load.start()
  try {
    await Promise.all([pause(WARM_UP_SECONDS * 1_000), searches.during(WARM_UP_SECONDS * 1_000)])
    for (const times of searches.done.values()) times.length = 0
    const turn = async (work: () => Promise<void>): Promise<Measured> => {
      await pause(REST_MS)
      const fromMs = load.nowMs
      await work()
      const toMs = load.nowMs
      await pause(REST_MS)
      return measured(load.between(fromMs, toMs).map(({ ms }) => ms), toMs - fromMs)
    }
    const without = async (): Promise<Measured> => turn(async () => pause(seconds * 1_000))
    const beside = async (): Promise<Measured> => turn(async () => searches.during(seconds * 1_000))
    const done: Round[] = []
    for (let round = 0; round < rounds; round++) {
      // Each second round begins with the other turn, so that a table that grows meets both alike.
      const early = round % 2 === 0 ? await without() : null
      const busy = await beside()
      const quiet = early ?? await without()
      done.push({ without: quiet, beside: busy })
      say(`round ${round + 1} of ${rounds}: p99 ${quiet.p99Ms.toFixed(1)} ms without searches, ${busy.p99Ms.toFixed(1)} ms beside them`)
    }
    return done
  } finally {
    await load.stop()
  }
}

function report (rounds: readonly Round[], searches: Searches, { records, rate, seconds }: SearchLoadOptions): void {
  console.log(`\n${records} records, ${rate} requests a second, ${rounds.length} rounds, turns of ${seconds} s. Milliseconds, median [lowest–highest] of the rounds.\n`)
  console.log('| | without searches | beside searches | ratio in a round |\n|---|---|---|---|')
  for (const [name, of] of [['p50', (each: Measured) => each.p50Ms], ['p99', (each: Measured) => each.p99Ms]] as const) {
    const [without, beside] = [rounds.map((round) => of(round.without)), rounds.map((round) => of(round.beside))]
    console.log(`| ${name} | ${spread(without, 1)} | ${spread(beside, 1)} | ${spread(rounds.map((round) => of(round.beside) / of(round.without)), 2)} |`)
  }
  console.log(`\nThe p99 beside searches should be at most ${WANTED} times that without.`)
  const quiet = rounds.map(({ without }) => without.p99Ms)
  if (Math.max(...quiet) > QUIET * Math.min(...quiet)) {
    console.log('The machine was busy with something else: the p99 without searches moved too much.')
  }
  console.log('')
  console.log('| search | times | median ms | slowest ms | whole |\n|---|---|---|---|---|')
  for (const [kind, done] of searches.done) {
    const sorted = done.map(({ ms }) => ms).toSorted((a, b) => a - b)
    console.log(
      `| ${kind} | ${done.length} | ${percentile(sorted, 0.5).toFixed(0)} | ${percentile(sorted, 1).toFixed(0)} | ${done.filter(({ whole }) => whole).length} |`
    )
  }
}

function spread (values: readonly number[], digits: number): string {
  const sorted = values.toSorted((a, b) => a - b)
  const [median, least, most] = [percentile(sorted, 0.5), percentile(sorted, 0), percentile(sorted, 1)]
  return `${median.toFixed(digits)} [${least.toFixed(digits)}–${most.toFixed(digits)}]`
}

async function pause (ms: number): Promise<void> {
  await new Promise<void>((resolve) => { setTimeout(resolve, ms) })
}
