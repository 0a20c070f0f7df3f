/** The `stores.redis` block: its checks, and its policy. No message shows an address, because it may have a password. */
import { createSecureContext } from 'node:tls'
import { areAuthorities, isSound } from './certificates.ts'
import type { AddressConfig, RedisConfig, RedisTlsConfig } from './config.ts'
import { mistake } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import type { RedisFile, TlsFile } from './schema.ts'
import { parseDuration, parseSize } from './read/units.ts'

const REDIS_PORT = 6379
const SENTINEL_PORT = 26379
const PLACES = ['url', 'sentinel', 'cluster'] as const
const HERE: Path = ['stores', 'redis']

// ---------------------------------------------------------------- checks

export function checkRedis (redis: RedisFile): Mistake[] {
  const places = PLACES.filter((place) => redis[place] !== undefined)
  const [first, ...others] = places
  if (first === undefined) {
    return [mistake([...HERE, 'url'], 'is missing; the redis block needs one (redis://host:6379), or sentinel, or cluster', 'key')]
  }
  return [
    ...others.map((place) => mistake([...HERE, place], `conflicts with ${first}: set only one of url, sentinel and cluster`, 'key')),
    ...(redis.url === undefined ? [] : checkUrl(redis.url, redis)),
    ...(redis.sentinel === undefined ? [] : checkSentinel(redis.sentinel)),
    ...(redis.cluster === undefined ? [] : checkCluster(redis.cluster, redis)),
    ...(redis.url === undefined ? checkCredentials(HERE, redis) : []),
    ...checkTls([...HERE, 'tls'], redis.tls)
  ]
}

function checkUrl (url: string, { username, password, database, tls }: RedisFile): Mistake[] {
  const scheme = URL.canParse(url) ? new URL(url).protocol : null
  if (scheme !== 'redis:' && scheme !== 'rediss:') return [mistake([...HERE, 'url'], 'is no redis URL; write redis://host:6379')]
  const inUrl = Object.entries({ username, password, database }).filter(([, value]) => value !== undefined)
  return [
    ...inUrl.map(([name]) => mistake([...HERE, name], 'belongs in the url: redis://username:password@host:6379/database', 'key')),
    ...(tls !== undefined && scheme === 'redis:' ? [mistake([...HERE, 'tls'], 'needs rediss:// in the url', 'key')] : [])
  ]
}

function checkSentinel ({ nodes, tls, ...credentials }: NonNullable<RedisFile['sentinel']>): Mistake[] {
  const path = [...HERE, 'sentinel']
  return [
    ...(nodes ?? []).flatMap((text, index) => {
      const node = readNode(text, SENTINEL_PORT)
      if ('wrong' in node) return [mistake([...path, 'nodes', index], node.wrong)]
      return node.scheme === null
        ? []
        : [mistake([...path, 'nodes', index], 'is a sentinel\'s address; write host:26379 (and tls beside nodes, if they speak TLS)')]
    }),
    ...checkCredentials(path, credentials),
    ...checkTls([...path, 'tls'], tls)
  ]
}

function checkCluster (nodes: readonly string[], { database, tls }: RedisFile): Mistake[] {
  const path = [...HERE, 'cluster']
  const read = nodes.map((text) => readNode(text, REDIS_PORT))
  const secure = read.some((node) => 'scheme' in node && node.scheme === 'rediss:')
  return [
    ...read.flatMap((node, index) => {
      if ('wrong' in node) return [mistake([...path, index], node.wrong)]
      return node.scheme === 'redis:' && (secure || tls !== undefined)
        ? [mistake([...path, index], 'is without TLS, but other nodes use it: all nodes must use it, or none')]
        : []
    }),
    ...(database === undefined || database === 0
      ? []
      : [mistake([...HERE, 'database'], 'cannot be chosen: a cluster has database 0 alone', 'key')])
  ]
}

function checkCredentials (
  path: Path,
  { username, password }: { username?: string | undefined, password?: string | undefined }
): Mistake[] {
  return username === undefined || password !== undefined ? [] : [mistake([...path, 'username'], 'needs a password beside it', 'key')]
}

function checkTls (path: Path, tls: TlsFile | undefined): Mistake[] {
  if (tls === undefined) return []
  const { ca, cert, key } = tls
  if ((cert === undefined) !== (key === undefined)) {
    return [mistake([...path, cert === undefined ? 'key' : 'cert'], 'is one half of a certificate: cert and key go together', 'key')]
  }
  return [
    ...(ca === undefined || areAuthorities(ca) ? [] : [mistake([...path, 'ca'], 'is no certificate in PEM')]),
    ...(cert === undefined || key === undefined || isSound(() => { createSecureContext({ cert, key }) })
      ? []
      : [mistake([...path, 'cert'], 'and key are no certificate in PEM with its own key')])
  ]
}

type Node = { readonly address: AddressConfig, readonly scheme: 'redis:' | 'rediss:' | null } | { readonly wrong: string }

/** Reads `host`, `host:port` or `redis[s]://host:port`. */
function readNode (text: unknown, defaultPort: number): Node {
  const wrong = { wrong: `is no address of a node; write host:${defaultPort}` }
  // The schema has reported it already.
  if (typeof text !== 'string') return { address: { host: '', port: 0 }, scheme: null }
  const scheme = /^(rediss?:)\/\//.exec(text)?.[1] as 'redis:' | 'rediss:' | undefined ?? null
  const written = scheme === null ? `redis://${text}` : text
  if (!URL.canParse(written) || (scheme === null && text.includes('//'))) return wrong
  const { hostname, port, username, password, pathname, search, hash } = new URL(written)
  if (username !== '' || password !== '') return { wrong: 'has credentials in it; write username and password beside it' }
  if (hostname === '' || !['', '/'].includes(pathname) || search !== '' || hash !== '' || port === '0') return wrong
  return { address: { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? defaultPort : Number(port) }, scheme }
}

// ---------------------------------------------------------------- policy

/** `redis` has passed checkRedis. */
export function redisOf (redis: RedisFile | undefined): RedisConfig | null {
  if (redis === undefined) return null
  const { url, sentinel, cluster, username, password, database, tls, prefix, copies } = redis
  const secure = cluster?.some((text) => text.startsWith('rediss:')) === true
  return {
    url: url ?? null,
    sentinel: sentinel === undefined
      ? null
      : {
          name: sentinel.name,
          nodes: sentinel.nodes.map((text) => addressOf(text, SENTINEL_PORT)),
          username: sentinel.username ?? null,
          password: sentinel.password ?? null,
          tls: tlsOf(sentinel.tls)
        },
    cluster: cluster?.map((text) => addressOf(text, REDIS_PORT)) ?? null,
    username: username ?? null,
    password: password ?? null,
    database: database ?? 0,
    tls: tlsOf(tls ?? (secure ? {} : undefined)),
    prefix,
    copies: { ttlMs: exact(parseDuration(copies.ttl)), bytesMax: exact(parseSize(copies.bytesMax)) }
  }
}

function tlsOf (tls: TlsFile | undefined): RedisTlsConfig | null {
  return tls === undefined ? null : { ca: tls.ca ?? null, cert: tls.cert ?? null, key: tls.key ?? null, servername: tls.servername ?? null }
}

function addressOf (text: string, defaultPort: number): AddressConfig {
  const node = readNode(text, defaultPort)
  if ('wrong' in node) throw new Error(`an address that ${node.wrong}: the check let it pass`)
  return node.address
}

function exact (value: number | null): number {
  if (value === null) throw new Error('a unit is wrong: the check let it pass')
  return value
}
