/** What is on the dashboards of deploy/grafana: the questions of operators, and the queries that answer them. */

export interface Panel {
  readonly title: string
  /** What it shows, and what to do when it moves. */
  readonly about: string
  readonly unit: 'short' | 'reqps' | 'ops' | 's' | 'bytes' | 'percentunit'
  /** PromQL with the selectors `{@}`, `{@route}` and `{@store}` (dashboards.ts), and the legend. */
  readonly queries: ReadonlyArray<readonly [expr: string, legend: string]>
  readonly kind?: 'stat'
  /** Its name in deploy/prometheus/alerts.yml, whose threshold is the red line. */
  readonly alert?: string
  /** Red from here on, where the alert has another form. null: the alert counts something else, so there is no line. */
  readonly bad?: number | null
  /** Green from here on, and red below. */
  readonly good?: number
  /** What a stat shows instead of these values. */
  readonly words?: Readonly<Record<number, string>>
  readonly stacked?: true
}

/** `across`: panels beside each other, a divisor of 24. The panels of a row are all stats, or none is. */
export interface Row { readonly title: string, readonly across: number, readonly panels: readonly Panel[] }

export interface Board {
  readonly name: string
  readonly title: string
  readonly about: string
  /** Besides the job and the instance. `of`: a metric whose label of this name has the values. `many`: several at once. */
  readonly variables: ReadonlyArray<{ readonly name: 'route' | 'store', readonly of: string, readonly many: boolean }>
  readonly rows: readonly Row[]
}

const p = (share: string, histogram: string, by = ''): string =>
  `histogram_quantile(${share}, sum by (${by === '' ? 'le' : `${by}, le`}) (rate(${histogram.replace('{', '_bucket{')}[$__rate_interval])))`

const DUPLICATES = 'replayed|in-flight|accepted-again|duplicate|flagged'
const TO_RETRY = 'executed-unstored|in-flight|mismatch|outcome-unknown|overloaded|store-unavailable|unsent'

const duplicatesOf = (selector: string, by: string): string =>
  `sum by (${by}) (rate(onceway_requests_total{${selector}, outcome=~"${DUPLICATES}"}[$__rate_interval])) / sum by (${by}) (rate(onceway_requests_total{${selector}}[$__rate_interval]))`

/** Panels that two dashboards have. */
const PROMISE: Panel = {
  title: 'Promise',
  about: 'Strict: the database keeps what it acknowledged. Weakened: it may forget commits. /readyz has the reasons.',
  kind: 'stat',
  unit: 'short',
  alert: 'OncewayPromiseWeakened',
  bad: 1,
  words: { 0: 'strict', 1: 'weakened' },
  queries: [['max(onceway_promise{@, promise="weakened"})', 'weakened']]
}
const STORES_UP: Panel = {
  title: 'Stores',
  about: 'Down if one gateway cannot use the store. Its log has the reason.',
  kind: 'stat',
  unit: 'short',
  alert: 'OncewayStoreDown',
  good: 1,
  words: { 0: 'down', 1: 'up' },
  queries: [['min by (store) (onceway_store_up{@})', '{{store}}']]
}
const CLOCK_AHEAD: Panel = {
  title: 'Clock ahead',
  about: 'The clock of the store has stepped ahead. Nothing lapses or expires until it is set back or confirmed.',
  kind: 'stat',
  unit: 's',
  alert: 'OncewayClockAhead',
  queries: [['max(onceway_clock_ahead_seconds{@})', 'ahead']]
}
const CLAIMS: Panel = {
  title: 'Claims',
  about: 'Time until a key is claimed or found. If operations of the store are quick, look at its queues and at the event loop.',
  unit: 's',
  alert: 'OncewaySlowClaims',
  queries: [[p('0.5', 'onceway_claim_duration_seconds{@}'), 'p50'], [p('0.99', 'onceway_claim_duration_seconds{@}'), 'p99']]
}
const UNSETTLED_BYTES: Panel = {
  title: 'Answers that wait for the store',
  about: 'Do not restart a gateway until it is 0: what waits is lost with the process.',
  unit: 'bytes',
  alert: 'OncewayUnsettledBytes',
  queries: [['sum by (instance) (onceway_unsettled_bytes{@})', '{{instance}}']]
}

const OVERVIEW: Board = {
  name: 'overview',
  title: 'overview',
  about: 'Whether the gateways are well, what becomes of requests, and what is near a limit.',
  variables: [],
  rows: [
    {
      title: 'Now',
      across: 8,
      panels: [
        {
          title: 'Gateways',
          about: 'Gateways that Prometheus can read, and all that it should read.',
          kind: 'stat',
          unit: 'short',
          alert: 'OncewayGatewayDown',
          good: 1,
          queries: [['sum(up{@})', 'up'], ['count(up{@})', 'of']]
        },
        {
          title: 'Alerts that fire',
          about: 'Of all gateways. Alertmanager and the page of the alerts have the details.',
          kind: 'stat',
          unit: 'short',
          bad: 1,
          queries: [['count(ALERTS{alertname=~"Onceway.+", alertstate="firing"}) or vector(0)', 'firing']]
        },
        {
          title: 'Unknown outcomes',
          about: 'Records that may or may not have been executed. They wait for a probe or for you: see the console.',
          kind: 'stat',
          unit: 'short',
          bad: 1,
          queries: [['max(onceway_indeterminate_unresolved{@})', 'unresolved']]
        },
        {
          title: 'Oldest unknown outcome',
          about: 'Its age. Its retries get outcome-unknown until it is resolved.',
          kind: 'stat',
          unit: 's',
          alert: 'OncewayUnknownUnresolved',
          queries: [['max(onceway_indeterminate_oldest_seconds{@})', 'oldest']]
        },
        PROMISE,
        STORES_UP,
        CLOCK_AHEAD,
        {
          title: 'Policies that differ',
          about: 'Routes that two gateways serve differently. Finish the roll-out.',
          kind: 'stat',
          unit: 'short',
          alert: 'OncewayGatewaysDiffer',
          queries: [['max(onceway_policy_differences{@})', 'routes']]
        }
      ]
    },
    {
      title: 'Traffic and outcomes',
      across: 3,
      panels: [
        {
          title: 'All requests by status',
          about: 'Guarded or not. none: the client left before its answer.',
          unit: 'reqps',
          stacked: true,
          queries: [['sum by (status) (rate(onceway_http_requests_total{@}[$__rate_interval]))', '{{status}}']]
        },
        {
          title: 'Guarded requests by outcome',
          about: 'executed are first requests, replayed are retries and joined duplicates. The page of the metrics explains each value.',
          unit: 'reqps',
          stacked: true,
          queries: [['sum by (outcome) (rate(onceway_requests_total{@}[$__rate_interval]))', '{{outcome}}']]
        },
        {
          title: 'Outcomes that clients have to handle',
          about: 'Conflicts, mismatches and refusals. With in-flight, overloaded, store-unavailable and unsent a retry is safe.',
          unit: 'reqps',
          queries: [[`sum by (outcome) (rate(onceway_requests_total{@, outcome=~"${TO_RETRY}"}[$__rate_interval]))`, '{{outcome}}']]
        },
        {
          title: 'Duplicates by route',
          about: 'The share of guarded requests whose key was there before. If it jumps, look at clients, relays and the network.',
          unit: 'percentunit',
          alert: 'OncewayDuplicateRate',
          queries: [[duplicatesOf('@', 'route'), '{{route}}']]
        },
        {
          title: 'Errors of servers by route',
          about: 'The share of all requests that ended with 5xx, by the gateway or by the upstream.',
          unit: 'percentunit',
          queries: [[
            'sum by (route) (rate(onceway_http_requests_total{@, status="5xx"}[$__rate_interval])) / sum by (route) (rate(onceway_http_requests_total{@}[$__rate_interval]))',
            '{{route}}'
          ]]
        },
        {
          title: 'Requests without protection',
          about: 'no key: on a guarded route. ignored key: no guarded route matched. scope split: a retry came as another caller.',
          unit: 'reqps',
          alert: 'OncewayIgnoredKeys',
          queries: [
            ['sum(rate(onceway_keyless_requests_total{@}[$__rate_interval]))', 'no key'],
            ['sum(rate(onceway_ignored_requests_total{@}[$__rate_interval]))', 'ignored key'],
            ['sum(rate(onceway_scope_splits_total{@}[$__rate_interval]))', 'scope split']
          ]
        }
      ]
    },
    {
      title: 'Latency',
      across: 3,
      panels: [
        {
          title: 'Guarded requests by route, p99',
          about: 'From the head of the request to the end of the answer. Compare it with the upstream.',
          unit: 's',
          queries: [[p('0.99', 'onceway_request_duration_seconds{@}', 'route'), '{{route}}']]
        },
        {
          title: 'Upstreams by route, p99',
          about: 'One execution, from the request for a connection to the answer.',
          unit: 's',
          queries: [[p('0.99', 'onceway_upstream_duration_seconds{@}', 'route'), '{{route}}']]
        },
        CLAIMS
      ]
    },
    {
      title: 'Unknown outcomes and leases',
      across: 3,
      panels: [
        {
          title: 'New unknown outcomes by stage',
          about: 'What failed. lease: most often a gateway died. during: the upstream timed out or hung up.',
          unit: 'short',
          alert: 'OncewayOutcomeUnknown',
          queries: [['sum by (stage) (increase(onceway_indeterminate_total{@}[$__rate_interval]))', '{{stage}}']]
        },
        {
          title: 'Leases that ended early',
          about: 'lost: while the execution ran. fenced: its settle came too late. lapsed: nobody settled.',
          unit: 'short',
          alert: 'OncewayLeasesLost',
          queries: [
            ['sum(increase(onceway_leases_lost_total{@}[$__rate_interval]))', 'lost'],
            ['sum(increase(onceway_settles_fenced_total{@}[$__rate_interval]))', 'fenced'],
            ['sum(increase(onceway_records_lapsed_total{@}[$__rate_interval]))', 'lapsed']
          ]
        },
        UNSETTLED_BYTES
      ]
    },
    {
      title: 'Load and limits',
      across: 3,
      panels: [
        {
          title: 'In flight',
          about: 'Of all gateways. Limits count in each process: executions, waiters, passThrough.',
          unit: 'short',
          queries: [
            ['sum(onceway_executions{@})', 'executions'],
            ['sum(onceway_waiters{@})', 'waiting duplicates'],
            ['sum(onceway_passing{@})', 'unguarded']
          ]
        },
        {
          title: 'Load that was shed',
          about: 'full: the limit is reached. caller and peer: one of them used up its share.',
          unit: 'ops',
          alert: 'OncewayShedding',
          queries: [['sum by (limit, by) (rate(onceway_shed_total{@}[$__rate_interval]))', '{{limit}} {{by}}']]
        },
        {
          title: 'Slots of upstreams in use',
          about: 'Of the fullest gateway. Near 100 % the upstream is slow, or has too few connections.',
          unit: 'percentunit',
          bad: 1,
          queries: [[
            'max by (upstream, traffic) (onceway_upstream_slots_taken{@} / onceway_upstream_slots_max{@})',
            '{{upstream}} {{traffic}}'
          ]]
        },
        {
          title: 'Requests that wait for a slot',
          about: 'If it is not 0 for long, look at the upstream, or raise connections or passThrough.',
          unit: 'short',
          queries: [['sum by (upstream, traffic) (onceway_upstream_slots_waiting{@})', '{{upstream}} {{traffic}}']]
        },
        {
          title: 'Client connections',
          about: 'Idle ones too. Compare it with limits.connections and the limit of open files.',
          unit: 'short',
          queries: [['sum by (instance) (onceway_connections{@})', '{{instance}}']]
        },
        {
          title: 'Bodies in memory',
          about: 'Bounded by limits.bufferedBytes in each process.',
          unit: 'bytes',
          queries: [['sum by (instance) (onceway_buffered_bytes{@})', '{{instance}}']]
        }
      ]
    },
    {
      title: 'Processes',
      across: 4,
      panels: [
        {
          title: 'Event loop delay, p99',
          about: 'About 10 ms at rest. Beyond limits.eventLoopDelay requests are shed.',
          unit: 's',
          queries: [['max by (instance) (nodejs_eventloop_lag_p99_seconds{@})', '{{instance}}']]
        },
        {
          title: 'Heap in use',
          about: 'The share of the limit. At 100 % the process ends.',
          unit: 'percentunit',
          alert: 'OncewayHeapNearLimit',
          queries: [[
            'max by (instance) (nodejs_heap_size_used_bytes{@}) / max by (instance) (onceway_heap_limit_bytes{@})',
            '{{instance}}'
          ]]
        },
        {
          title: 'Processors in use',
          about: 'Of all workers of a gateway. One process cannot use much more than one.',
          unit: 'short',
          queries: [['sum by (instance) (rate(process_cpu_seconds_total{@}[$__rate_interval]))', '{{instance}}']]
        },
        {
          title: 'Reloads',
          about: 'refused: the file has mistakes, and the earlier configuration still runs.',
          unit: 'short',
          alert: 'OncewayReloadRefused',
          queries: [['sum by (result) (increase(onceway_config_reloads_total{@}[$__rate_interval]))', '{{result}}']]
        }
      ]
    }
  ]
}

const ROUTE: Board = {
  name: 'route',
  title: 'one route',
  about: 'One guarded route. Routes with an inbox have their deliveries on the dashboard of the inbox.',
  variables: [{ name: 'route', of: 'onceway_requests_total', many: false }],
  rows: [
    {
      title: 'Traffic and outcomes',
      across: 2,
      panels: [
        {
          title: 'Outcomes',
          about: 'What became of the guarded requests of this route.',
          unit: 'reqps',
          stacked: true,
          queries: [['sum by (outcome) (rate(onceway_requests_total{@route}[$__rate_interval]))', '{{outcome}}']]
        },
        {
          title: 'Statuses',
          about: 'All requests of this route, also those without a key. none: the client left before its answer.',
          unit: 'reqps',
          stacked: true,
          queries: [['sum by (status) (rate(onceway_http_requests_total{@route}[$__rate_interval]))', '{{status}}']]
        },
        {
          title: 'Duplicates',
          about: 'The share of requests whose key was there before.',
          unit: 'percentunit',
          alert: 'OncewayDuplicateRate',
          queries: [[duplicatesOf('@route', 'route'), 'duplicates']]
        },
        {
          title: 'Keys that protect less',
          about: 'no key: the request passes unguarded. alike: a path that only some servers read as this route. scope split: another caller.',
          unit: 'reqps',
          alert: 'OncewayScopeSplits',
          queries: [
            ['sum(rate(onceway_keyless_requests_total{@route}[$__rate_interval]))', 'no key'],
            ['sum(rate(onceway_alike_requests_total{@route}[$__rate_interval]))', 'alike'],
            ['sum(rate(onceway_scope_splits_total{@route}[$__rate_interval]))', 'scope split']
          ]
        }
      ]
    },
    {
      title: 'Latency',
      across: 3,
      panels: [
        {
          title: 'Requests',
          about: 'From the head of the request to the end of the answer, with everything that it waits for.',
          unit: 's',
          queries: [
            [p('0.5', 'onceway_request_duration_seconds{@route}'), 'p50'],
            [p('0.9', 'onceway_request_duration_seconds{@route}'), 'p90'],
            [p('0.99', 'onceway_request_duration_seconds{@route}'), 'p99']
          ]
        },
        {
          title: 'Upstream',
          about: 'One execution. If only the requests are slow, look at the store and at waiting duplicates.',
          unit: 's',
          queries: [
            [p('0.5', 'onceway_upstream_duration_seconds{@route}'), 'p50'],
            [p('0.99', 'onceway_upstream_duration_seconds{@route}'), 'p99']
          ]
        },
        {
          title: 'Executions by result',
          about: 'lost: the outcome is unknown. unsent: nothing was sent, and retries are safe.',
          unit: 'ops',
          queries: [['sum by (result) (rate(onceway_upstream_duration_seconds_count{@route}[$__rate_interval]))', '{{result}}']]
        }
      ]
    },
    {
      title: 'Unknown outcomes and settles',
      across: 3,
      panels: [
        {
          title: 'New unknown outcomes by stage',
          about: 'What failed. The console lists the records of this route.',
          unit: 'short',
          alert: 'OncewayOutcomeUnknown',
          queries: [['sum by (stage) (increase(onceway_indeterminate_total{@route}[$__rate_interval]))', '{{stage}}']]
        },
        {
          title: 'Leases that ended early',
          about: 'lost: while the execution ran. fenced: its settle came too late, and another owner had the record.',
          unit: 'short',
          alert: 'OncewayLeasesLost',
          queries: [
            ['sum(increase(onceway_leases_lost_total{@route}[$__rate_interval]))', 'lost'],
            ['sum(increase(onceway_settles_fenced_total{@route}[$__rate_interval]))', 'fenced']
          ]
        },
        {
          title: 'Outcomes that the store did not take',
          about: 'retried: a try to store the outcome failed. unsettled: the client had its answer before it was stored.',
          unit: 'short',
          alert: 'OncewaySettleRetries',
          bad: null,
          queries: [
            ['sum(increase(onceway_settles_retried_total{@route}[$__rate_interval]))', 'retried'],
            ['sum(increase(onceway_answers_unsettled_total{@route}[$__rate_interval]))', 'unsettled']
          ]
        }
      ]
    }
  ]
}

const STORES: Board = {
  name: 'stores',
  title: 'stores',
  about: 'Postgres, Redis or the embedded store: whether they can be used, how fast they are, and what waits for them.',
  variables: [{ name: 'store', of: 'onceway_store_up', many: true }],
  rows: [
    {
      title: 'Now',
      across: 4,
      panels: [
        { ...STORES_UP, queries: [['min by (store) (onceway_store_up{@store})', '{{store}}']] },
        PROMISE,
        CLOCK_AHEAD,
        {
          title: 'Redis passed over',
          about: 'Yes while some or all records go without Redis, because it failed. They are as safe, and slower.',
          kind: 'stat',
          unit: 'short',
          bad: 1,
          words: { 0: 'no', 1: 'yes' },
          queries: [['max(onceway_redis_breaker_open{@})', 'passed over']]
        }
      ]
    },
    {
      title: 'Operations',
      across: 2,
      panels: [
        {
          title: 'Time since the last contact',
          about: 'Heartbeats write each second. Without contact a gateway loses its leases after the time of lease.',
          unit: 's',
          alert: 'OncewayNoContact',
          queries: [['max by (instance) (onceway_store_contact_age_seconds{@})', '{{instance}}']]
        },
        {
          title: 'Operations that failed',
          about: 'open and connect are connections. The log has the cause.',
          unit: 'ops',
          alert: 'OncewayStoreErrors',
          bad: null,
          queries: [['sum by (store, operation) (rate(onceway_store_errors_total{@store}[$__rate_interval]))', '{{store}} {{operation}}']]
        },
        {
          title: 'Operations',
          about: 'A batch of many records is one operation.',
          unit: 'ops',
          queries: [['sum by (store, operation) (rate(onceway_store_duration_seconds_count{@store}[$__rate_interval]))', '{{store}} {{operation}}']]
        },
        {
          title: 'Duration of operations, p99',
          about: 'If it grows, look at the store: commits, locks, disk, network. An execution waits for two commits.',
          unit: 's',
          queries: [[p('0.99', 'onceway_store_duration_seconds{@store}', 'store, operation'), '{{store}} {{operation}}']]
        }
      ]
    },
    {
      title: 'Claims and settles',
      across: 3,
      panels: [
        CLAIMS,
        {
          title: 'Outcomes that the store did not take',
          about: 'retried: a try to store the outcome failed. unsettled: the client had its answer before it was stored.',
          unit: 'short',
          alert: 'OncewayAnswersUnsettled',
          queries: [
            ['sum(increase(onceway_settles_retried_total{@}[$__rate_interval]))', 'retried'],
            ['sum(increase(onceway_answers_unsettled_total{@}[$__rate_interval]))', 'unsettled']
          ]
        },
        UNSETTLED_BYTES
      ]
    },
    {
      title: 'Connections and records',
      across: 3,
      panels: [
        {
          title: 'Connections by purpose',
          about: 'If all of a purpose are used for long, the database is slow. The embedded store has none.',
          unit: 'short',
          queries: [['sum by (store, purpose, state) (onceway_store_connections{@store})', '{{store}} {{purpose}} {{state}}']]
        },
        {
          title: 'Operations that wait',
          about: 'For a connection or for a batch. If it is not 0 for long, the store is slow.',
          unit: 'short',
          queries: [['sum by (store, purpose) (onceway_store_queue{@store})', '{{store}} {{purpose}}']]
        },
        {
          title: 'Records deleted after their retention',
          about: 'indeterminate: an unknown outcome was forgotten, and its key can run again.',
          unit: 'ops',
          alert: 'OncewayUnknownForgotten',
          queries: [['sum by (state) (rate(onceway_records_swept_total{@}[$__rate_interval]))', '{{state}}']]
        }
      ]
    }
  ]
}

const INBOX: Board = {
  name: 'inbox',
  title: 'inbox',
  about: 'Messages that are accepted and delivered later: how many wait, how long, and what becomes of deliveries.',
  variables: [{ name: 'route', of: 'onceway_inbox_bytes', many: true }],
  rows: [
    {
      title: 'Now',
      across: 4,
      panels: [
        {
          title: 'Open messages',
          about: 'Waiting or in delivery.',
          kind: 'stat',
          unit: 'short',
          queries: [['sum(max by (route, state) (onceway_inbox_messages{@route, state=~"waiting|delivering"}))', 'open']]
        },
        {
          title: 'Oldest open message',
          about: 'The time since it was accepted. If it grows, the consumer is away or too slow.',
          kind: 'stat',
          unit: 's',
          alert: 'OncewayInboxOld',
          queries: [['max(onceway_inbox_oldest_seconds{@route})', 'oldest']]
        },
        {
          title: 'Dead messages',
          about: 'Given up. They wait until somebody retries or discards them.',
          kind: 'stat',
          unit: 'short',
          alert: 'OncewayInboxDead',
          queries: [['sum(max by (route) (onceway_inbox_messages{@route, state="dead"}))', 'dead']]
        },
        {
          title: 'Held messages',
          about: 'Sent, with an unknown outcome. Look into the consumer, then discard or retry them.',
          kind: 'stat',
          unit: 'short',
          alert: 'OncewayInboxHeld',
          queries: [['sum(max by (route) (onceway_inbox_messages{@route, state="held"}))', 'held']]
        }
      ]
    },
    {
      title: 'Depth',
      across: 3,
      panels: [
        {
          title: 'Messages by state',
          about: 'All gateways report the same store, so this is the largest report and no sum.',
          unit: 'short',
          queries: [['max by (route, state) (onceway_inbox_messages{@route})', '{{route}} {{state}}']]
        },
        {
          title: 'Age of the oldest open message',
          about: 'By route. Held messages count too.',
          unit: 's',
          alert: 'OncewayInboxOld',
          queries: [['max by (route) (onceway_inbox_oldest_seconds{@route})', '{{route}}']]
        },
        {
          title: 'Bytes of open messages',
          about: 'At inbox.maxBytes senders get 503.',
          unit: 'bytes',
          alert: 'OncewayInboxFull',
          queries: [['max by (route) (onceway_inbox_bytes{@route})', '{{route}}']]
        }
      ]
    },
    {
      title: 'Deliveries',
      across: 3,
      panels: [
        {
          title: 'Accepted messages',
          about: 'accepted-again: the sender sent it before. Compare it with what is delivered.',
          unit: 'reqps',
          queries: [['sum by (outcome) (rate(onceway_requests_total{@route, outcome=~"accepted|accepted-again"}[$__rate_interval]))', '{{outcome}}']]
        },
        {
          title: 'Deliveries by result',
          about: 'again: it failed, and comes again after a pause. The log line of each delivery has its status or error.',
          unit: 'ops',
          stacked: true,
          queries: [['sum by (result) (rate(onceway_inbox_deliveries_total{@route}[$__rate_interval]))', '{{result}}']]
        },
        {
          title: 'Deliveries that fail',
          about: 'The share of deliveries that has to come again.',
          unit: 'percentunit',
          alert: 'OncewayInboxFailing',
          queries: [[
            'sum by (route) (rate(onceway_inbox_deliveries_total{@route, result="again"}[$__rate_interval])) / sum by (route) (rate(onceway_inbox_deliveries_total{@route}[$__rate_interval]))',
            '{{route}}'
          ]]
        },
        {
          title: 'Consumers that fail',
          about: 'For how long they have taken nothing. At inbox.pauseAfter the inbox is paused.',
          unit: 's',
          alert: 'OncewayInboxPaused',
          queries: [['max by (route) (onceway_inbox_failing_seconds{@route})', '{{route}}']]
        },
        {
          title: 'Duration of a delivery',
          about: 'From the request for a connection to the answer of the consumer.',
          unit: 's',
          queries: [
            [p('0.5', 'onceway_inbox_delivery_duration_seconds{@route}'), 'p50'],
            [p('0.99', 'onceway_inbox_delivery_duration_seconds{@route}'), 'p99']
          ]
        },
        {
          title: 'Deliveries of a message',
          about: 'How many it took until it was delivered, dead or held, on average. 1 is best.',
          unit: 'short',
          queries: [[
            'sum by (route) (rate(onceway_inbox_attempts_sum{@route}[$__rate_interval])) / sum by (route) (rate(onceway_inbox_attempts_count{@route}[$__rate_interval]))',
            '{{route}}'
          ]]
        },
        {
          title: 'Kept for replays',
          about: 'Bytes of delivered messages that inbox.keepDelivered keeps, at most inbox.maxKeptBytes.',
          unit: 'bytes',
          queries: [['max by (route) (onceway_inbox_kept_bytes{@route})', '{{route}}']]
        }
      ]
    }
  ]
}

export const BOARDS: readonly Board[] = [OVERVIEW, ROUTE, STORES, INBOX]
