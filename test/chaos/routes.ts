/**
 * The routes of a run and the gateways' configuration: `hold`, `retry` and `probe`, one on which duplicates wait, and one with few
 * connections, so that sendings queue. The meaning of each status is repeated here in a table, because the checker must not use the
 * code that it checks.
 */
import type { Disposition, UnknownPolicy } from '../../src/core/policy/policy.ts'

export interface ChaosRoute {
  readonly name: string
  readonly unknown: UnknownPolicy
  readonly profile: 'api' | 'relay'
  /** Whether another body under the same key makes another request. */
  readonly comparesBody: boolean
  readonly weight: number
  readonly upstream: 'wide' | 'narrow'
  /** Mode drop, and the place of its marks. Absent: mode enforce. */
  readonly drop?: 'database' | 'redis'
  /** Executes under some configurations and accepts under others (differ.ts). */
  readonly switches?: true
  /** More of its `idempotency` block. */
  readonly more: string
}

export const UPSTREAM_TIMEOUT_MS = 6_000
/** The witness answers probes there. */
export const LOOKUP_PATH = '/lookup/'

const route = (name: string, unknown: UnknownPolicy, weight: number, upstream: 'wide' | 'narrow', more = ''): ChaosRoute =>
  ({ name, unknown, profile: 'api', comparesBody: true, weight, upstream, more })

function dropping (name: string, drop: 'database' | 'redis', weight: number): ChaosRoute {
  return {
    name,
    unknown: 'retry',
    profile: 'relay',
    comparesBody: false,
    weight,
    upstream: 'wide',
    drop,
    more: `, profile: relay, mode: drop, drop: { store: ${drop}, window: 24h }, inFlight: { wait: 1s }`
  }
}

export const ROUTES: readonly ChaosRoute[] = [
  route('hold', 'hold', 30, 'wide', ', inFlight: { wait: 0s }'),
  route('wait', 'hold', 15, 'narrow', ', inFlight: { wait: 2s }'),
  route('retry', 'retry', 20, 'narrow', ', unknown: retry, inFlight: { wait: 0s }'),
  route('probe', 'probe', 15, 'wide', `, unknown: probe, probe: { path: "${LOOKUP_PATH}{record}", timeout: 1s, interval: 300ms, confirmAfter: ${UPSTREAM_TIMEOUT_MS}ms, found: { replayStatus: 201 } }`),
  {
    name: 'relay',
    unknown: 'retry',
    profile: 'relay',
    comparesBody: false,
    weight: 20,
    upstream: 'wide',
    more: ', profile: relay, inFlight: { wait: 1s }'
  },
  dropping('drop', 'database', 8),
  dropping('drop-redis', 'redis', 6)
]

/** Only where gateways differ. */
export const SWITCHED: ChaosRoute = {
  name: 'switch',
  unknown: 'retry',
  profile: 'relay',
  comparesBody: true,
  weight: 25,
  upstream: 'wide',
  switches: true,
  more: ', profile: relay, inFlight: { wait: 1s }'
}

export const LEASE_MS = 2_000
export const ANSWER_WITHIN_MS = 3_000
export const CLAIM_TIMEOUT_MS = 1_000
/** Longer than a run: no life ends, so that no key is claimed again after its retention. */
export const RETENTION_MS = 24 * 3_600_000
/** Larger answers are streamed and leave a tombstone. */
export const RESPONSE_BYTES_MAX = 16_384

export function routeNamed (name: string): ChaosRoute {
  const found = name === SWITCHED.name ? SWITCHED : ROUTES.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no route ${name}`)
  return found
}

/** Only the statuses that the witness gives. */
export function meaningOf (status: number, { profile }: Pick<ChaosRoute, 'profile'>): Disposition {
  if (profile === 'relay') return status >= 200 && status <= 299 ? 'keep' : 'release'
  if (status === 429 || status === 503) return 'release'
  return status === 502 || status === 504 ? 'unknown' : 'keep'
}

export interface GatewayConfig {
  readonly database: string
  /** Absent: they are. */
  readonly prepared?: boolean
  /** Its address: members of its block. */
  readonly redis: string
  readonly upstream: string
  /** Of the narrow upstream. */
  readonly connections: number
  /** What the ids of records are keyed with. Absent: nothing. */
  readonly secrets?: { readonly secret: string, readonly previousSecret: string }
  /** The upstreams get the client's Host. */
  readonly preserves?: boolean
}

/** One configuration, which all gateways have. */
export function configOf (config: GatewayConfig): string {
  return configWith(config, upstreamsOf(config), ROUTES.map(routeText))
}

export function upstreamsOf ({ connections }: GatewayConfig): Readonly<Record<string, number>> {
  return { wide: 64, narrow: connections }
}

/** The part that is the same in every mode. `upstreams`: the connections of each. */
export function configWith (
  { database, prepared = true, redis, upstream, secrets, preserves = false }: GatewayConfig,
  upstreams: Readonly<Record<string, number>>,
  routes: readonly string[]
): string {
  return `version: 1
${secrets === undefined ? '' : `secret: "${secrets.secret}"\npreviousSecret: "${secrets.previousSecret}"\n`}listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
stores:
  postgres: { url: "${database}", prepared: ${prepared}, claimTimeout: ${CLAIM_TIMEOUT_MS}ms }
  redis: { ${redis}, copies: { ttl: 1m } }
drain: { delay: 200ms, timeout: 8s }
log: { level: warn }
upstreams:
${Object.entries(upstreams).map(([name, connections]) => `  ${name}: { url: "${upstream}", timeout: ${UPSTREAM_TIMEOUT_MS}ms, connectTimeout: 1s, connections: ${connections}${preserves ? ', host: preserve' : ''} }`).join('\n')}
routes:
${routes.join('\n')}
`
}

function routeText ({ name, upstream, more }: ChaosRoute): string {
  return `  - name: ${name}
    match: { path: "/${name}/*" }
    upstream: ${upstream}
    idempotency: { scope: credential, lease: ${LEASE_MS}ms, answerWithin: ${ANSWER_WITHIN_MS}ms, retention: ${RETENTION_MS}ms, keep: { responseBytesMax: ${RESPONSE_BYTES_MAX}B }${more} }`
}
