/**
 * The shape of the configuration file, with descriptions and defaults: the one place that docs/reference/configuration.md, the JSON
 * Schema for editors and the validator are made from. It knows nothing that this version does not do (see later.ts).
 */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { Cors } from './cors.ts'
import { LOG_LEVELS } from './config.ts'
import { KEY_SECRET_BYTES_MIN } from '../core/issued-keys.ts'
import { SECRET_BYTES_MIN } from '../core/schemes.ts'
import { Jwt, NAME_PATTERN, RouteSchema, Scope } from './schema-route.ts'
import { TOKEN_PATTERN, duration, headerFields, secret, shape, size, url } from './schema-words.ts'
import type { Mask } from './schema-words.ts'

/** More processes than any machine has processors for; each one has its own connections to the database. */
export const WORKERS_MAX = 256

const Port = (value: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65535, default: value, description })

const Listen = Type.Object({
  host: Type.String({ minLength: 1, default: '0.0.0.0', description: 'Address to listen on.' }),
  port: Port(8080, 'Port to listen on; 0: a free one.')
}, { ...shape, default: {}, description: 'Where clients come in.' })

const Admin = Type.Object({
  host: Type.String({ minLength: 1, default: '127.0.0.1', description: 'Address of the admin port.' }),
  port: Port(8081, 'Port of /livez, /readyz and /metrics; 0: a free one.'),
  hosts: Type.Array(Type.String({ minLength: 1 }), { default: [], description: 'Names by which the admin port may be asked, beside addresses, localhost and `host`. Any other Host gets 421, but for /livez, /readyz and /metrics.' }),
  token: secret('For the operator API, which this version does not have: it guards nothing yet, and never probes or metrics. At least 16 characters.', { minLength: 16 }),
  tokenFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds the token.' })),
  readiness: Type.Enum(['lenient', 'strict'], { default: 'lenient', description: 'When a store is lost after the start, /readyz says 200 with `degraded` (lenient) or 503 (strict).' })
}, { ...shape, default: {}, description: 'The admin port. It never shadows a path of an upstream.' })

const Postgres = Type.Object({
  url: Type.Optional(url('postgres://user:password@host:5432/database. Also from ONCEWAY_DATABASE_URL, else DATABASE_URL.')),
  urlFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds the URL.' })),
  schema: Type.String({ pattern: '^[a-z_][a-z0-9_]{0,62}$', default: 'onceway', description: 'Schema of the tables; made by the first migration.' }),
  tls: Type.Optional(Type.Object({
    caFile: Type.Optional(Type.String({ minLength: 1, description: 'PEM file of the authority that signed the server\'s certificate. Absent: the authorities that Node knows.' })),
    certFile: Type.Optional(Type.String({ minLength: 1, description: 'PEM file of a client certificate, for a server that asks for one.' })),
    keyFile: Type.Optional(Type.String({ minLength: 1, description: 'PEM file of its key.' }))
  }, { ...shape, description: 'Speak TLS, and check the server\'s certificate and its name. Absent: as `sslmode` in the URL says. File names are relative to this file; they are read at start.' })),
  prepared: Type.Boolean({ default: true, description: 'Use named statements. Set false behind a PgBouncer before 1.21 in transaction mode.' }),
  migrate: Type.Enum(['auto', 'check'], { default: 'auto', description: 'auto: apply what is missing at start. check: refuse to start when something is missing (then run `onceway migrate`).' }),
  claimTimeout: duration('2s', 'How long a claim may take before the caller gets 503 and nothing is sent.')
}, { ...shape, description: 'The durable store. Absent: the embedded SQLite under `dataDir`, one process only.' })

const Text = (description: string) => Type.Optional(Type.String({ minLength: 1, description }))

/** A function: nodes and sentinels have one each, of their own. */
const Tls = (description: string) => Type.Optional(Type.Object({
  // People put a key beside its certificate in one file, and that file everywhere.
  ca: secret('The authority (in PEM) that has signed the servers\' certificates, instead of those that the system knows.'),
  caFile: Text('A file that holds it.'),
  cert: secret('Our own certificate (in PEM), where the servers ask for one.'),
  certFile: Text('A file that holds it.'),
  key: secret('The key of our own certificate (in PEM).'),
  keyFile: Text('A file that holds it.'),
  servername: Text('The name that the servers\' certificates are checked against, instead of each one\'s host.')
}, { ...shape, description }))

const Redis = Type.Object({
  url: Type.Optional(url('redis://host:6379 or rediss://user:password@host:6380/0. Also from ONCEWAY_REDIS_URL, else REDIS_URL.')),
  urlFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds the URL.' })),
  sentinel: Type.Optional(Type.Object({
    name: Type.String({ minLength: 1, maxLength: 256, description: 'Of the master, as the sentinels call it.' }),
    nodes: Type.Array(Type.String({ minLength: 1, mask: 'url' satisfies Mask }), { minItems: 1, maxItems: 64, description: 'All sentinels, host:port. What most of them say counts.' }),
    username: Text('Who we are to the sentinels.'),
    password: secret('The password for the sentinels.'),
    passwordFile: Text('A file that holds it.'),
    tls: Tls('The sentinels speak TLS.')
  }, { ...shape, description: 'Instead of `url`: sentinels, who know which server is the master.' })),
  cluster: Type.Optional(Type.Array(Type.String({ minLength: 1, mask: 'url' satisfies Mask }), { minItems: 1, maxItems: 64, description: 'Instead of `url`: some nodes of a Redis Cluster, host:port or rediss://host:port. They know the others.' })),
  username: Text('Who we are to the servers behind `sentinel` or `cluster`.'),
  password: secret('The password for them.'),
  passwordFile: Text('A file that holds it.'),
  database: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Number of the database behind `sentinel`; 0 if it is not given.' })),
  tls: Tls('The servers speak TLS; with `url`: what is special about it (rediss:// switches it on).'),
  prefix: Type.String({ pattern: '^[A-Za-z0-9._:-]{1,64}$', default: 'onceway', description: 'Start of every Redis key.' }),
  copies: Type.Object({
    ttl: duration('10m', 'How long a copy of a settled answer stays in Redis. The row in the database is the memory.'),
    bytesMax: size('64KiB', 'Largest answer that is copied to Redis.')
  }, { ...shape, default: {}, description: 'Short-lived copies of settled answers.' })
}, { ...shape, description: 'The fast path: in-flight duplicates and copies. Used with Postgres only. Absent: claims in the database alone. Losing it costs speed, never safety.' })

const Upstream = Type.Object({
  url: url('http://host:port or https://host:port, nothing behind it.'),
  timeout: duration('5m', 'Hard limit of one execution.'),
  connectTimeout: duration('2s', 'Limit of connecting.'),
  keepAlive: duration('4s', 'How long an idle connection is kept; shorter than the upstream\'s own. 0s: every guarded request has a connection of its own, for an upstream that answers more often than it is asked.'),
  connections: Type.Integer({ minimum: 1, maximum: 65535, default: 512, description: 'Connections for guarded requests and deliveries at most. More requests wait, for as long as `timeout`: client addresses take turns, and of each its callers. Who has waited in vain gets 503 `overloaded`, or 429 beyond its share.' }),
  passThrough: Type.Integer({ minimum: 1, maximum: 65535, default: 1024, description: 'Requests and tunnels (WebSockets) at once that pass through, each with a connection of its own. More wait for `connectTimeout`, then get 503 `overloaded`.' }),
  idleTimeout: duration('5m', 'Of what passes through: the longest that this server may be silent, before an answer or between two pieces of it, or does not read. Then 504, or the connection is cut.'),
  host: Type.Enum(['upstream', 'preserve'], { default: 'upstream', description: 'The Host header: the upstream\'s own, or the client\'s. With preserve two hosts are two applications: the host is part of what a record is found by.' }),
  hops: Type.Enum(['possible', 'none'], { default: 'possible', description: 'Whether a proxy, a balancer or a platform\'s router may answer in this server\'s place. none: nothing stands between, so that each of its 503 and 408 says "not processed", and frees the key (profile api).' }),
  applicationHeader: Type.Optional(Type.String({ pattern: TOKEN_PATTERN, description: 'A response header that the application itself sets on every answer, and no hop. Only with it a 503 or 408 is the application\'s; Retry-After and a JSON body, which show it otherwise, count no more.' })),
  ca: secret('The authority (in PEM; several one behind the other) that has signed this server\'s certificate, instead of those that Node knows. For an https:// url.'),
  caFile: Text('A file that holds it. Read at start and with every reload.'),
  requestHeaders: headerFields('value', 'Headers set on every request to this upstream.')
}, { ...shape, description: 'A server behind the gateway.' })

const IssuedKeys = Type.Object({
  scope: Scope('Whose key it is, as on a route. Routes that require issued keys have the same.'),
  jwt: Type.Optional(Jwt),
  secrets: Type.Array(Type.Object({
    id: Type.String({ pattern: '^[A-Za-z0-9_-]{1,32}$', description: 'Stands in every key that it signs. Another secret has another id.' }),
    secret: secret('What keys are signed with: at least 32 bytes that nobody can guess (`openssl rand -base64 32`).', { minLength: KEY_SECRET_BYTES_MIN, maxLength: 1024 }),
    secretFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds it.' }))
  }, { ...shape, description: 'One secret.' }), { minItems: 1, maxItems: 16, description: 'The first signs, all verify.' }),
  lifetime: duration('12h', 'How long a key can be used after it was given out. The `retention` of routes that require issued keys is at least five minutes longer.')
}, { ...shape, description: 'Keys that the gateway gives out: POST /.well-known/idempotency-keys answers with one. Absent: that path is a path like any other. See docs/guides/issued-keys.md.' })

export const ConfigSchema = Type.Object({
  version: Type.Literal(1, { description: 'Version of this format: 1.' }),
  dataDir: Type.String({ minLength: 1, default: './.onceway', description: 'Directory of the embedded store, relative to the working directory.' }),
  problemBaseUri: Type.String({ minLength: 1, maxLength: 512, default: 'urn:onceway:problem:', description: 'The `type` of a problem is this plus its code.' }),
  secret: secret(`What record ids and hashes of keys and callers are keyed with, so that nobody can search a copy of the database for weak keys and credentials: at least ${SECRET_BYTES_MIN} bytes that nobody can guess (\`openssl rand -base64 32\`), the same in every gateway. Absent: with Postgres they are plain hashes; the embedded store makes a secret beside itself. It takes effect with \`onceway ids upgrade\`, or in a new database at once. See docs/concepts/identity.md.`),
  secretFile: Text('A file that holds it.'),
  previousSecret: secret('The one before, until `onceway ids` says that nothing of it is left.'),
  previousSecretFile: Text('A file that holds it.'),
  listen: Listen,
  admin: Admin,
  trustProxies: Type.Array(Type.String(), { default: [], maxItems: 256, description: 'Addresses and CIDR blocks of proxies in front, whose X-Forwarded-* are believed.' }),
  stores: Type.Object({
    postgres: Type.Optional(Postgres),
    redis: Type.Optional(Redis)
  }, { ...shape, default: {}, description: 'Where records live.' }),
  workers: Type.Union([
    Type.Literal('auto'),
    Type.Integer({ minimum: 1, maximum: WORKERS_MAX })
  ], { default: 1, description: 'Processes that serve; with Postgres only. auto: one for each processor this process may use; with the embedded store one.' }),
  limits: Type.Object({
    executions: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 10_000, description: 'Executions at once; more get 503 `overloaded`.' }),
    waiters: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 10_000, description: 'Clients that wait for somebody else\'s execution at once; more get the in-flight answer at once.' }),
    inFlightPerScope: Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0, description: 'Guarded requests of one caller (the same scope, whatever the route) at once, and the executions that they began; more get 429 `too-many-in-flight`. Callers without a scope of their own share one. 0: no bound.' }),
    bufferedBytes: size('256MiB', 'Bytes of bodies in memory at once; more get 503 `overloaded`. A stored answer is not begun without room for all of it: a retry gets it.'),
    unsettledBytes: size('64MiB', 'Bytes of answers that wait for a store that is down; at it guarded requests get 503 `overloaded`.'),
    recentBytes: size('32MiB', 'Settled answers kept in memory, in bytes; the oldest make room. 0B: every replay is looked up in Redis or the store.'),
    connections: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 20_000, description: 'Client connections at once, idle ones too; more are closed as they come in.' }),
    share: Type.Number({ minimum: 0.05, maximum: 1, default: 0.75, description: 'Of executions, waiters, bufferedBytes, connections, and an upstream\'s connections and passThrough: the part that one caller, or one client address (behind trustProxies; of IPv6 its /64), may have while nobody else has any. Whoever comes finds room: nobody gets more than share / (1 - share) times what is free. Beyond its share a request gets 429 `too-many-in-flight`, a connection is closed; who waits for an execution is told that it is in flight; for an upstream\'s connection or passThrough it waits first. 1: no shares.' }),
    requestBody: duration('1m', 'By then the body of a guarded request must be whole; else 408 `request-timeout`.'),
    clientIdle: duration('30s', 'The longest that a client may stop in the middle of its request\'s body, or not read its answer: up to twice that, where some of the answer was taken meanwhile. Then 408, or its connection is closed.'),
    tunnelIdle: duration('5m', 'The longest that the gateway sees nothing move at one end of a tunnel (WebSocket), in either direction. Then both are closed.'),
    eventLoopDelay: duration('1s', 'How late the event loop may be; while it is later, every request gets 503 `overloaded` before anything is claimed. 0s: never.')
  }, { ...shape, default: {}, description: 'Bounds of one process: with several workers each has all of them.' }),
  drain: Type.Object({
    delay: duration('5s', 'After SIGTERM: how long it still serves as before, until the load balancers have noticed. Without a file and on this machine alone: `0s`.'),
    timeout: duration('60s', 'How long it waits for executions to end.')
  }, { ...shape, default: {}, description: 'Stopping.' }),
  log: Type.Object({
    level: Type.Enum([...LOG_LEVELS], { default: 'info', description: 'Least severe level that is logged.' })
  }, { ...shape, default: {}, description: 'Logs: JSON lines on stdout; never keys, credentials, bodies or query strings.' }),
  issuedKeys: Type.Optional(IssuedKeys),
  cors: Type.Optional(Cors),
  upstreams: Type.Record(Type.String({ pattern: NAME_PATTERN }), Upstream, { ...shape, minProperties: 1, description: 'The servers behind the gateway, by name.' }),
  routes: Type.Array(RouteSchema, { minItems: 1, maxItems: 1000, description: 'The first route that matches wins. A request that none matches gets 404 `no-route`.' })
}, { ...shape, title: 'onceway configuration', description: 'Configuration of the onceway idempotency gateway.' })

/** The file with every default filled in, before units are resolved. */
export type ConfigFile = Static<typeof ConfigSchema>
export type UpstreamFile = Static<typeof Upstream>
export type IssuedKeysFile = Static<typeof IssuedKeys>
export type RedisFile = Static<typeof Redis>
export type TlsFile = NonNullable<RedisFile['tls']>

/** A JSON Schema as a plain tree. */
export interface SchemaNode {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly const?: unknown
  readonly mask?: Mask
  readonly writeOnly?: boolean
  readonly minLength?: number
  readonly maxLength?: number
  readonly enum?: readonly unknown[]
  readonly pattern?: string
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>
  readonly items?: SchemaNode
  readonly anyOf?: readonly SchemaNode[]
  readonly required?: readonly string[]
}

/** The schema as a file must satisfy it: what has a default need not be there. */
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
