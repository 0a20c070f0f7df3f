/**
 * docs/reference/metrics.md. The page has the declarations of src/telemetry and the closed sets of label values. This file
 * adds what each value means, and what to do when a metric moves.
 */
import { ASPECTS } from '../src/core/protocol/aspects.ts'
import { WEAKNESSES } from '../src/core/protocol/durability.ts'
import { HTTP_METHODS, HTTP_STATUSES } from '../src/telemetry/http-metrics.ts'
import { MESSAGE_STATES } from '../src/telemetry/inbox-metrics.ts'
import { declaredMetrics } from '../src/telemetry/metrics.ts'
import type { Declaration } from '../src/telemetry/metrics.ts'
import { CONNECTION_STATES, TRAFFIC } from '../src/telemetry/pool-metrics.ts'
import { RELOAD_RESULTS, SPAN_RESULTS, WORKER_STATES } from '../src/telemetry/process-metrics.ts'
import { PROMISES } from '../src/telemetry/store-metrics.ts'
import {
  DELIVERY_RESULTS,
  DIRECTIONS,
  HANDSHAKE_FAULTS,
  OPERATIONS,
  OUTCOMES,
  PROBE_RESULTS,
  SHED,
  SIGNATURE_RESULTS,
  STAGES,
  SWEPT_STATES
} from '../src/telemetry/zeros.ts'

/** The values of one label. `first`: above the first column, instead of the label. `head`: above the others. */
interface Values {
  readonly label: string
  /** Of which metrics of the subject. */
  readonly of: readonly string[]
  readonly first?: string
  readonly head: readonly string[]
  readonly rows: ReadonlyArray<readonly string[]>
  readonly note?: string
}

interface Subject {
  readonly title: string
  /** What to do when a metric moves, by its name. */
  readonly actions: Readonly<Record<string, string>>
  readonly values?: readonly Values[]
  readonly note?: string
}

const DASHBOARD = 'Nothing, for dashboards.'
const LIMITS = ['full', 'caller', 'peer'] as const satisfies ReadonlyArray<(typeof SHED)[keyof typeof SHED][number]>
const alert = (name: string): string => `[${name}](../guides/alerts.md#${name.toLowerCase()})`

/** Of a closed set, in its order; a value without a meaning is an error of types, and so is one too many. */
function meanings <Value extends string> (
  label: string,
  of: readonly string[],
  values: readonly Value[],
  means: Readonly<Record<Value, string>>,
  note?: string
): Values {
  return { label, of, head: ['meaning'], rows: values.map((value) => [`\`${value}\``, means[value]]), ...note !== undefined && { note } }
}

/** Outcomes that are no code of a problem, and those codes that begin at 0. */
const OUTCOME_ROWS: ReadonlyArray<readonly [outcome: string, meaning: string, action: string]> = [
  ['executed', 'The upstream answered, and the answer is stored. In mode drop: the mark is written.', DASHBOARD],
  ['executed-unstored', 'The upstream answered, and the answer is not stored, or not yet.', alert('OncewayAnswersUnsettled')],
  [
    'streamed',
    'The answer was too large to keep, or a stream. Retries get `not-kept`.',
    'Raise `keep.responseBytesMax` if retries need the answer.'
  ],
  ['released', 'The answer [frees the key](http.md#which-answers-free-the-key).', 'Look at the upstream if the share grows.'],
  ['replayed', 'A retry got the stored answer.', 'Look at clients and network if the share grows. Retries are safe.'],
  [
    'in-flight',
    'The first request was still running after `inFlight.wait`.',
    'Compare `onceway_upstream_duration_seconds` with `inFlight.wait`.'
  ],
  [
    'in-flight-own',
    'The first request had no answer within `answerWithin`. Its execution goes on.',
    'Make `answerWithin` longer, or the upstream faster.'
  ],
  [
    'mismatch',
    'The key was used for another request (`key-reused`).',
    'Mend the client. If it sends the same operation, see [what is compared](http.md#what-makes-two-requests-the-same).'
  ],
  ['outcome-unknown', 'The request was sent, or possibly sent, and no complete answer came.', alert('OncewayOutcomeUnknown')],
  [
    'indeterminate',
    'The answer of a [hop](../concepts/glossary.md#outcomes) passed, and the outcome is unknown.',
    '[Mark the answers of your server](../guides/deploy-in-containers.md#hops-that-answer-for-your-server).'
  ],
  ['not-kept', 'The request was executed before, and its answer was not kept.', DASHBOARD],
  ['unsent', 'No connection to the upstream. Nothing was sent (`upstream-unreachable`).', 'Look at the upstream. Retries are safe.'],
  ['unprotected', 'Forwarded without protection, because the store was down or lost.', alert('OncewayStoreDown')],
  ['overloaded', 'A limit of the gateway or of an inbox is reached.', alert('OncewayShedding')],
  ['store-unavailable', 'The store does not answer. Nothing was sent.', alert('OncewayStoreDown')],
  ['accepted', 'Inbox: a new message is stored.', DASHBOARD],
  ['accepted-again', 'Inbox: the message was stored before.', DASHBOARD],
  ['duplicate', 'Mode drop: the event went through before, and was not forwarded.', DASHBOARD],
  ['flagged', 'Mode drop with `onDuplicate: flag`: a duplicate was forwarded.', DASHBOARD],
  ['ignored', 'A preset let the request pass after its body was read.', DASHBOARD],
  ['issued', 'A [key was issued](../guides/issued-keys.md).', DASHBOARD],
  ['told', 'The gateway answered with the state of a message, or with the page of a problem.', DASHBOARD]
]

const ON_STATUS_NONE =
  'There was no answer. The client left before it, or its connection was cut. The execution of a guarded request goes on.'

const SUBJECTS: readonly Subject[] = [
  {
    title: 'All traffic',
    actions: {
      onceway_http_requests_total: `${DASHBOARD} If \`5xx\` grows, compare with \`onceway_requests_total\` and with the upstream's own metrics.`,
      onceway_http_request_duration_seconds:
        'Compare it with `onceway_request_duration_seconds`, which has the guarded requests of the route alone.'
    },
    note: '`onceway_http_requests_total` counts each answer on the guarded port once, when it is over: of guarded requests, of those that pass, and of the gateway itself. The label `route` is the name of the route. It is the path of a resource of the gateway itself, such as `/.well-known/onceway/problems`. It is `(none)` if no route was found: no route matches, the head cannot be read, or the request is shed before. Requests that the gateway never began, behind the last answer of a connection, are not counted. Neither are connections without a request.\n\nFor each route in the configuration the series of its methods begin at 0. If a guarded route names no methods, these are `POST` and `PATCH`, and each other method begins with its first request. A route has 41 series of the counter at most, and 20 of the histogram.',
    values: [
      {
        label: 'method',
        of: ['onceway_http_requests_total'],
        head: ['meaning'],
        rows: HTTP_METHODS.map((method) =>
          [`\`${method}\``, method === 'OTHER' ? 'Any other method, and a head that cannot be read.' : `\`${method}\``])
      },
      {
        label: 'status',
        of: ['onceway_http_requests_total'],
        head: ['meaning'],
        rows: HTTP_STATUSES.map((status) => [`\`${status}\``, status === 'none'
          ? ON_STATUS_NONE
          : status === '1xx'
            ? 'A switch to a tunnel (101).'
            : `The answer had a status from ${status.replace('xx', '00')} to ${status.replace('xx', '99')}.`])
      }
    ]
  },
  {
    title: 'Requests',
    actions: {
      onceway_requests_total: `See \`outcome\` below. ${alert('OncewayDuplicateRate')} for the share of duplicates.`,
      onceway_request_duration_seconds:
        'Compare it with `onceway_upstream_duration_seconds`. If only this one grows, look at the store and at waiting duplicates.',
      onceway_upstream_duration_seconds:
        'Look at the upstream. With `result="lost"` the outcome is unknown, with `result="unsent"` nothing was sent.',
      onceway_keyless_requests_total:
        'Find the client that forgets the key. The log warns of misspelled headers. `key.required: true` refuses such requests.',
      onceway_ignored_requests_total: alert('OncewayIgnoredKeys'),
      onceway_passed_requests_total: `${DASHBOARD} If \`why\` is \`batch\`, let the sender send its events one by one.`,
      onceway_alike_requests_total:
        'Find the client in the log (`"alike":true`), and let it send the plain path and host. The route guards these requests.',
      onceway_scope_splits_total: alert('OncewayScopeSplits')
    },
    note: 'The label `route` is the name of a guarded route. For requests to the gateway itself it is their path, such as `/.well-known/idempotency-keys`.',
    values: [
      {
        label: 'outcome',
        of: ['onceway_requests_total'],
        head: ['meaning', 'if it grows'],
        rows: OUTCOME_ROWS.map(([outcome, ...rest]) => [`\`${outcome}\``, ...rest]),
        note: `Any other value is the \`code\` of a [problem](http.md#problems). These begin at 0 for each guarded route: ${OUTCOMES.map((outcome) => `\`${outcome}\``).join(', ')}.`
      },
      meanings('result', ['onceway_upstream_duration_seconds'], ['answer', 'lost', 'unsent'], {
        answer: 'The upstream answered. A large or endless answer counts at its head.',
        lost: 'The request was sent, or possibly sent, and no complete answer came.',
        unsent: 'Nothing was sent: no connection, no free place, or the lease was over.'
      }),
      meanings('why', ['onceway_passed_requests_total'], ['control-message', 'batch'], {
        'control-message': 'A handshake or a confirmation of the sender.',
        batch: 'Several events in one request.'
      }, 'The label `preset` is the name of a [preset](presets.md).')
    ]
  },
  {
    title: 'Load and limits',
    actions: {
      onceway_executions: 'Compare it with `limits.executions`.',
      onceway_waiters: 'Compare it with `limits.waiters`. If it grows, the upstream is slow or a client retries too early.',
      onceway_connections: 'Compare it with `limits.connections` and the limit of open files.',
      onceway_tunnels: DASHBOARD,
      onceway_passing: 'Compare it with `upstreams.*.passThrough`.',
      onceway_buffered_bytes: 'Compare it with `limits.bufferedBytes`.',
      onceway_shed_total: `${alert('OncewayShedding')} for \`by="full"\`. Else find the caller or client in front of the others: [shares](../concepts/threat-model.md#shares).`,
      onceway_idle_closed_total: 'Find out which side stopped, by `direction`. A few are normal on the internet.'
    },
    note: 'Limits count in each process. What happens at each limit: [limits and overload](../guides/alerts.md#limits-and-overload).',
    values: [
      meanings('limit', ['onceway_shed_total'], keysOf(SHED), {
        eventLoopDelay: '`limits.eventLoopDelay`: the event loop is late.',
        connections: '`limits.connections`: a new connection was closed.',
        executions: '`limits.executions`',
        bufferedBytes: '`limits.bufferedBytes`: a body found no room, or an answer that its client does not read was cut.',
        passThrough: '`upstreams.*.passThrough`: no free place in time.',
        upstreamConnections: '`upstreams.*.connections`: no free connection in time.',
        records: '`recordsPerCaller` or `recordsPerPeer`: [too many records](../concepts/threat-model.md#records-of-one-caller).'
      }),
      meanings('by', ['onceway_shed_total'], LIMITS, {
        full: 'The limit itself is reached.',
        caller: 'One caller has used up its share, or its number of records.',
        peer: 'One client address has used up its share, or its number of records.'
      }),
      meanings('direction', ['onceway_idle_closed_total'], DIRECTIONS, {
        request: 'A client did not send its request in time.',
        answer: 'A client did not read its answer in time.',
        upstream: 'The upstream of an unguarded request was silent (`upstreams.*.idleTimeout`).',
        tunnel: 'One side of a tunnel was silent (`limits.tunnelIdle`).'
      })
    ]
  },
  {
    title: 'Upstream pools',
    actions: {
      onceway_upstream_slots_taken: 'Compare it with `onceway_upstream_slots_max`. If it is near, the upstream is slow, or has too few connections.',
      onceway_upstream_slots_waiting: 'If it is not 0 for long, look at the upstream, or raise `connections` or `passThrough`.',
      onceway_upstream_slots_max: DASHBOARD,
      onceway_upstream_connections: 'Compare it with the slots that are taken. The rest is idle, for `keepAlive`.'
    },
    values: [
      meanings('traffic', ['onceway_upstream_slots_taken'], TRAFFIC, {
        guarded: 'Guarded requests, probes and deliveries (`upstreams.*.connections`).',
        passed: 'Requests that pass through, and tunnels (`upstreams.*.passThrough`).'
      })
    ]
  },
  {
    title: 'Unknown outcomes',
    actions: {
      onceway_indeterminate_total: alert('OncewayOutcomeUnknown'),
      onceway_indeterminate_unresolved:
        '[Resolve them](../guides/resolve-an-unknown-outcome.md). `onceway records list --state indeterminate` lists them.',
      onceway_indeterminate_oldest_seconds: alert('OncewayUnknownUnresolved'),
      onceway_probes_total: 'If `given-up` or `unaskable` grows, [resolve these records](../guides/resolve-an-unknown-outcome.md). If `nothing` grows, look at the upstream\'s answers to probes.'
    },
    values: [
      meanings('stage', ['onceway_indeterminate_total'], STAGES, {
        during: 'The connection broke, or the upstream timed out.',
        hop: 'A proxy between the gateway and the upstream answered.',
        lease: 'The lease ended without a settle. Most often a gateway died.',
        settle: 'The store rejected the answer and its tombstone.',
        drain: '`drain.timeout` was over before the answer came.',
        restore: 'A backup was restored (`onceway epoch bump`). Only the record says so, and this series stays 0.'
      }),
      meanings('result', ['onceway_probes_total'], PROBE_RESULTS, {
        found: 'The upstream knows the request. The record is completed.',
        released: 'The upstream does not know the request. The key is free.',
        absent: 'The upstream answered "not found", which frees nothing yet. The gateway probes again.',
        nothing: 'No usable answer. The gateway probes again.',
        'given-up': '`probe.giveUpAfter` is over. The record waits for an operator.',
        overtaken: 'Another answer, probe or operator settled the record first.',
        unaskable: 'The request lacks what the probe needs. The record waits for an operator.'
      })
    ]
  },
  {
    title: 'Leases, settles and retention',
    actions: {
      onceway_leases_lost_total: alert('OncewayLeasesLost'),
      onceway_settles_fenced_total: alert('OncewayLeasesLost'),
      onceway_settles_retried_total: `${alert('OncewaySettleRetries')}. Results of deliveries and marks count too.`,
      onceway_answers_unsettled_total:
        `${alert('OncewayAnswersUnsettled')}. In mode drop: an event was answered before its mark was written.`,
      onceway_unsettled_bytes: `${alert('OncewayUnsettledBytes')}. Do not restart gateways until it is 0. An answer without a body adds nothing.`,
      onceway_records_lapsed_total: 'Look for gateways that died or lost the store. Each claim is an unknown outcome (`stage="lease"`).',
      onceway_records_swept_total: `${alert('OncewayUnknownForgotten')} for \`state="indeterminate"\`. Else nothing, for dashboards.`
    },
    values: [
      meanings('state', ['onceway_records_swept_total'], SWEPT_STATES, {
        completed: 'Records with an answer.',
        consumed: 'Records of executed requests whose answer was not kept.',
        released: 'Records whose key was free.',
        indeterminate: 'Records with an unknown outcome. Their keys can run again.',
        mark: 'Marks of mode drop in the database.'
      })
    ]
  },
  {
    title: 'Stores',
    actions: {
      onceway_store_up: alert('OncewayStoreDown'),
      onceway_store_errors_total: alert('OncewayStoreErrors'),
      onceway_store_duration_seconds: 'Look at the store: commits, locks, disk, network. Every execution waits for two commits.',
      onceway_claim_duration_seconds:
        `${alert('OncewaySlowClaims')}. If \`onceway_store_duration_seconds\` does not grow, claims wait: look at \`onceway_store_queue\` and at the event loop.`,
      onceway_store_contact_age_seconds:
        `${alert('OncewayNoContact')}. A gateway without contact takes no lease over, and loses its own after the time of \`lease\`.`,
      onceway_store_connections: 'If all of a purpose are `used` for long, the database is slow.',
      onceway_store_queue: 'If it is not 0 for long, look at `onceway_store_duration_seconds` of the operations with the same purpose.',
      onceway_redis_breaker_open: 'Look at Redis. Records are as safe, and slower. If a [copy of the database](../guides/deploy-with-redis.md#copies-of-a-database) uses the same Redis, separate them.',
      onceway_promise: alert('OncewayPromiseWeakened'),
      onceway_promise_weakened: '[Which promise holds](../guides/deploy-with-postgres.md#which-promise-holds) has the fix for each reason.',
      onceway_clock_ahead_seconds: alert('OncewayClockAhead'),
      onceway_clock_steps_total: alert('OncewayClockSteps')
    },
    note: 'The label `store` is `postgres`, `sqlite` (the embedded store) or `redis`.',
    values: [
      {
        label: 'operation',
        of: ['onceway_store_duration_seconds', 'onceway_store_errors_total'],
        first: 'store',
        head: ['errors begin at 0 for'],
        rows: Object.entries(OPERATIONS).map(([store, operations]) => [
          `\`${store}\``,
          operations.map((operation) => `\`${operation}\``).join(', ')
        ]),
        note: 'Any other operation has a series from its first use. `open` and `connect` are connections.'
      },
      meanings('state', ['onceway_store_connections'], CONNECTION_STATES, {
        used: 'A statement uses it, or may use it at any time (Redis).',
        idle: 'It waits for the next statement.'
      }, 'The label `purpose` is that of the connections: `claims`, `settles`, `renewals`, `beats`, `background`, `search`, `marks`, `inbox`, `deliveries` and `lines` of Postgres, and `commands` of Redis.'),
      meanings('promise', ['onceway_promise'], PROMISES, {
        strict: 'The store keeps what it acknowledged.',
        weakened: 'The store may forget what it acknowledged.'
      }),
      meanings('reason', ['onceway_promise_weakened'], WEAKNESSES, {
        'fsync-off': '`fsync` is off.',
        'full-page-writes-off': '`full_page_writes` is off.',
        'synchronous-commit-off': '`synchronous_commit` is off.',
        'asynchronous-standby': 'Commits do not wait for a standby that could be promoted.',
        'asynchronous-failover': 'Patroni may promote a standby that lacks commits.'
      })
    ]
  },
  {
    title: 'Inbox',
    actions: {
      onceway_inbox_messages:
        `${alert('OncewayInboxDead')}, ${alert('OncewayInboxHeld')}. If \`waiting\` grows, look at the consumer.`,
      onceway_inbox_bytes: alert('OncewayInboxFull'),
      onceway_inbox_oldest_seconds: alert('OncewayInboxOld'),
      onceway_inbox_failing_seconds: alert('OncewayInboxPaused'),
      onceway_inbox_paused: alert('OncewayInboxPaused'),
      onceway_inbox_deliveries_total: alert('OncewayInboxFailing'),
      onceway_inbox_delivery_duration_seconds: 'Look at the consumer.',
      onceway_inbox_attempts: 'If it grows, look at the consumer\'s answers in the log. Compare it with `inbox.maxAttempts`.',
      onceway_inbox_kept_messages: 'Compare it with `inbox.maxKept`.',
      onceway_inbox_kept_bytes: 'Compare it with `inbox.maxKeptBytes`.',
      onceway_inbox_kept_dropped_total: 'If it grows, raise the bound, or shorten `inbox.keepDelivered`.',
      onceway_inbox_signatures_total:
        'If `wrong` grows, compare the secrets. If `untimely` grows, look at clocks and late retries. Else somebody may forge requests.'
    },
    note: '`onceway_inbox_signatures_total` counts on every route with [`verify`](http.md#signed-requests), also without an inbox. What senders got is in `onceway_requests_total{outcome}`.',
    values: [
      meanings('state', ['onceway_inbox_messages'], MESSAGE_STATES, {
        waiting: 'Due now, later, or after another message of its group.',
        delivering: 'A delivery is in flight.',
        held: 'A delivery has an unknown outcome, and the route has `unknown: hold`.',
        dead: 'Given up. It stays until an operator acts or `deadRetention` is over.'
      }),
      meanings('result', ['onceway_inbox_deliveries_total'], DELIVERY_RESULTS, {
        delivered: 'The consumer took the message.',
        again: 'The delivery failed. The message is delivered again after a pause.',
        dead: 'The message was given up.',
        held: 'The outcome is unknown, and the message waits for an operator.',
        overtaken: 'Another worker or an operator had the message by then.'
      }),
      meanings('result', ['onceway_inbox_signatures_total'], SIGNATURE_RESULTS, {
        current: 'Good under the current secret.',
        previous: 'Good under the previous secret. Remove that secret when this value stops growing.',
        missing: 'Refused: no signature.',
        malformed: 'Refused: the signature is not readable.',
        untimely: 'Refused: too old, or from the future.',
        wrong: 'Refused: no secret of the route makes this signature.'
      })
    ]
  },
  {
    title: 'Configuration and processes',
    actions: {
      onceway_config_reloads_total: `${alert('OncewayReloadRefused')} for \`result="refused"\`.`,
      onceway_config_loaded_timestamp_seconds:
        `${DASHBOARD} \`time() - onceway_config_loaded_timestamp_seconds\` is the age of the configuration.`,
      onceway_tls_handshake_failures_total: 'Look at the reason: [handshakes that fail](../guides/tls.md#handshakes-that-fail).',
      onceway_tls_certificate_expiration_timestamp_seconds: alert('OncewayCertificateExpires'),
      onceway_tls_certificate_reads_total: `${alert('OncewayCertificateRefused')} for \`result="refused"\`.`,
      onceway_policy_differences: `${alert('OncewayGatewaysDiffer')}. A difference in \`route\`, \`key\`, \`scope\`, \`host\` or \`marks\` is [not safe](../guides/reload.md#while-gateways-differ), nor is \`mode\` from or to \`drop\`.`,
      onceway_build_info: DASHBOARD,
      onceway_spans_total: 'If `failed` or `dropped` grows, look at the collector. Requests are not affected.',
      onceway_heap_limit_bytes:
        `Compare it with \`nodejs_heap_size_used_bytes\`: ${alert('OncewayHeapNearLimit')}. The bounds of memory are under [limits](../guides/alerts.md#limits-and-overload).`,
      onceway_workers: 'Look at the log if a worker is not `ready` for long.',
      onceway_workers_ended_total:
        'Look at the log, and at the memory of the machine. What a worker had sent becomes unknown when its lease ends.'
    },
    note:
      '`onceway_workers` and `onceway_workers_ended_total` exist only with several [workers](../guides/deploy-with-postgres.md#workers).',
    values: [
      meanings('result', ['onceway_config_reloads_total'], RELOAD_RESULTS, {
        ok: 'The new configuration runs.',
        refused: 'The new configuration has mistakes. The earlier one still runs.'
      }),
      meanings('result', ['onceway_spans_total'], SPAN_RESULTS, {
        sent: 'The collector of `telemetry.otlp` has it.',
        failed: 'The collector did not take it. It is left out.',
        dropped: 'Too many waited for the collector. It is left out.'
      }),
      meanings('reason', ['onceway_tls_handshake_failures_total'], HANDSHAKE_FAULTS, {
        closed: 'The client went away.',
        timeout: 'It took longer than ten seconds.',
        'plain-http': 'The client sent plain HTTP.',
        protocol: 'There is no version, cipher or application protocol in common.',
        'certificate-missing': 'The client has no certificate, and one is required.',
        'certificate-refused': 'The client\'s certificate is expired, or of another authority.',
        other: 'The log has its code.'
      }),
      meanings('result', ['onceway_tls_certificate_reads_total'], RELOAD_RESULTS, {
        ok: 'New connections get the new certificate.',
        refused: 'The files cannot be used. The earlier certificate stays.'
      }),
      meanings('aspect', ['onceway_policy_differences'], ['route', ...ASPECTS], {
        route: 'One gateway has the route, the other does not.',
        mode: '`mode`, `async`',
        key: '`key.from`',
        scope: '`scope`, and the issuer of tokens (`jwt`)',
        host: '`upstreams.*.host`',
        marks: 'the store of `drop`, and the size of its filter',
        fingerprint: '`fingerprint`',
        unknown: '`unknown`',
        keep: '`profile`, `keep`',
        retention: '`retention`, `unknownRetention`',
        lease: '`lease`'
      }),
      meanings('state', ['onceway_workers'], WORKER_STATES, {
        ready: 'It serves.',
        starting: 'It does not serve yet.',
        silent: 'It did not answer the primary in time.',
        waiting: 'It ended, and its successor starts after a pause.'
      })
    ]
  }
]

const HEAD = `# Metrics

<!-- Made by "npm run generate" from src/telemetry/ and scripts/metrics.ts; do not edit. -->

Every metric of \`GET /metrics\`: what it means, and what to do when it moves. The endpoint is on the admin port, for Prometheus.

\`\`\`yaml
# prometheus.yml
scrape_configs:
  - job_name: onceway
    static_configs: [{ targets: ["gateway-1:8081", "gateway-2:8081"] }]   # the admin port
\`\`\`

\`\`\`promql
# unknown outcomes that wait for somebody: should be 0
max(onceway_indeterminate_unresolved)

# what becomes of requests
sum by (route, outcome) (rate(onceway_requests_total[5m]))

# the share of all requests, guarded or not, that end with an error of a server
sum by (route) (rate(onceway_http_requests_total{status="5xx"}[5m])) / sum by (route) (rate(onceway_http_requests_total[5m]))

# how long 99 % of requests take at most
histogram_quantile(0.99, sum by (route, le) (rate(onceway_request_duration_seconds_bucket[5m])))
\`\`\`

The rules to alert by, and what to do for each, are in [alerts](../guides/alerts.md). Panels for Grafana are in [dashboards](../guides/dashboards.md).

- **Labels** come from the configuration or from closed sets. No label has a key, a caller, a path of a client or a message.
- **Counters of alerts** begin at 0 for each guarded route, configured store, limit and result, so the first increase is visible.
- **max and min.** Gauges marked \`max\` or \`min\` are reports of several processes about the same thing. Combine those of several gateways by \`max\` or \`min\`, never by \`sum\`.
- **Workers** of one gateway are combined before Prometheus reads them: [workers](../guides/deploy-with-postgres.md#workers).
- **The process.** Metrics that begin with \`process_\` or \`nodejs_\` are those of prom-client: CPU, memory, event loop, garbage collection. With workers they have the label \`worker\`.
- **The event loop.** \`nodejs_eventloop_lag_p99_seconds\` is about 0.01 at rest, and begins anew with each scrape. \`max by (instance) (nodejs_heap_size_used_bytes) / max by (instance) (onceway_heap_limit_bytes)\` is the share of the heap in use.
`

export function metricsPage (metrics = declaredMetrics()): string {
  const declared = new Map(metrics.map((metric) => [metric.name, metric]))
  const described = SUBJECTS.flatMap(({ actions }) => Object.keys(actions))
  const missing = [...declared.keys()].filter((name) => !described.includes(name))
  const stray = described.filter((name, at) => !declared.has(name) || described.indexOf(name) !== at)
  if (missing.length + stray.length > 0) {
    throw new Error(`scripts/metrics.ts does not say what to do about ${missing.join(', ') || 'none'}, and has one too many: ${stray.join(', ') || 'none'}`)
  }
  const silent = OUTCOMES.filter((outcome) => !OUTCOME_ROWS.some(([name]) => name === outcome))
  if (silent.length > 0) throw new Error(`scripts/metrics.ts has no meaning of the outcome ${silent.join(', ')}`)
  return [HEAD, ...SUBJECTS.map((subject) => section(subject, declared))].join('\n')
}

function section ({ title, actions, note, values = [] }: Subject, declared: ReadonlyMap<string, Declaration>): string {
  const rows = Object.entries(actions).map(([name, action]) => {
    const metric = declared.get(name) as Declaration
    return `| \`${name}\` | ${typeOf(metric)} | ${metric.labelNames.map((label) => `\`${label}\``).join(', ') || '–'} | ${metric.help.replace(/\blimits\.\w+/g, '`$&`')} | ${action} |`
  })
  const tables = values.map((each) => {
    for (const name of each.of) {
      if (declared.get(name)?.labelNames.includes(each.label) !== true) {
        throw new Error(`scripts/metrics.ts has values of the label ${each.label}, which ${name} does not have`)
      }
    }
    return valuesTable(each)
  })
  return `${[`## ${title}`, table(['metric', 'type', 'labels', 'meaning', 'what to do when it moves'], rows), ...note === undefined ? [] : [note], ...tables].join('\n\n')}\n`
}

function valuesTable ({ label, of, first = label, head, rows, note }: Values): string {
  const shown = table([`\`${first}\``, ...head], rows.map((cells) => `| ${cells.join(' | ')} |`))
  return [
    `Values of \`${label}\` in ${of.map((name) => `\`${name}\``).join(' and ')}:`,
    shown,
    ...note === undefined ? [] : [note]
  ].join('\n\n')
}

function table (head: readonly string[], rows: readonly string[]): string {
  return [`| ${head.join(' | ')} |`, `|${head.map(() => '---|').join('')}`, ...rows].join('\n')
}

function typeOf ({ type, aggregator }: Declaration): string {
  return aggregator === 'sum' ? type : `${type}, ${aggregator}`
}

function keysOf <Key extends string> (of: Readonly<Record<Key, unknown>>): Key[] {
  return Object.keys(of) as Key[]
}
