/**
 * Opens the stores of the configuration: the embedded store, or Postgres with or without Redis. If the database cannot
 * be reached, the gateway listens and tries again. If it can never be used (a wrong password, a schema of another
 * version), the start fails.
 */
import type { AddressConfig, Config, RedisConfig } from '../config/config.ts'
import { Outage, retryInMs } from '../core/limits/outage.ts'
import { newestSchemeName } from '../core/record/schemes.ts'
import { remarksOnFailover, STRICT, withFailover } from '../core/protocol/durability.ts'
import type { Remark, Durability } from '../core/protocol/durability.ts'
import { causeOf, EarlierTime, LacksRights, LoginRefused, StartError, StoreUnavailable } from '../ports/errors.ts'
import type { InboxStore, InboxSubscriptions, Recovered } from '../ports/inbox.ts'
import type { Lapsed, RecordStore } from '../ports/records.ts'
import type { LockStore } from '../ports/locks.ts'
import type { Log, Meter, StoreUse } from '../ports/telemetry.ts'
import type { RecordCounts } from '../ports/record-counts.ts'
import type { Registry } from '../ports/registry.ts'
import { LazyInboxSubscriptions, subscriptionsThrough } from '../store/shared/inbox-subscriptions.ts'
import { lazyCounts, lazyInbox, lazyLocks, lazyRecords, lazyRegistry } from '../store/shared/lazy.ts'
import type { Lazy } from '../store/shared/lazy.ts'
import { NO_REGISTRY } from '../store/shared/no-registry.ts'
import { RouteMarks } from '../store/route-marks.ts'
import type { DatabaseMarks } from '../store/shared/mark-stores.ts'
import { PatroniReader } from '../store/postgres/patroni.ts'
import { connectPostgres } from '../store/postgres/open.ts'
import type { PostgresConnection, PostgresRecordStore } from '../store/postgres/open.ts'
import { RedisLocks } from '../store/redis/locks.ts'
import { readSecret, secretToServe } from '../store/sqlite/secret.ts'
import { openSqlite } from '../store/sqlite/store.ts'
import type { SqliteStore } from '../store/sqlite/store.ts'
import { refuseEarlier } from '../store/shared/time-seen.ts'

/** A renewal may take a sixth of its lease (E2). */
const RENEW_SHARE = 1 / 6

export interface StoresOptions {
  readonly log: Log
  readonly meter: Meter
  readonly instance: string
  readonly shortestLeaseMs: number
  /** Unix milliseconds up to which the time of the arbiter is believed. */
  readonly believedMs: () => number | null
  /** Reads the arbiter's clock for the first time, before any request is served. */
  readonly readClock: (records: RecordStore) => Promise<void>
}

export class Stores {
  readonly records: RecordStore
  readonly locks: LockStore
  readonly inbox: InboxStore
  readonly wakes = new LazyInboxSubscriptions()
  readonly registry: Registry
  readonly counts: RecordCounts
  readonly marks: RouteMarks
  readonly wantsRedis: boolean
  /** For the banner. */
  readonly where: readonly string[]
  opened = false
  /** Claims that a dead process left in the embedded store. */
  lapsedAtStart: readonly Lapsed[] = []
  /** Deliveries that it left. */
  recoveredAtStart: Recovered = { count: 0, held: [] }
  #refusal: string | null = null
  #waiting: string | null = null
  readonly #outage = new Outage()
  /** The database is reached and cannot be used. This is logged even if an outage was logged shortly before. */
  readonly #refusals = new Outage()
  #failures = 0
  #ownSecret: Buffer | null = null
  #embedded: SqliteStore | null = null
  #postgres: PostgresRecordStore | null = null
  /** null: nobody is asked about failovers. */
  readonly #patroni: PatroniReader | null
  readonly #records: Lazy<RecordStore>
  readonly #inbox: Lazy<InboxStore>
  readonly #counts: Lazy<RecordCounts>
  readonly #locks = lazyLocks()
  #redis: RedisLocks | null = null
  readonly #registry = lazyRegistry()
  #redisEvicts = false
  readonly #config: Config
  readonly #options: StoresOptions
  #connection: PostgresConnection | null = null
  #closing = false
  #retry: NodeJS.Timeout | null = null

  static async open (config: Config, options: StoresOptions): Promise<Stores> {
    const stores = new Stores(config, options)
    const { postgres } = config.stores
    if (postgres === null) {
      stores.#ownSecret = config.secrets.length > 0 ? readSecret(config.dataDir) : secretToServe(config.dataDir)
      const embedded = await openSqlite({
        dataDir: config.dataDir,
        exclusive: true,
        meter: options.meter,
        believedMs: options.believedMs,
        scheme: newestSchemeName(stores.secrets)
      })
      if (embedded.remark !== null) options.log.warn({ event: 'data-directory-remark' }, embedded.remark)
      stores.lapsedAtStart = embedded.lapsedAtStart
      stores.recoveredAtStart = embedded.recoveredAtStart
      stores.#embedded = embedded
      await options.readClock(embedded)
      stores.#use(embedded)
      return stores
    }
    const connection = connectPostgres({
      ...postgres,
      serves: true,
      scheme: newestSchemeName(config.secrets),
      instance: options.instance,
      log: options.log,
      meter: options.meter,
      renewTimeoutMs: options.shortestLeaseMs * RENEW_SHARE,
      believedMs: options.believedMs
    })
    stores.#connection = connection
    await stores.#connect(connection, true)
    return stores
  }

  private constructor (config: Config, options: StoresOptions) {
    this.#config = config
    this.#options = options
    const { postgres, redis } = config.stores
    const name = postgres === null ? 'sqlite' : 'postgres'
    this.#records = lazyRecords(name)
    this.#inbox = lazyInbox(name)
    this.#counts = lazyCounts(name)
    this.records = this.#records.port
    this.inbox = this.#inbox.port
    this.counts = this.#counts.port
    this.locks = this.#locks.port
    // Only one process uses the embedded store.
    this.registry = postgres === null ? NO_REGISTRY : this.#registry.port
    this.wantsRedis = postgres !== null && redis !== null
    this.#patroni = postgres === null || postgres.patroni.length === 0 ? null : new PatroniReader(postgres.patroni)
    this.marks = new RouteMarks(() => performance.now(), this.wantsRedis)
    this.where = whereOf(config)
    // Redis counts as unusable until it has been checked.
    if (this.wantsRedis) options.meter.breaker(true)
  }

  /** A sentence while the store cannot be used and waiting does not help. */
  get blocked (): string | null {
    const failure = this.#embedded?.failure ?? null
    return failure === null
      ? this.#refusal ?? this.#connection?.lacking ?? null
      : `the embedded store has ended (${failure.message}): start this process again`
  }

  /** A sentence while the database has not been reached. */
  get waiting (): string | null { return this.#waiting }

  get secrets (): readonly Buffer[] { return this.secretsBy(this.#config) }

  /** Secrets that ids may be keyed with: those of the configuration, and that of the embedded store. */
  secretsBy ({ secrets }: Pick<Config, 'secrets'>): readonly Buffer[] {
    return this.#ownSecret === null ? secrets : [...secrets, this.#ownSecret]
  }

  /** The durability that the arbiter's settings allow. Rejects while the arbiter cannot be read. */
  async durability (): Promise<Durability> {
    // The embedded store sets `synchronous` itself (store/sqlite/database.ts). Nothing else can change it.
    if (this.#config.stores.postgres === null) return STRICT
    if (this.#postgres === null) throw new StoreUnavailable('postgres', 'standing', false)
    const [durability, failover] = await Promise.all([this.#postgres.durability(), this.#patroni?.read() ?? null])
    return withFailover(durability, failover)
  }

  /** Eviction loses locks and copies, as a restart does. Each costs a round trip, and the row still decides (P2). */
  remarks (): Remark[] {
    return [...this.#redisEvicts ? ['redis-evicts'] as const : [], ...this.#patroni === null ? [] : remarksOnFailover(this.#patroni.last)]
  }

  /** Connections to the database. The embedded store has none. */
  databaseUse (): readonly StoreUse[] { return this.#postgres?.connectionUse() ?? [] }

  redisUse (): readonly StoreUse[] { return this.#redis === null ? [] : [this.#redis.connectionUse()] }

  async close (): Promise<void> {
    this.#closing = true
    if (this.#retry !== null) clearTimeout(this.#retry)
    // Also closes a connection that was reached and is not used.
    await Promise.allSettled([this.records.close(), this.#connection?.close(), this.locks.close()])
  }

  async #connect (connection: PostgresConnection, first: boolean): Promise<void> {
    try {
      const store = await this.#open(connection)
      if (this.#closing) return await store.close()
      refuseEarlier(await store.timeSeen(), connection.address)
      await this.#options.readClock(store)
      this.#postgres = store
      this.#registry.open(store.registry)
      this.#use(store)
      this.#waiting = null
      const wasSaid = [this.#outage.over(), this.#refusals.over()].includes(true)
      if (wasSaid) this.#options.log.info({ event: 'database-reached', where: connection.address }, 'database reached')
    } catch (error) {
      const passes = error instanceof EarlierTime || error instanceof LacksRights ||
        (error instanceof LoginRefused && typeof this.#config.stores.postgres?.urlFile === 'string')
      if (error instanceof StartError && first && !passes) throw error
      this.#noteFailure(connection.address, error)
      if (this.#closing) return
      this.#retry = setTimeout(() => { void this.#connect(connection, false) }, retryInMs(++this.#failures, Math.random()))
    }
  }

  async #open (connection: PostgresConnection): Promise<PostgresRecordStore> {
    const began = performance.now()
    let ok = false
    try {
      const store = await connection.open()
      ok = true
      return store
    } finally {
      this.#options.meter.store('postgres', 'open', ok, performance.now() - began)
    }
  }

  #noteFailure (where: string, error: unknown): void {
    this.#refusal = error instanceof StartError ? error.message : null
    const cause = this.#refusal ?? causeOf(error)
    this.#waiting = /^E[A-Z_]+$/.test(cause) ? `${where} cannot be reached (${cause})` : `${where} cannot be used yet (${cause})`
    const isNews = (this.#refusal === null ? this.#outage : this.#refusals).isNews(cause, performance.now())
    if (!isNews) return
    const { log } = this.#options
    if (this.#refusal === null) log.warn({ event: 'database-unreachable', where, error: cause }, 'database not reached; trying again')
    else log.warn({ event: 'database-unusable', where, error: cause }, 'database cannot be served from; trying again')
  }

  #use (
    records: RecordStore & {
      readonly inbox: InboxStore
      readonly counts: RecordCounts
      readonly subscriptions: InboxSubscriptions
      readonly marks: DatabaseMarks
    }
  ): void {
    this.#records.open(records)
    this.#inbox.open(records.inbox)
    this.#counts.open(records.counts)
    this.opened = true
    this.#refusal = null
    const locks = this.#openLocks(records.installation)
    if (locks !== null) this.#locks.open(locks)
    // One channel is enough. If some gateways have lost Redis, all would have to listen to both.
    this.wakes.open(locks === null ? records.subscriptions : subscriptionsThrough(locks))
    this.marks.open(records.marks, locks)
  }

  #openLocks (installation: string): RedisLocks | null {
    const { redis, postgres } = this.#config.stores
    if (redis === null || postgres === null) return null
    const { log, meter } = this.#options
    const onServer = ({ evicts }: { readonly evicts: boolean }): void => { this.#redisEvicts = evicts }
    this.#redis = new RedisLocks({ ...redis, installation, mirrored: true, log, meter, onServer })
    return this.#redis
  }
}

/** A line for each store, without a password. */
export function whereOf (config: Config): string[] {
  const { postgres, redis } = config.stores
  if (postgres === null) return [`embedded SQLite under ${config.dataDir}${redis === null ? '' : ' (Redis is not used without Postgres)'}`]
  const url = new URL(postgres.url)
  const database = decodeURIComponent(url.pathname.slice(1)) || 'the default database'
  const lines = [`Postgres at ${url.hostname || 'localhost'}:${url.port || '5432'}, database ${database}, schema ${postgres.schema}`]
  if (redis !== null) lines.push(`${redisAddress(redis)}, prefix ${redis.prefix}`)
  return lines
}

function redisAddress ({ url, sentinel, cluster }: RedisConfig): string {
  const all = (nodes: readonly AddressConfig[]) =>
    nodes.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(', ')
  if (sentinel !== null) return `Redis master ${sentinel.name} of the sentinels ${all(sentinel.nodes)}`
  return cluster === null ? `Redis at ${new URL(url ?? '').host}` : `Redis Cluster at ${all(cluster)}`
}
