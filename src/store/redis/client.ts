/**
 * One connection to Redis: no queue while it is down, nothing sent twice, no long waits. It reconnects by itself, to the same
 * server or to the one that is right by then. It also says once what is wrong with a server that answers.
 */
import { connect as connectPlain, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis'
import { retryInMs } from '../../core/limits/outage.ts'
import { StartError } from '../../ports/errors.ts'
import type { Log } from '../../ports/telemetry.ts'
import type { Address, Credentials, TlsMaterial } from './topology-options.ts'

export interface ClientOptions extends Credentials {
  /** Shown by CLIENT LIST. */
  readonly name: string
  readonly commandTimeoutMs: number
}

/** Called for every connection, never before the previous one is gone. */
export type Find = () => Promise<Address>

export const CONNECTION_NAME = 'onceway'
export const SUBSCRIBER_NAME = 'onceway-wakes'

const CONNECT_MS_MAX = 2_000
/** A connection that owes a reply this long is dead (a firewall that forgot it). Timeouts alone would never reconnect. */
const SILENCE_MS_MAX = 5_000
/** How long a connection that is given up may take to close. */
const GOODBYE_MS_MAX = 100
/** The pause before `find` is called again after it found nothing. */
const FIND_AGAIN_MS = 250

/** Throws StartError (exit 2) if the URL cannot be read, never because the server is away. */
export function connectUrl (url: string, options: ClientOptions): Redis {
  return new Redis(checkedUrl(url), { ...optionsOf(options), Connector: GivenConnector })
}

export function connectTo (address: Address, options: ClientOptions): Redis {
  return new Redis({ ...address, ...optionsOf(options), Connector: GivenConnector })
}

/** Connects to the server that `find` names, anew at every connection. */
export function connectFound (find: Find, options: ClientOptions): Redis {
  return new Redis({ ...optionsOf(options), Connector: connectorTo(find, tlsOf(options)) })
}

/** Leaves this connection for one to the right server. A connection that is being made is left alone. */
export function reconnect (client: Redis): void {
  if (client.status === 'ready') client.disconnect(true)
}

function optionsOf ({ name, commandTimeoutMs, username, password, database, ...rest }: ClientOptions): Omit<RedisOptions, 'replyMapping'> {
  const tls = tlsOf(rest)
  return {
    ...typeof username === 'string' && { username },
    ...typeof password === 'string' && { password },
    ...database !== undefined && database !== 0 && { db: database },
    ...tls !== undefined && { tls },
    connectionName: name,
    connectTimeout: CONNECT_MS_MAX,
    disconnectTimeout: GOODBYE_MS_MAX,
    commandTimeout: commandTimeoutMs,
    socketTimeout: SILENCE_MS_MAX,
    // The probe asks more (server.ts). The ready check would also wait in silence for a server that loads its data.
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // subscriptions.ts subscribes anew by itself, because it also knows what could not be subscribed before.
    autoResubscribe: false,
    // The batchers already combine what one tick sends.
    enableAutoPipelining: false,
    // After a failover the old primary is a replica. Reconnect to find the new one.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    retryStrategy: (times) => retryInMs(times, Math.random())
  }
}

function tlsOf ({ tls }: Credentials): ConnectionOptions | undefined {
  if (tls === undefined || tls === null) return undefined
  return Object.fromEntries(Object.entries(tls satisfies TlsMaterial).filter(([, value]) => value !== null))
}

/**
 * ioredis listens for one error of a stream. TLS can report two of them, that of a certificate and that of the bytes behind it, and the
 * second one would end the process.
 */
function withErrors (connector: AbstractConnector, stream: Socket): Socket {
  stream.once('error', (error) => { connector.firstError = error })
  stream.on('error', () => {})
  return stream
}

/** Connects to what the options say, as ioredis has read them from a URL. */
class GivenConnector extends AbstractConnector {
  readonly #options: RedisOptions

  constructor (options: unknown) {
    super(GOODBYE_MS_MAX)
    this.#options = options as RedisOptions
  }

  async connect (): Promise<Socket> {
    this.connecting = true
    // ioredis may be told to disconnect in the same turn.
    await Promise.resolve()
    if (!this.connecting) throw new Error('closed meanwhile')
    const { path, host = 'localhost', port = REDIS_PORT, family, tls } = this.#options
    const at = path === undefined || path === null ? { host, port, ...family !== undefined && { family } } : { path }
    this.stream = withErrors(this, tls === undefined ? connectPlain(at) : connectTls({ ...at, ...tls }))
    return this.stream as Socket
  }
}

const REDIS_PORT = 6379

/** Looks until it finds an address, because ioredis gives up for ever on a client whose connector fails. */
function connectorTo (find: Find, tls: ConnectionOptions | undefined): NonNullable<RedisOptions['Connector']> {
  return class extends AbstractConnector {
    constructor () { super(GOODBYE_MS_MAX) }

    async connect (emit: (type: string, error: Error) => void): Promise<Socket> {
      this.connecting = true
      for (;;) {
        const address = await find().catch((error: Error) => error)
        if (!this.connecting) throw new Error('closed meanwhile')
        if (!(address instanceof Error)) {
          const stream = withErrors(this, tls === undefined ? connectPlain({ ...address }) : connectTls({ ...address, ...tls }))
          this.stream = stream
          return stream
        }
        emit('error', address)
        await sleep(FIND_AGAIN_MS, undefined, { ref: false })
      }
    }
  }
}

/** The user lacks the right. Every other error is no question of rights. */
export function isForbidden (error: unknown): error is Error {
  return error instanceof Error && error.message.startsWith('NOPERM')
}

function checkedUrl (url: string): string {
  if (/^rediss?:\/\/./.test(url)) return url
  throw new StartError('The Redis URL cannot be read: it should look like redis://user:password@host:6379/0.', 2)
}

/** What a server that answers says of itself: `evicts` keys when it is full. */
export interface ServerSays { readonly evicts: boolean }

/** `SET … NX GET` together. */
const VERSION_MIN = 7

/**
 * Why this server cannot be used, in one sentence. null: it can be used. Warns about settings that cost something. `onServer`
 * gets what the server says of itself.
 */
export async function wrongWith (
  client: Redis,
  inCluster: boolean,
  log: Log,
  onServer: (server: ServerSays) => void
): Promise<string | null> {
  const info = await client.info()
  const version = field(info, 'redis_version') ?? '0'
  if (Number.parseInt(version) < VERSION_MIN) return `Redis 7.0 or newer is needed, and this one is ${version}`
  if (field(info, 'cluster_enabled') === '1' && !inCluster) {
    return 'this Redis is a node of a cluster: name its nodes under stores.redis.cluster instead of one url'
  }
  const policy = field(info, 'maxmemory_policy')
  const evicts = policy !== undefined && policy !== 'noeviction' && field(info, 'maxmemory') !== '0'
  onServer({ evicts })
  if (evicts) {
    log.warn(
      { event: 'redis-evicts', maxmemoryPolicy: policy },
      'this Redis evicts keys when it is full: locks and copies may vanish, which costs database round trips; set maxmemory-policy noeviction'
    )
  }
  return null
}

function field (info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
}
