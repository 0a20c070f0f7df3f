/** A gateway and its stores on one page: what it promises, what it does, and what waits for an operator. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { inboxRoutes, InboxRouteView } from '../inbox/routes.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { OperatorProblem, type Outcome } from '../shared/problem.ts'
import { timeText } from '../shared/query.ts'
import { closed, Nullable, Time } from '../shared/schema-words.ts'
import type { ProcessView } from './process-view.ts'

const Count = Type.Integer({ minimum: 0 })

export const OverviewView = Type.Object({
  gateway: Type.Object({
    instance: Type.String(),
    version: Type.String(),
    node: Type.String(),
    workers: Count,
    startedAt: Time,
    configFile: Nullable(Type.String())
  }, closed),
  status: Type.Object({
    status: Type.Enum(['ready', 'degraded', 'starting', 'draining', 'blocked']),
    degraded: Type.Array(Type.String(), { description: 'Stores that cannot be used now.' }),
    reason: Nullable(Type.String())
  }, closed),
  promise: Nullable(Type.Object({
    promise: Type.Enum(['strict', 'weakened']),
    reasons: Type.Array(Type.String()),
    remarks: Type.Array(Type.String())
  }, { ...closed, description: 'Which guarantee holds (docs/concepts/guarantees.md). null: the database has not been read yet.' })),
  stores: Type.Array(Type.String()),
  recent: Type.Object({
    minutes: Type.Integer({ description: 'So many minutes, of this gateway alone, and of nothing before its start.' }),
    requests: Count,
    executionsAvoided: Type.Integer({ minimum: 0, description: 'Requests that got an answer without an execution of their own.' }),
    routes: Type.Array(Type.Object({
      route: Type.String(),
      outcomes: Type.Record(Type.String(), Count),
      perMinute: Type.Array(Count),
      p50Ms: Nullable(Type.Number()),
      p95Ms: Nullable(Type.Number()),
      p99Ms: Nullable(Type.Number())
    }, closed))
  }, closed),
  unknown: Type.Object({
    count: Count,
    oldestAt: Nullable(Time),
    routes: Type.Array(Type.Object({
      route: Type.String(),
      count: Count,
      oldestAt: Time,
      ages: Type.Array(Count, { description: 'Younger than an hour, than a day, than a week, and older.' })
    }, closed))
  }, closed),
  inbox: Type.Array(InboxRouteView)
}, closed)

export const ConfigurationView = Type.Object({
  file: Nullable(Type.String()),
  text: Type.String({ description: 'YAML, with all defaults and overrides. Secrets are masked.' }),
  warnings: Type.Array(Type.String()),
  loadedAt: Nullable(Time),
  lastReload: Nullable(Type.Object({
    at: Time,
    result: Type.Enum(['ok', 'refused']),
    details: Type.Array(Type.String(), { description: 'What has changed, or the mistakes.' })
  }, closed))
}, closed)

export type OverviewJson = Static<typeof OverviewView>
export type ConfigurationJson = Static<typeof ConfigurationView>

interface GatewayContext extends OperatorContext { readonly gateway: ProcessView | null }

/** Outcomes of requests whose answer came without an execution of their own. An unknown outcome may be that of the first request. */
const AVOIDED = ['replayed', 'not-kept', 'duplicate', 'accepted-again', 'in-flight'] as const

const NO_GATEWAY = new OperatorProblem('not-found', 'No gateway answers here, only its stores: ask with --admin-url.')

export async function showOverview (context: GatewayContext): Promise<Outcome<OverviewJson>> {
  const { gateway, config, stores } = context
  if (gateway === null) return NO_GATEWAY
  const [{ durability, ...status }, recent, unknown, inbox] = await Promise.all([
    gateway.readiness(), gateway.recent(), stores.operator.unknownByRoute(), inboxRoutes(context)
  ])
  const counts = recent.routes.flatMap(({ outcomes }) => Object.entries(outcomes))
  const sum = (wanted: (outcome: string) => boolean): number => counts.reduce(
    (all, [outcome, count]) => wanted(outcome) ? all + count : all,
    0
  )
  const oldestMs = unknown.reduce((oldest, each) => Math.min(oldest, each.oldestMs), Infinity)
  const { instance, version, node, workers, startedAtMs, where } = gateway
  return {
    gateway: { instance, version, node, workers, startedAt: timeText(startedAtMs), configFile: config.file },
    status: { ...status, degraded: [...status.degraded] },
    promise: durability === null
      ? null
      : { promise: durability.promise, reasons: [...durability.reasons], remarks: [...durability.remarks] },
    stores: [...where],
    recent: {
      minutes: recent.minutes,
      requests: sum(() => true),
      executionsAvoided: sum((outcome) => (AVOIDED as readonly string[]).includes(outcome)),
      routes: recent.routes.map((route) => ({ ...route, outcomes: { ...route.outcomes }, perMinute: [...route.perMinute] }))
    },
    unknown: {
      count: unknown.reduce((all, { count }) => all + count, 0),
      oldestAt: oldestMs === Infinity ? null : timeText(oldestMs),
      routes: unknown.map(({ route, count, oldestMs: since, ages }) => ({ route, count, oldestAt: timeText(since), ages: [...ages] }))
    },
    inbox: inbox.routes
  }
}

export function showConfiguration ({ gateway, config }: GatewayContext): ConfigurationJson {
  const reload = gateway?.lastReload() ?? null
  return {
    file: config.file,
    text: config.printed,
    warnings: [...config.warnings],
    loadedAt: gateway === null ? null : timeText(gateway.loadedAtMs()),
    lastReload: reload === null ? null : { at: timeText(reload.atMs), result: reload.result, details: [...reload.details] }
  }
}
