/**
 * The schema of the configuration file, with descriptions and defaults. The validator, docs/reference/configuration.md and the JSON Schema
 * for editors are made from it. Settings of later versions are in unsupported.ts.
 */
import { AdminAuth } from './admin-auth.ts'
import { ACCESS_DEFAULTS, ACCESS_FIELDS, LOG_LEVELS } from './config.ts'
import { Cors } from './cors.ts'
import { ListenerTls } from './listener-tls.ts'
import { duration, headerFields, NAME_PATTERN, secret, shape, size, TOKEN_PATTERN, url } from './read/schema-words.ts'
import type { Mask, SchemaNode } from './read/schema-words.ts'
import { Jwt, RouteSchema, Scope } from './routes/schema.ts'
import { KEY_SECRET_BYTES_MIN } from '../core/key/issued-keys.ts'
import { SECRET_BYTES_MIN } from '../core/record/schemes.ts'
import { Telemetry } from './telemetry.ts'
import { Type } from 'typebox'
import type { Static } from 'typebox'

/** Most worker processes. Each has its own connections to the database. */
export const WORKERS_MAX = 256

const Port = (value: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65535, default: value, description })

const Listen = Type.Object({
  host: Type.String({ minLength: 1, default: '0.0.0.0', description: 'Address to listen on.' }),
  port: Port(8080, 'Port to listen on. 0: any free port.'),
  tls: ListenerTls(['required', 'optional'], 'Speak HTTPS. Absent: plain HTTP. See docs/guides/tls.md.')
}, { ...shape, default: {}, description: 'The address for clients.' })

const Admin = Type.Object({
  host: Type.String({ minLength: 1, default: '127.0.0.1', description: 'Address of the admin port.' }),
  port: Port(8081, 'Port of /livez, /readyz and /metrics, of the operator API (/api/v1) and of the console (/). 0: any free port.'),
  tls: ListenerTls(['required'], 'The same for the admin port.'),
  hosts: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    description: 'Host names that the admin port accepts, besides IP addresses, localhost and `host`. Any other Host gets 421, except for /livez, /readyz and /metrics.'
  }),
  token: secret('A token of the operator API and the console with the role admin. The audit calls it `admin.token`. Probes and metrics need no token. At least 16 characters.', { minLength: 16 }),
  tokenFile: Type.Optional(Type.String({ minLength: 1, description: 'File with the token.' })),
  auth: AdminAuth,
  readiness: Type.Enum(['lenient', 'strict'], {
    default: 'lenient',
    description: 'If a store is lost after the start, /readyz answers 200 with `degraded` (lenient) or 503 (strict).'
  })
}, {
  ...shape,
  default: {},
  description: 'The admin port: probes, metrics, the operator API and the console. It never hides a path of an upstream.'
})

const Postgres = Type.Object({
  url: Type.Optional(url('postgres://user:password@host:5432/database. Also read from ONCEWAY_DATABASE_URL, else DATABASE_URL.')),
  urlFile: Type.Optional(Type.String({
    minLength: 1,
    description: 'File with the URL. New connections read it again, and take a changed user or password.'
  })),
  schema: Type.String({
    pattern: '^[a-z_][a-z0-9_]{0,62}$',
    default: 'onceway',
    description: 'Schema of the tables. The first migration creates it.'
  }),
  tls: Type.Optional(Type.Object({
    caFile: Type.Optional(Type.String({
      minLength: 1,
      description: 'PEM file of the authority that signed the server\'s certificate. Absent: the authorities that Node trusts.'
    })),
    certFile: Type.Optional(Type.String({ minLength: 1, description: 'PEM file of a client certificate, if the server requires one.' })),
    keyFile: Type.Optional(Type.String({ minLength: 1, description: 'PEM file of the client certificate\'s key.' }))
  }, { ...shape, description: 'Use TLS, and verify the server\'s certificate and name. Absent: as `sslmode` in the URL says. File names are relative to this file. They are read at start.' })),
  prepared: Type.Boolean({
    default: true,
    description: 'Use named prepared statements. Set false behind PgBouncer before 1.21 in transaction mode.'
  }),
  migrate: Type.Enum(['auto', 'check'], {
    default: 'auto',
    description: 'auto: apply missing migrations at start. check: refuse to start if one is missing (then run `onceway migrate`).'
  }),
  patroni: Type.Array(Type.String({ pattern: '^https?://[^/?#@\\s]+/?$' }), {
    maxItems: 16,
    default: [],
    description: 'REST addresses of Patroni\'s members, such as http://10.0.0.1:8008. The gateway reads there whether a failover keeps every acknowledged commit. See docs/guides/deploy-for-high-availability.md.'
  }),
  claimTimeout: duration('2s', 'Timeout of a claim. After it the caller gets 503, and nothing is sent.')
}, { ...shape, description: 'The durable store. Absent: embedded SQLite under `dataDir`, for one process only.' })

const Text = (description: string) => Type.Optional(Type.String({ minLength: 1, description }))

/** A function, because nodes and sentinels each have their own block. */
const Tls = (description: string) => Type.Optional(Type.Object({
  // Masked like a secret: people put the private key into the same file as its certificate.
  ca: secret('The authority (PEM) that signed the servers\' certificates, instead of those that the system trusts.'),
  caFile: Text('File with `ca`.'),
  cert: secret('The gateway\'s own certificate (PEM), if the servers require one.'),
  certFile: Text('File with `cert`.'),
  key: secret('The key (PEM) of the gateway\'s own certificate.'),
  keyFile: Text('File with `key`.'),
  servername: Text('The name to verify in the servers\' certificates, instead of each server\'s host.')
}, { ...shape, description }))

const Redis = Type.Object({
  url: Type.Optional(url('redis://host:6379 or rediss://user:password@host:6380/0. Also read from ONCEWAY_REDIS_URL, else REDIS_URL.')),
  urlFile: Type.Optional(Type.String({ minLength: 1, description: 'File with the URL.' })),
  sentinel: Type.Optional(Type.Object({
    name: Type.String({ minLength: 1, maxLength: 256, description: 'The master\'s name at the sentinels.' }),
    nodes: Type.Array(Type.String({ minLength: 1, mask: 'url' satisfies Mask }), {
      minItems: 1,
      maxItems: 64,
      description: 'All sentinels as host:port. The majority decides.'
    }),
    username: Text('User name at the sentinels.'),
    password: secret('Password at the sentinels.'),
    passwordFile: Text('File with `password`.'),
    tls: Tls('Use TLS with the sentinels.')
  }, { ...shape, description: 'Instead of `url`: sentinels, which name the master.' })),
  cluster: Type.Optional(
    Type.Array(Type.String({ minLength: 1, mask: 'url' satisfies Mask }), {
      minItems: 1,
      maxItems: 64,
      description: 'Instead of `url`: some nodes of a Redis Cluster, as host:port or rediss://host:port. They know the others.'
    })
  ),
  username: Text('User name at the servers behind `sentinel` or `cluster`.'),
  password: secret('Password at those servers.'),
  passwordFile: Text('File with `password`.'),
  database: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: 1_000_000,
    description: 'Number of the database behind `sentinel`. Default: 0.'
  })),
  tls: Tls('Use TLS with the servers. With `url`, rediss:// enables TLS, and this has its details.'),
  prefix: Type.String({ pattern: '^[A-Za-z0-9._:-]{1,64}$', default: 'onceway', description: 'Prefix of every Redis key.' }),
  copies: Type.Object({
    ttl: duration('10m', 'How long a copy of a settled answer stays in Redis. The record in the database stays longer.'),
    bytesMax: size('64KiB', 'Largest answer that is copied to Redis.')
  }, { ...shape, default: {}, description: 'Short-lived copies of settled answers.' })
}, { ...shape, description: 'The fast path for duplicates in flight and replays. Used with Postgres only. Absent: the database does it alone. Losing Redis costs speed, never safety.' })

const Upstream = Type.Object({
  url: url('http://host:port or https://host:port, without a path.'),
  timeout: duration('5m', 'Hard limit of one execution.'),
  connectTimeout: duration('2s', 'Timeout for connecting.'),
  keepAlive: duration('4s', 'How long an idle connection is kept. It must be shorter than the upstream\'s own keep-alive. 0s: every guarded request gets a new connection, for an upstream that sends surplus answers.'),
  connections: Type.Integer({
    minimum: 1,
    maximum: 65535,
    default: 512,
    description: 'Maximum of connections for guarded requests and deliveries. More requests wait, for at most `timeout`. Client addresses take turns, and within each its callers. After that they get 503 `overloaded`, or 429 beyond their share.'
  }),
  passThrough: Type.Integer({
    minimum: 1,
    maximum: 65535,
    default: 1024,
    description: 'Maximum of unguarded requests and tunnels (WebSockets) in flight. Each has a connection of its own. More wait for `connectTimeout`, then get 503 `overloaded`.'
  }),
  idleTimeout: duration('5m', 'For unguarded requests: how long this server may be silent or not read, before or within an answer. After that the client gets 504, or its connection is closed.'),
  host: Type.Enum(['upstream', 'preserve'], {
    default: 'upstream',
    description: 'The Host header: the upstream\'s own, or the client\'s (preserve). With preserve, the host is part of a record\'s identity: two hosts are two applications.'
  }),
  hops: Type.Enum(['possible', 'none'], {
    default: 'possible',
    description: 'Whether a proxy or load balancer may answer instead of this server. none: there is none, so each 503 and 408 means "not processed" and frees the key (profile api).'
  }),
  applicationHeader: Type.Optional(Type.String({
    pattern: TOKEN_PATTERN,
    description: 'A response header that the application sets on every answer, and no hop does. Then only a 503 or 408 with this header is the application\'s. Retry-After and a JSON body no longer count.'
  })),
  ca: secret(
    'The authority (PEM, several in a row) that signed this server\'s certificate, instead of those that Node trusts. For an https:// url.'
  ),
  caFile: Text('File with `ca`. Read at start and at every reload.'),
  requestHeaders: headerFields('value', 'Headers that the gateway sets on every request to this upstream.')
}, { ...shape, description: 'A server behind the gateway.' })

const IssuedKeys = Type.Object({
  scope: Scope('Whose key it is, as on a route. Routes that require issued keys must have the same scope.'),
  jwt: Type.Optional(Jwt),
  secrets: Type.Array(Type.Object({
    id: Type.String({
      pattern: '^[A-Za-z0-9_-]{1,32}$',
      description: 'Part of every key that this secret signs. Each secret needs its own id.'
    }),
    secret: secret('The signing secret: at least 32 random bytes (`openssl rand -base64 32`).', {
      minLength: KEY_SECRET_BYTES_MIN,
      maxLength: 1024
    }),
    secretFile: Type.Optional(Type.String({ minLength: 1, description: 'File with `secret`.' }))
  }, { ...shape, description: 'One secret.' }), { minItems: 1, maxItems: 16, description: 'The first secret signs. All of them verify.' }),
  lifetime: duration(
    '12h',
    'How long an issued key is valid. The `retention` of routes that require issued keys must be at least five minutes longer.'
  )
}, { ...shape, description: 'Keys that the gateway issues: POST /.well-known/idempotency-keys returns one. Absent: that path passes through like any other. See docs/guides/issued-keys.md.' })

export const ConfigSchema = Type.Object({
  version: Type.Literal(1, { description: 'Version of this format: 1.' }),
  dataDir: Type.String({
    minLength: 1,
    default: './.onceway',
    description: 'Directory of the embedded store, relative to the working directory.'
  }),
  problemBaseUri: Type.String({
    minLength: 1,
    maxLength: 512,
    default: 'urn:onceway:problem:',
    description: 'Prefix of a problem\'s `type`. The code follows it.'
  }),
  secret: secret(`Secret for record ids and for the hashes of keys and callers. Without it, a copy of the database can be searched for weak keys and credentials. At least ${SECRET_BYTES_MIN} random bytes (\`openssl rand -base64 32\`), the same in every gateway. Absent: Postgres has plain hashes, the embedded store creates a secret beside itself. A new secret takes effect with \`onceway ids upgrade\`, in a new database at once. See docs/concepts/identity.md.`),
  secretFile: Text('File with `secret`.'),
  previousSecret: secret('The previous secret, until `onceway ids` says that no record needs it.'),
  previousSecretFile: Text('File with `previousSecret`.'),
  listen: Listen,
  admin: Admin,
  trustProxies: Type.Array(Type.String(), {
    default: [],
    maxItems: 256,
    description: 'Addresses and CIDR blocks of proxies in front whose X-Forwarded-* headers are trusted.'
  }),
  stores: Type.Object({
    postgres: Type.Optional(Postgres),
    redis: Type.Optional(Redis)
  }, { ...shape, default: {}, description: 'Where records are stored.' }),
  workers: Type.Union([
    Type.Literal('auto'),
    Type.Integer({ minimum: 1, maximum: WORKERS_MAX })
  ], {
    default: 1,
    description: 'Number of worker processes, with Postgres only. auto: one per available processor, and one with the embedded store.'
  }),
  limits: Type.Object({
    executions: Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      default: 10_000,
      description: 'Maximum of executions in flight. More get 503 `overloaded`.'
    }),
    waiters: Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      default: 10_000,
      description: 'Maximum of clients that wait for another client\'s execution. More get the in-flight answer immediately.'
    }),
    inFlightPerScope: Type.Integer({
      minimum: 0,
      maximum: 1_000_000,
      default: 0,
      description: 'Maximum of guarded requests of one caller in flight, on all routes, with the executions that they started. More get 429 `too-many-in-flight`. Callers without a scope of their own share one. 0: no limit.'
    }),
    bufferedBytes: size('256MiB', 'Maximum of bytes of bodies in memory. More get 503 `overloaded`. A stored answer is not sent without room for all of it: a retry gets it.'),
    unsettledBytes: size(
      '64MiB',
      'Maximum of bytes of answers that wait for a store that is down. Each counts its body and 1 KiB. At the limit, guarded requests get 503 `overloaded`.'
    ),
    recentBytes: size(
      '32MiB',
      'Memory for settled answers. The oldest are evicted. 0B: every replay comes from Redis or the store.'
    ),
    connections: Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      default: 20_000,
      description: 'Maximum of client connections, idle ones included. More are closed immediately.'
    }),
    share: Type.Number({
      minimum: 0.05,
      maximum: 1,
      default: 0.75,
      description: 'The part of a limit that one caller, or one client address (behind trustProxies; an IPv6 /64), may use while no other uses any. It applies to executions, waiters, bufferedBytes, connections, and an upstream\'s connections and passThrough. None gets more than share / (1 - share) times what is free, so newcomers find room. Beyond its share a request gets 429 `too-many-in-flight`, a waiter gets the in-flight answer, and a connection is closed. For an upstream\'s connection or passThrough a request waits first. 1: no shares.'
    }),
    requestBody: duration('1m', 'Timeout for the whole body of a guarded request. After it: 408 `request-timeout`.'),
    clientIdle: duration('30s', 'How long a client may pause within its body, or not read its answer. After that it gets 408, or its connection is closed. It may take twice as long if some of the answer was read meanwhile.'),
    tunnelIdle: duration('5m', 'How long one end of a tunnel (WebSocket) may be silent in both directions. After that both are closed.'),
    eventLoopDelay: duration(
      '1s',
      'Maximum delay of the event loop. Beyond it, every request gets 503 `overloaded` before it claims anything. 0s: no limit.'
    )
  }, { ...shape, default: {}, description: 'Limits of one process. With several workers, each has all of them.' }),
  drain: Type.Object({
    delay: duration('5s', 'How long the gateway still serves after SIGTERM, until load balancers have noticed. `0s` without a file, if it listens on the loopback interface only.'),
    timeout: duration('60s', 'How long the gateway waits for executions to end.')
  }, { ...shape, default: {}, description: 'Shutdown.' }),
  log: Type.Object({
    level: Type.Enum([...LOG_LEVELS], { default: 'info', description: 'Least severe level that is logged.' }),
    access: Type.Object({
      sample: Type.Number({
        minimum: 0,
        maximum: 1,
        default: 0,
        description: 'The part of these requests that has a line. 1: each. 0: none. Guarded requests have a line of their own.'
      }),
      fields: Type.Array(Type.Enum([...ACCESS_FIELDS]), {
        minItems: 1,
        maxItems: ACCESS_FIELDS.length,
        default: [...ACCESS_DEFAULTS],
        description: 'Fields of the line. `path` is without the query. A path, `peer` (the client\'s address) and `userAgent` may tell who somebody is.'
      })
    }, {
      ...shape,
      default: {},
      description: 'Lines of requests that pass through, and of tunnels, with the event `passed`. They need `level: info`.'
    })
  }, { ...shape, default: {}, description: 'Logs are JSON lines on stdout, without keys, credentials, bodies or query strings.' }),
  telemetry: Telemetry,
  issuedKeys: Type.Optional(IssuedKeys),
  cors: Type.Optional(Cors),
  upstreams: Type.Record(Type.String({ pattern: NAME_PATTERN }), Upstream, {
    ...shape,
    minProperties: 1,
    description: 'The servers behind the gateway, by name.'
  }),
  routes: Type.Array(RouteSchema, {
    minItems: 1,
    maxItems: 1000,
    description: 'The first route that matches wins. If none matches, the request gets 404 `no-route`.'
  })
}, { ...shape, title: 'onceway configuration', description: 'Configuration of the onceway idempotency gateway.' })

/** The file with every default, before units are resolved. */
export type ConfigFile = Static<typeof ConfigSchema>

export type UpstreamFile = Static<typeof Upstream>

export type IssuedKeysFile = Static<typeof IssuedKeys>

export type RedisFile = Static<typeof Redis>

export type TlsFile = NonNullable<RedisFile['tls']>

/** The schema of a file as written: members with a default are not required. */
export function fileSchema (node: SchemaNode = ConfigSchema as unknown as SchemaNode): SchemaNode {
  const each = (nodes: Readonly<Record<string, SchemaNode>>) =>
    Object.fromEntries(Object.entries(nodes).map(([name, child]) => [name, fileSchema(child)]))
  const required = node.required?.filter((name) => node.properties?.[name]?.default === undefined)
  const { required: _, ...rest } = node
  return {
    ...rest,
    ...(node.properties && { properties: each(node.properties) }),
    ...(node.patternProperties && { patternProperties: each(node.patternProperties) }),
    ...(node.items && { items: fileSchema(node.items) }),
    ...(node.anyOf && { anyOf: node.anyOf.map(fileSchema) }),
    ...(required && required.length > 0 && { required })
  }
}
