/**
 * One connection to Redis as this program uses it: nothing is queued while there is none, nothing is sent twice, nothing
 * waits long, and it comes back by itself. Also says once what is wrong with a server that answers.
 */
import { Redis } from 'ioredis'
import { StartError } from '../../errors.ts'
import type { Log } from '../../ports.ts'

export interface ClientOptions {
  readonly url: string
  /** Shown by CLIENT LIST. */
  readonly name: string
  readonly commandTimeoutMs: number
}

const CONNECT_MS_MAX = 2_000
/** Between tries; long enough for a server that is down, short enough for one that restarts. */
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 1_000
/** A connection that owes a reply this long is dead (a firewall that forgot it): time-outs alone would never reconnect. */
const SILENCE_MS_MAX = 5_000

/** Throws StartError (exit 2) for a URL that is none; never for a server that is not there. */
export function connectRedis (options: ClientOptions): Redis {
  const client = new Redis(checkedUrl(options.url), {
    connectionName: options.name,
    connectTimeout: CONNECT_MS_MAX,
    commandTimeout: options.commandTimeoutMs,
    socketTimeout: SILENCE_MS_MAX,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // wakes.ts subscribes anew by itself: it also knows what could not be subscribed before.
    autoResubscribe: false,
    // The lanes have gathered what one turn of the event loop sends; there is nothing left to combine.
    enableAutoPipelining: false,
    // After a failover the old primary is a replica: go and look for the new one.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    retryStrategy: (times) => Math.min(RECONNECT_MS_MIN * 2 ** Math.min(times, 10), RECONNECT_MS_MAX)
  })
  return client
}

/** EVAL with replies as bytes; ioredis has it and its types (6.0) do not. */
export function evalBuffer (client: Redis, script: string, keys: readonly string[], values: ReadonlyArray<Buffer | string | number>): Promise<unknown> {
  return (client as Redis & { evalBuffer: (...args: unknown[]) => Promise<unknown> }).evalBuffer(script, keys.length, ...keys, ...values)
}

function checkedUrl (url: string): string {
  if (/^rediss?:\/\/./.test(url)) return url
  throw new StartError('The Redis URL cannot be read: it should look like redis://user:password@host:6379/0.', 2)
}

/** `SET … NX GET` together. */
const VERSION_MIN = 7

/** false: this server cannot be used. Warns about what it can be used with, at a price. */
export async function checkServer (client: Redis, log: Log): Promise<boolean> {
  const info = await client.info()
  const version = field(info, 'redis_version') ?? '0'
  if (Number.parseInt(version) < VERSION_MIN) {
    log.warn({ version }, 'Redis 7.0 or newer is needed: going on without Redis')
    return false
  }
  const policy = field(info, 'maxmemory_policy')
  if (policy !== undefined && policy !== 'noeviction' && field(info, 'maxmemory') !== '0') {
    log.warn({ maxmemoryPolicy: policy }, 'this Redis evicts keys when it is full: locks and copies may vanish, which costs database round trips; set maxmemory-policy noeviction')
  }
  return true
}

function field (info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
}
