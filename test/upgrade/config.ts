/** The gateways' configuration: a route for each policy whose rows, messages and marks an upgrade must carry over. */

/** Longer than a gateway needs to start: what a dead one has claimed is claimed still when the next release comes. */
export const LEASE_MS = 4_000
export const UPSTREAM_TIMEOUT_MS = 8_000
/** Enough to say what became of it, on a busy machine. */
const SETTLED_WITHIN_MS = 7_000
/** Of an unknown outcome: the upstream cannot say at first, and is asked again when the next release is there. */
const ASKED_AGAIN_MS = 6_000
/** Where the upstream says what became of a record. */
export const LOOKUP_PATH = '/lookup/'
/** The balancer's polls (balanced.ts) are a quarter of it. */
export const DRAIN_DELAY_MS = 1_000

export interface ConfigOptions {
  /** null: the embedded store. */
  readonly database: string | null
  readonly redis: string | null
  readonly upstream: string
  readonly timeoutMs?: number
}

const enforced = (timeoutMs: number): Readonly<Record<string, string>> => ({
  // Its duplicates wait for their first one; those of `busy` are told to come back.
  hold: 'inFlight: { wait: 10s }',
  busy: 'inFlight: { wait: 0s }',
  retry: 'unknown: retry, inFlight: { wait: 0s }',
  probe: `unknown: probe, probe: { path: "${LOOKUP_PATH}{record}", timeout: 1s, interval: ${ASKED_AGAIN_MS}ms, confirmAfter: ${timeoutMs}ms, found: { replayStatus: 201 } }`,
  relay: 'profile: relay, inFlight: { wait: 10s }'
})

const INBOXES: Readonly<Record<string, string>> = {
  ordered: 'inbox: { order: "header:X-Group", maxAttempts: 1000, backoff: { first: 300ms, longest: 1s } }',
  stops: 'inbox: { order: "header:X-Group", onDead: stop-group, maxAttempts: 1000, backoff: { first: 300ms, longest: 1s } }',
  held: 'unknown: hold, inbox: { maxAttempts: 1000, backoff: { first: 300ms, longest: 1s } }'
}

export function configOf ({ database, redis, upstream, timeoutMs = UPSTREAM_TIMEOUT_MS }: ConfigOptions): string {
  const drops = ['database', ...redis === null ? [] : ['redis']]
  const routes = [
    ...Object.entries(enforced(timeoutMs)).map(([name, policy]) =>
      routeText(name, `answerWithin: ${timeoutMs + SETTLED_WITHIN_MS}ms, ${policy}`)),
    ...Object.entries(INBOXES).map(([name, policy]) =>
      routeText(name, `profile: relay, mode: inbox, key: { from: ["header:Idempotency-Key"], required: true }, ${policy}`)),
    ...drops.map((store) =>
      routeText(`drop-${store}`, `profile: relay, mode: drop, drop: { store: ${store}, window: 1h }, inFlight: { wait: 0s }`))
  ]
  const stores = [
    ...database === null ? [] : [`  postgres: { url: "${database}", claimTimeout: 4s }`],
    ...redis === null ? [] : [`  redis: { url: "${redis}" }`]
  ]
  return `version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0, readiness: strict }
${stores.length === 0 ? '' : `stores:\n${stores.join('\n')}\n`}drain: { delay: ${DRAIN_DELAY_MS}ms, timeout: 8s }
upstreams:
  upstream: { url: "${upstream}", timeout: ${timeoutMs}ms }
routes:
${routes.join('\n')}
`
}

function routeText (name: string, policy: string): string {
  return `  - name: ${name}
    match: { path: "/${name}/*", methods: [POST] }
    upstream: upstream
    idempotency: { scope: public, lease: ${LEASE_MS}ms, ${policy} }`
}
