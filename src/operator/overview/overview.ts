/** A gateway and its stores on one page: what it promises, what it does, and what waits for an operator. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { inboxRoutes, InboxRouteView } from '../inbox/routes.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { causeOf, StartError, StoreOverloaded, StoreUnavailable } from '../../ports/errors.ts'
import type { UnknownOutcomes } from '../../ports/operator.ts'
import { OperatorProblem, type Outcome } from '../shared/problem.ts'
import { timeText } from '../shared/query.ts'
import { within } from '../shared/within.ts'
import { closed, Nullable, Time } from '../shared/schema-words.ts'
import type { ProcessView } from './process-view.ts'

const Count = Type.Integer({ minimum: 0 })

const ReloadView = Type.Object({
  at: Time,
  result: Type.Enum(['ok', 'refused']),
  details: Type.Array(Type.String(), { description: 'What has changed, or the mistakes.' })
}, closed)

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
  lastReload: Nullable(ReloadView),
  contact: Type.Object({
    stores: Type.Array(Type.Object({ store: Type.String(), usable: Type.Boolean() }, closed), {
      description: 'false: this process has no contact with it now.'
    }),
    gateways: Nullable(Type.Array(Type.Object({ instance: Type.String(), seenAt: Time }, closed), {
      description: 'With a sign of life in the database within the last hour. Empty: the store is of one process.'
    }))
  }, closed),
  notRead: Type.Array(Type.Object({ part: Type.Enum(['unknown', 'inbox', 'contact.gateways']), why: Type.String() }, closed), {
    description: 'Parts that are null because the database did not give them.'
  }),
  unknown: Nullable(Type.Object({
    count: Count,
    oldestAt: Nullable(Time),
    routes: Type.Array(Type.Object({
      route: Type.String(),
      count: Count,
      oldestAt: Time,
      ages: Type.Array(Count, { description: 'Younger than an hour, than a day, than a week, and older.' })
    }, closed))
  }, { ...closed, description: 'null: it was not read.' })),
  inbox: Nullable(Type.Array(InboxRouteView))
}, closed)

export const ConfigurationView = Type.Object({
  file: Nullable(Type.String()),
  text: Type.String({ description: 'YAML, with all defaults and overrides. Secrets are masked.' }),
  warnings: Type.Array(Type.String()),
  loadedAt: Nullable(Time),
  lastReload: Nullable(ReloadView)
}, closed)

export type OverviewJson = Static<typeof OverviewView>
export type ConfigurationJson = Static<typeof ConfigurationView>

interface GatewayContext extends OperatorContext { readonly gateway: ProcessView | null }

/** Outcomes of requests whose answer came without an execution of their own. An unknown outcome may be that of the first request. */
const AVOIDED = ['replayed', 'not-kept', 'duplicate', 'accepted-again', 'in-flight'] as const

const NO_GATEWAY = new OperatorProblem('not-found', 'No gateway answers here, only its stores: ask with --admin-url.')

/** A part that takes longer is left out, so that the rest comes while the database is away. */
const PART_WITHIN_MS = 3_000

type NotRead = OverviewJson['notRead']

export async function showOverview (context: GatewayContext): Promise<Outcome<OverviewJson>> {
  const { gateway, config, stores } = context
  if (gateway === null) return NO_GATEWAY
  const notRead: NotRead = []
  const part = <Value>(name: NotRead[number]['part'], reading: () => Promise<Value>): Promise<Value | null> =>
    within(PART_WITHIN_MS, reading).catch((error: unknown) => {
      if (!(error instanceof StoreUnavailable || error instanceof StoreOverloaded || error instanceof StartError)) throw error
      notRead.push({ part: name, why: error instanceof StoreUnavailable ? causeOf(error) : error.message })
      return null
    })
  const [{ durability, ...status }, recent, unknown, inbox, gateways] = await Promise.all([
    gateway.readiness(),
    gateway.recent(),
    part('unknown', () => stores.operator.unknownByRoute()),
    part('inbox', () => inboxRoutes(context)),
    part('contact.gateways', () => stores.operator.gateways())
  ])
  const { instance, version, node, workers, startedAtMs, where } = gateway
  return {
    gateway: { instance, version, node, workers, startedAt: timeText(startedAtMs), configFile: config.file },
    status: { ...status, degraded: [...status.degraded] },
    promise: durability === null
      ? null
      : { promise: durability.promise, reasons: [...durability.reasons], remarks: [...durability.remarks] },
    stores: [...where],
    recent: recentJson(recent),
    lastReload: reloadJson(gateway),
    contact: {
      stores: storesOf(config).map((store) => ({ store, usable: !status.degraded.includes(store) })),
      gateways: gateways?.map((each) => ({ instance: each.instance, seenAt: timeText(each.seenMs) })) ?? null
    },
    notRead: notRead.toSorted((one, other) => one.part < other.part ? -1 : 1),
    unknown: unknown === null ? null : unknownJson(unknown),
    inbox: inbox?.routes ?? null
  }
}

function recentJson ({ minutes, routes }: Awaited<ReturnType<ProcessView['recent']>>): OverviewJson['recent'] {
  const counts = routes.flatMap(({ outcomes }) => Object.entries(outcomes))
  const sum = (wanted: (outcome: string) => boolean): number => counts.reduce(
    (all, [outcome, count]) => wanted(outcome) ? all + count : all,
    0
  )
  return {
    minutes,
    requests: sum(() => true),
    executionsAvoided: sum((outcome) => (AVOIDED as readonly string[]).includes(outcome)),
    routes: routes.map((route) => ({ ...route, outcomes: { ...route.outcomes }, perMinute: [...route.perMinute] }))
  }
}

function unknownJson (unknown: readonly UnknownOutcomes[]): OverviewJson['unknown'] {
  const oldestMs = unknown.reduce((oldest, each) => Math.min(oldest, each.oldestMs), Infinity)
  return {
    count: unknown.reduce((all, { count }) => all + count, 0),
    oldestAt: oldestMs === Infinity ? null : timeText(oldestMs),
    routes: unknown.map(({ route, count, oldestMs: since, ages }) => ({ route, count, oldestAt: timeText(since), ages: [...ages] }))
  }
}

/** By the names that `degraded` has. Redis is used with Postgres only. */
function storesOf ({ stores: { postgres, redis } }: OperatorContext['config']): string[] {
  return postgres === null ? ['sqlite'] : ['postgres', ...redis === null ? [] : ['redis']]
}

function reloadJson (gateway: ProcessView | null): OverviewJson['lastReload'] {
  const reload = gateway?.lastReload() ?? null
  return reload === null ? null : { at: timeText(reload.atMs), result: reload.result, details: [...reload.details] }
}

export function showConfiguration ({ gateway, config }: GatewayContext): ConfigurationJson {
  return {
    file: config.file,
    text: config.printed,
    warnings: [...config.warnings],
    loadedAt: gateway === null ? null : timeText(gateway.loadedAtMs()),
    lastReload: reloadJson(gateway)
  }
}
