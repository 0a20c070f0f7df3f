/**
 * From a URL to a store: connects, migrates or checks, and refuses with one sentence what waiting cannot mend. A database that
 * cannot be reached may come back. To listen meanwhile, use {@link connectPostgres} and try again.
 */
import { Client, escapeIdentifier } from 'pg'
import type { ClientConfig } from 'pg'
import { errorText, StartError, StoreUnavailable } from '../../ports/errors.ts'
import type { Log, Meter } from '../../ports/telemetry.ts'
import type { Migration } from '../shared/migration-files.ts'
import { bindInstallation, readInstallation } from './binding.ts'
import { Connections, type ConnectionsOptions } from './connections.ts'
import { UNBALANCED } from './statements.ts'
import { faultOfOpening, type DatabaseAddress } from './faults.ts'
import { LINE_CONNECTIONS } from './in-line.ts'
import { Login } from './login.ts'
import { DELIVERY_CONNECTIONS, INBOX_CONNECTIONS } from './inbox.ts'
import { MARK_CONNECTIONS } from './marks.ts'
import { buildLeft, migrate, type Besides, type Migrated } from './migrate.ts'
import { CLAIM_CONNECTIONS } from './claim-batches.ts'
import { PostgresRecords } from './records.ts'
import { SETTLE_CONNECTIONS } from './settle-batches.ts'
import { lacksRights, missingRights, RIGHTS_LOOK, RightsWatch } from './rights.ts'
import { pinned, securedBy, type Secured, type TlsFiles } from './tls.ts'
import { PostgresSubscriptions } from './subscriptions.ts'

export interface PostgresOptions {
  readonly url: string
  /** The file that `url` came from: its user and password are read again (login.ts). Absent or null: they stay. */
  readonly urlFile?: string | null
  readonly schema: string
  /** Absent or null: as the URL's sslmode says, else unencrypted. */
  readonly tls?: TlsFiles | null
  /** Named statements. false for a PgBouncer before 1.21 in transaction mode. */
  readonly prepared: boolean
  readonly migrate: 'auto' | 'check'
  /** A gateway begins to serve: the installation is bound to this database (binding.ts). Absent: only read. */
  readonly serves?: boolean
  /**
   * The name of the scheme (core/record/schemes.ts) that a gateway chooses for a database in which nothing was ever claimed.
   * Absent: that of every release before.
   */
  readonly scheme?: string
  /** How long one statement of a claim may take, connecting and commit included. */
  readonly claimTimeoutMs: number
  /** A sixth of the shortest lease: a renewal that takes longer is given up and tried again with the next tick (E2). */
  readonly renewTimeoutMs?: number
  /** How far the database's time is believed: Unix milliseconds. null, or absent: as it is. */
  readonly believedMs?: () => number | null
  /** The store is that of operators, beside a gateway's own: what they read and change has the limits of their searches. */
  readonly operators?: boolean
  /** Shown in pg_stat_activity. */
  readonly instance?: string
  readonly log?: Log
  readonly meter?: Pick<Meter, 'store'>
  /** Another set than the package's, for tests. */
  readonly migrations?: readonly Migration[]
}

export type PostgresRecordStore = PostgresRecords

export interface PostgresConnection {
  /** `postgres at HOST:PORT, database D, schema S`, for banners and errors. Never contains a password. */
  readonly address: string
  /** If it serves and has been opened: a sentence, while its role lacks a right. null: it lacks none, as far as is known. */
  readonly lacking: string | null
  /**
   * One try. StoreUnavailable: not reachable, or a replica, so try again. StartError: waiting does not help. The exception is
   * LacksRights, which a grant ends. May be called again after each error. Once it has succeeded, it returns the same store.
   */
  open: () => Promise<PostgresRecordStore>
  close: () => Promise<void>
}

/** A sixth of the default lease of 15 s. */
const RENEW_MS_MAX = 2_500
/**
 * A sign of life that takes longer than the pause to the next one is given up. Otherwise a network that swallows it would delay
 * all those behind it. An operator's confirmation of the time was once not heard for half a minute. A new connection may need a
 * second.
 */
const BEAT_MS_MIN = 1_000
/** The gateway tries a settle again. One try may outlast a slow commit of a large answer. */
const SETTLE_MS_MAX = 5_000
/** A sweep of thousands of rows, a list without an index, a resolve: no request waits for them. */
const BACKGROUND_MS_MAX = 30_000
/** For connecting and the first questions. It does not bound migrations. */
const OPEN_MS_MAX = 5_000
/**
 * A lock wait gets a quarter of its statement's time. The refusal of a locked row then comes well before the statement's time
 * is over, and the rest of its batch can still be done.
 */
const LOCK_SHARE = 1 / 4
/**
 * A third of a lease. A row that is locked just before its renewal is waited for before the lease ends, even behind two others.
 */
const RENEWALS_IN_LINE = 2
/** What only waits for a lock spends nearly all of its time on it. */
const LINE_LOCK_SHARE = 4 / 5
/** Operators, sweeper and lapse. The loops of background/ take one at a time. */
const BACKGROUND_CONNECTIONS = 3
/** Searches of operators. A third one waits for the first two. */
const SEARCH_CONNECTIONS = 2
/** A search ends by its own limit in the database, which is less. */
const SEARCH_MS_MAX = 5_000
/** In the database. The rest of the time is for the network, and for a database that does not answer at all. */
const OPERATOR_WITHIN_MS = 2_000
const OPERATOR_MS_MAX = 5_000
/** gen_random_uuid() without an extension. */
const SERVER_VERSION_MIN = 130_000

const SILENT: Log = { debug () {}, info () {}, warn () {}, error () {} }

/** Connects at once. See {@link PostgresConnection.open} for the errors. */
export async function openPostgres (options: PostgresOptions): Promise<PostgresRecordStore> {
  return connectPostgres(options).open()
}

/** Touches no network yet. Throws StartError (exit 2) for a URL that is none. */
export function connectPostgres (options: PostgresOptions): PostgresConnection {
  const { address, transport } = parseAddress(options)
  if (options.serves === true) transport.login.watch()
  // A silently lost connection would hold up the watch for as long as TCP does.
  const read = () => withClient(transport, address, (client) => missingOf(client, options.schema), { query_timeout: OPEN_MS_MAX })
  const rights = options.serves === true ? new RightsWatch({ read, address: textOf(address), log: options.log ?? SILENT }) : null
  let opened: Promise<PostgresRecordStore> | null = null
  return {
    address: textOf(address),
    get lacking () { return rights?.missing ?? null },
    open () {
      opened ??= open(options, address, transport, () => rights?.suspect()).catch((error: unknown) => {
        opened = null
        throw error
      })
      return opened
    },
    async close () {
      transport.login.close()
      rights?.close()
      const store = await opened?.catch(() => null)
      await store?.close()
    }
  }
}

/** `onceway migrate`: applies what is missing and says what it was. */
export async function migratePostgres (
  options: Pick<PostgresOptions, 'url' | 'urlFile' | 'schema' | 'tls' | 'migrations'>
): Promise<Migrated> {
  const { address, transport } = parseAddress(options)
  const besides: Besides = (work) => withClient(transport, address, work)
  return besides((client) => migrate(client, { ...options, mode: 'auto', besides }))
}

/** One connection for one command. @throws StartError or StoreUnavailable, as {@link PostgresConnection.open} */
export async function withPostgres<Result> (
  options: Pick<PostgresOptions, 'url' | 'urlFile' | 'schema' | 'tls' | 'log'>,
  work: (client: Client) => Promise<Result>
): Promise<Result> {
  const { address, transport } = parseAddress(options)
  return withClient(transport, address, work)
}

function textOf ({ host, database, schema }: DatabaseAddress): string {
  return `postgres at ${host}, database ${database}, schema ${schema}`
}

async function missingOf (client: Client, schema: string): Promise<string | null> {
  return missingRights(async (values) => (await client.query<object>(RIGHTS_LOOK, values)).rows, schema)
}

/** @throws LacksRights */
async function mustHaveRights (client: Client, address: DatabaseAddress): Promise<void> {
  const grants = await missingOf(client, address.schema)
  if (grants !== null) throw lacksRights(textOf(address), grants)
}

async function open (
  options: PostgresOptions,
  address: DatabaseAddress,
  transport: Transport,
  suspect: () => void
): Promise<PostgresRecordStore> {
  let left: readonly Migration[] = []
  const installation = await withClient(transport, address, async (client) => {
    await checkServer(client, address)
    const { migrations } = options
    // Before migrating, for what it reads. Afterwards, for the tables that it has made or found.
    if (options.serves === true) await mustHaveRights(client, address)
    left = (
      await migrate(client, { schema: options.schema, mode: options.migrate, ...migrations === undefined ? {} : { migrations } })
    ).left
    if (options.serves === true) await mustHaveRights(client, address)
    return options.serves === true
      ? bindInstallation(client, options.schema, options.log ?? SILENT, options.scheme ?? '1')
      : readInstallation(client, options.schema)
  })
  if (options.serves === true && options.migrate === 'auto') void buildIndexes(options, address, transport, left)
  const linesMs = (options.renewTimeoutMs ?? RENEW_MS_MAX) * RENEWALS_IN_LINE
  const connections = connectionsWith(options, transport, suspect)
  return new PostgresRecords(installation, {
    claims: connections('claims', CLAIM_CONNECTIONS, options.claimTimeoutMs, { onConnect: suspect, byKey: true }),
    settles: connections('settles', SETTLE_CONNECTIONS, SETTLE_MS_MAX, { byKey: true }),
    renewals: connections('renewals', 1, options.renewTimeoutMs ?? RENEW_MS_MAX),
    // Unnamed: behind a pooler that loses named statements, the gateway could otherwise not even report it.
    beats: connections('beats', 1, Math.max(BEAT_MS_MIN, options.renewTimeoutMs ?? RENEW_MS_MAX), { prepared: false }),
    background: options.operators === true
      ? connections('operators', BACKGROUND_CONNECTIONS, OPERATOR_MS_MAX, { withinMs: OPERATOR_WITHIN_MS, prepared: false })
      : connections('background', BACKGROUND_CONNECTIONS, BACKGROUND_MS_MAX),
    search: connections('search', SEARCH_CONNECTIONS, SEARCH_MS_MAX, { prepared: false }),
    marks: connections('marks', MARK_CONNECTIONS, options.claimTimeoutMs),
    inbox: connections('inbox', INBOX_CONNECTIONS, options.claimTimeoutMs, { byKey: true }),
    deliveries: connections('deliveries', DELIVERY_CONNECTIONS, SETTLE_MS_MAX, { byKey: true }),
    lines: connections('lines', LINE_CONNECTIONS, linesMs, { lockTimeoutMs: linesMs * LINE_LOCK_SHARE })
  }, subscriptionsOf(options, transport, installation))
}

/** While the gateway serves. If it ends before, or another transaction is too old, the next gateway that starts builds what is missing. */
async function buildIndexes (
  { schema, log = SILENT }: PostgresOptions,
  address: DatabaseAddress,
  transport: Transport,
  left: readonly Migration[]
): Promise<void> {
  for (const migration of left) {
    const { name } = migration
    log.info(
      { event: 'indexes-build', migration: name },
      'building indexes of a large table; what they make fast is slow meanwhile, and nothing waits'
    )
    try {
      const built = await withClient(transport, address, (client) =>
        buildLeft(client, (work) => withClient(transport, address, work), schema, migration))
      if (built) log.info({ event: 'indexes-built', migration: name }, 'indexes of a large table are built')
    } catch (error) {
      log.warn(
        { event: 'indexes-build-failed', migration: name, error: errorText(error) },
        'indexes of a large table are not built; what they make fast is slow until a gateway starts again, or `onceway migrate` is run'
      )
    }
  }
}

function subscriptionsOf (options: PostgresOptions, { secured, login }: Transport, installation: string): PostgresSubscriptions {
  const { log = SILENT, meter = { store () {} } } = options
  return new PostgresSubscriptions({
    connection: { ...secured, application_name: nameOf('wakes', options) }, login, installation, log, meter
  })
}

/** Shown in pg_stat_activity. */
function nameOf (purpose: string, { instance = '' }: PostgresOptions): string { return `onceway ${purpose} ${instance}`.trim() }

function connectionsWith (options: PostgresOptions, { secured, login }: Transport, onForbidden: () => void) {
  return (
    purpose: string,
    connectionsMax: number,
    timeoutMs: number,
    { lockTimeoutMs = timeoutMs * LOCK_SHARE, ...special }: Partial<Pick<
      ConnectionsOptions,
      'lockTimeoutMs' | 'withinMs' | 'prepared' | 'onConnect' | 'byKey'
    >> = {}
  ): Connections => new Connections({
    purpose,
    pool: { ...secured, application_name: nameOf(purpose, options) },
    login,
    schema: escapeIdentifier(options.schema),
    prepared: options.prepared,
    connectionsMax,
    timeoutMs,
    lockTimeoutMs: Math.max(1, Math.round(lockTimeoutMs)),
    log: options.log ?? SILENT,
    meter: options.meter ?? { store () {} },
    onForbidden,
    ...options.believedMs === undefined ? {} : { believedMs: options.believedMs },
    ...special
  })
}

/** How to get to a database. */
interface Transport { readonly secured: Secured, readonly login: Login }

/** Where it is, and how to get there. */
function parseAddress (
  { url, urlFile = null, schema, tls = null, log = SILENT }: Pick<PostgresOptions, 'url' | 'urlFile' | 'schema' | 'tls' | 'log'>
): { readonly address: DatabaseAddress, readonly transport: Transport } {
  const secured = securedBy(tls)
  try {
    const client = new Client({ ...secured, connectionString: pinned(url) })
    const { user = '', host, port, database = '' } = client
    return {
      address: { user, host: `${host}:${port}`, database, schema, secured: Boolean(client.ssl) },
      transport: { secured, login: new Login({ url, urlFile, log }) }
    }
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException
    if (path !== undefined) {
      throw new StartError(`The database URL names a file that cannot be read: ${path} (${code ?? 'unknown error'}).`, 2, error)
    }
    throw new StartError('The database URL cannot be read: it should look like postgres://user:password@host:5432/database.', 2, error)
  }
}

async function withClient<Result> (
  { secured, login }: Transport,
  address: DatabaseAddress,
  work: (client: Client) => Promise<Result>,
  limits: Partial<Pick<ClientConfig, 'query_timeout'>> = {}
): Promise<Result> {
  const connected = async (): Promise<Client> => {
    const client = new login.Client({
      ...secured,
      ...limits,
      application_name: 'onceway open',
      connectionTimeoutMillis: OPEN_MS_MAX,
      keepAlive: true
    })
    client.on('error', () => {})
    return client.connect().then(() => client, async (error: unknown) => {
      await client.end().catch(() => {})
      throw error
    })
  }
  let client: Client | null = null
  try {
    client = await login.retried(connected)
    return await work(client)
  } catch (error) {
    throw faultOfOpening(error, address)
  } finally {
    await client?.end().catch(() => {})
  }
}

async function checkServer (client: Client, { user, database }: DatabaseAddress): Promise<void> {
  const { rows: [server] } = await client.query<{ version: number, isolation: string, read_only: string, recovers: boolean }>(
    `${UNBALANCED} select current_setting('server_version_num')::int as version, current_setting('default_transaction_isolation') as isolation,
            current_setting('transaction_read_only') as read_only, pg_catalog.pg_is_in_recovery() as recovers`)
  if (server === undefined) return
  // A replica may be promoted, or the name may soon point elsewhere: that is worth waiting for.
  if (server.read_only === 'on') {
    throw new StoreUnavailable(
      'postgres',
      'open',
      false,
      new Error(server.recovers
        ? 'the server is read-only, probably a replica'
        : `the server is no replica, but default_transaction_read_only is on for it, its database ${database} or its role ${user}`)
    )
  }
  if (server.version < SERVER_VERSION_MIN) throw new StartError('Postgres 13 or newer is needed: update the server.')
  if (server.isolation !== 'read committed') {
    throw new StartError(
      `The user "${user}" works in isolation level "${server.isolation}", where claims fail: run alter role ${escapeIdentifier(user)} in database ${escapeIdentifier(database)} set default_transaction_isolation = 'read committed'.`
    )
  }
}
