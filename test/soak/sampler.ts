/**
 * Looks at everything that could grow: each gateway's memory, files, sockets and books, the connections that the stores
 * see, the rows that wait for the sweeper. Keeps the series; judges nothing.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { metricsOf, totalOf } from '../e2e/metrics.ts'
import type { GatewayProcess } from './gateway-process.ts'

export interface SamplerOptions {
  readonly gateways: readonly GatewayProcess[]
  readonly database: string
  readonly redis: string
  readonly everyMs: number
  readonly onSample: (sample: Sample) => void
}

/** What one look found, by the name of the series. */
export interface Sample {
  readonly atMs: number
  readonly values: Readonly<Record<string, number>>
}

/** Of every gateway; the name of the series is the gateway's name in front of these. */
const METRICS = {
  heap: 'nodejs_heap_size_used_bytes',
  sockets: 'nodejs_active_resources{type="TCPSocketWrap"}',
  resources: 'nodejs_active_resources',
  requests: 'nodejs_active_requests_total',
  executions: 'onceway_executions',
  waiters: 'onceway_waiters',
  unsettled: 'onceway_unsettled_bytes'
} as const

const CONNECTIONS = "select split_part(application_name, ' ', 2) as purpose, count(*)::int as count from pg_stat_activity where datname = current_database() and application_name like 'onceway %' group by 1"
const PURPOSES = ['claims', 'settles', 'renewals', 'background'] as const

export class Sampler {
  readonly samples: Sample[] = []
  readonly #options: SamplerOptions
  readonly #database: Client
  readonly #redis: Redis
  /** Rejects when a look fails: a gateway or a store has gone. Resolves never before {@link stop}. */
  failed: Promise<void> = Promise.resolve()
  #stopped = false
  #cpu = busyTimes()

  constructor (options: SamplerOptions) {
    this.#options = options
    this.#database = new Client({ connectionString: options.database, application_name: 'the soak itself' })
    this.#redis = new Redis(options.redis, { connectionName: 'the soak itself' })
  }

  async start (): Promise<void> {
    await this.#database.connect()
    this.failed = this.#run(performance.now())
    this.failed.catch(() => {})
  }

  /** Rejects with what a look has failed with. */
  async stop (): Promise<void> {
    this.#stopped = true
    try {
      await this.failed
    } finally {
      await this.#database.end()
      this.#redis.disconnect()
    }
  }

  async #run (startedAtMs: number): Promise<void> {
    while (!this.#stopped) {
      const atMs = performance.now() - startedAtMs
      const sample = { atMs, values: await this.#look() }
      this.samples.push(sample)
      this.#options.onSample(sample)
      const leftMs = atMs + this.#options.everyMs - (performance.now() - startedAtMs)
      await new Promise((resolve) => { setTimeout(resolve, Math.max(0, leftMs)) })
    }
  }

  async #look (): Promise<Record<string, number>> {
    const each = await Promise.all(this.#options.gateways.map(async (gateway) => lookAt(gateway)))
    return { ...Object.assign({}, ...each) as Record<string, number>, ...await this.#lookAtStores(), busy: this.#busy() }
  }

  async #lookAtStores (): Promise<Record<string, number>> {
    const { rows } = await this.#database.query<{ purpose: string, count: number }>(CONNECTIONS)
    const { rows: [records] } = await this.#database.query<{ count: number }>('select count(*)::int as count from onceway.records')
    const clients = String(await this.#redis.client('LIST'))
    return {
      ...Object.fromEntries(PURPOSES.map((purpose) => [`postgres ${purpose}`, rows.find((row) => row.purpose === purpose)?.count ?? 0])),
      'redis clients': clients.match(/ name=onceway/g)?.length ?? 0,
      records: records?.count ?? 0
    }
  }

  /** Share of all cores since the last look. */
  #busy (): number {
    const before = this.#cpu
    this.#cpu = busyTimes()
    const all = this.#cpu.all - before.all
    return all === 0 ? 0 : (this.#cpu.busy - before.busy) / all
  }
}

async function lookAt ({ name, pid, adminUrl, trouble }: GatewayProcess): Promise<Record<string, number>> {
  const ended = trouble()
  if (ended !== null) throw new Error(`gateway ${name} has ended:\n${ended}`)
  const metrics = await metricsOf(adminUrl)
  const values = Object.entries(METRICS).map(([series, metric]) => [`${name} ${series}`, totalOf(metrics, metric)])
  return {
    ...Object.fromEntries(values) as Record<string, number>,
    [`${name} rss`]: rssOf(pid) ?? totalOf(metrics, 'process_resident_memory_bytes'),
    [`${name} files`]: filesOf(pid) ?? totalOf(metrics, 'process_open_fds')
  }
}

/** null where there is no /proc: then the process's own word is taken. */
function rssOf (pid: number): number | null {
  try {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? []
    return kilobytes === undefined ? null : Number(kilobytes) * 1024
  } catch { return null }
}

function filesOf (pid: number): number | null {
  try { return readdirSync(`/proc/${pid}/fd`).length } catch { return null }
}

function busyTimes (): { busy: number, all: number } {
  let [busy, all] = [0, 0]
  for (const { times } of cpus()) {
    const sum = Object.values(times).reduce((total, ms) => total + ms, 0)
    all += sum
    busy += sum - times.idle
  }
  return { busy, all }
}
