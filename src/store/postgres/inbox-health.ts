/** The health of consumers (core/inbox/health.ts): since when one fails, and the pause that follows. */
import { PAUSED_BY } from '../../core/inbox/health.ts'
import type { HealthChange, RouteHealth } from '../../core/inbox/health.ts'
import type { Session, Statement } from './statements.ts'

interface HealthColumns {
  readonly route: string
  readonly for_ms: number | null
  readonly last_ms: number | null
  readonly is_paused: boolean
  readonly trial_in_ms: number | null
}

const ROUTE_HEALTH: Statement = {
  name: 'route_health',
  writes: false,
  text: (schema) => `select route, (extract(epoch from clock_timestamp() - f.since) * 1000)::float8 as for_ms,
       (extract(epoch from clock_timestamp() - f.last_at) * 1000)::float8 as last_ms,
       p.since is not null as is_paused, (extract(epoch from p.trial_at - clock_timestamp()) * 1000)::float8 as trial_in_ms
  from ${schema}.failing_routes f full join ${schema}.paused_routes p using (route)`
}

export async function routeHealth (session: Session): Promise<RouteHealth[]> {
  const rows = await session.run<HealthColumns>(ROUTE_HEALTH, [])
  return rows.map(({ route, for_ms: forMs, last_ms: lastMs, is_paused: isPaused, trial_in_ms: trialInMs }) => ({
    route,
    failing: forMs === null || lastMs === null ? null : { forMs, lastMs },
    pause: isPaused ? { trialInMs } : null
  }))
}

/** $2: after so long without a failure it is a new one. */
const ROUTE_FAILS: Statement = {
  name: 'route_fails',
  writes: true,
  text: (schema) => `insert into ${schema}.failing_routes as f (route) values ($1)
on conflict (route) do update
   set since = case when f.last_at < clock_timestamp() - $2::bigint * interval '1 ms' then excluded.since else f.since end,
       last_at = excluded.last_at
returning route`
}

/** Says whether a pause ended. */
const ROUTE_WELL: Statement = {
  name: 'route_well',
  writes: true,
  text: (schema) => `with well as (
  delete from ${schema}.failing_routes where route = $1
)
delete from ${schema}.paused_routes where route = $1 and trial_at is not null returning route`
}

/** $2 why, $3 until the first trial, $4 for how long it must have failed. Another process may have seen it well meanwhile. */
const ROUTE_PAUSE: Statement = {
  name: 'route_pause',
  writes: true,
  text: (schema) => `insert into ${schema}.paused_routes (route, who, why, trial_at)
select f.route, '${PAUSED_BY}', $2, clock_timestamp() + $3::bigint * interval '1 ms' from ${schema}.failing_routes f
 where f.route = $1 and f.since <= clock_timestamp() - $4::bigint * interval '1 ms'
on conflict (route) do nothing
returning route`
}

/** One process of all gets it. */
const ROUTE_TRIAL: Statement = {
  name: 'route_trial',
  writes: true,
  text: (schema) => `update ${schema}.paused_routes set trial_at = clock_timestamp() + $2::bigint * interval '1 ms'
 where route = $1 and trial_at <= clock_timestamp() returning route`
}

export async function changeHealth (session: Session, change: HealthChange): Promise<boolean> {
  const { route } = change
  const ran = async (statement: Statement, ...values: ReadonlyArray<string | number>): Promise<boolean> =>
    (await session.run(statement, [route, ...values])).length > 0
  switch (change.kind) {
    case 'failing': return ran(ROUTE_FAILS, Math.round(change.gapMs))
    case 'well': return ran(ROUTE_WELL)
    case 'pause': return ran(ROUTE_PAUSE, change.why, Math.round(change.trialMs), Math.round(change.afterMs))
    case 'trial': return ran(ROUTE_TRIAL, Math.round(change.trialMs))
  }
}
