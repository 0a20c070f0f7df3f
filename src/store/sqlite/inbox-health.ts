/** The health of consumers in one SQLite connection (core/inbox/health.ts). */
import { PAUSED_BY } from '../../core/inbox/health.ts'
import type { HealthChange, RouteHealth } from '../../core/inbox/health.ts'
import type { Prepare } from './inbox-operator.ts'
import { beginTrial, fails, failsNoMore, health, pauseOwn, resumeOwn } from './inbox-statements.ts'

interface HealthColumns {
  readonly route: string
  readonly forMs: number | null
  readonly lastMs: number | null
  readonly isPaused: number
  readonly trialInMs: number | null
}

export function routeHealth (prepare: Prepare, nowMs: number): RouteHealth[] {
  const rows = prepare(health).all(nowMs) as unknown as HealthColumns[]
  return rows.map(({ route, forMs, lastMs, isPaused, trialInMs }) => ({
    route,
    failing: forMs === null || lastMs === null ? null : { forMs, lastMs },
    pause: isPaused === 1 ? { trialInMs } : null
  }))
}

export function changeHealth (prepare: Prepare, change: HealthChange, nowMs: number): boolean {
  const { route } = change
  switch (change.kind) {
    case 'failing': return prepare(fails).run(route, nowMs, nowMs - Math.round(change.gapMs)).changes === 1
    case 'well':
      prepare(failsNoMore).run(route)
      return prepare(resumeOwn).run(route).changes === 1
    case 'pause': {
      const trialAtMs = nowMs + Math.round(change.trialMs)
      return prepare(pauseOwn).run(route, nowMs, PAUSED_BY, change.why, trialAtMs, nowMs - Math.round(change.afterMs)).changes === 1
    }
    case 'trial': return prepare(beginTrial).run(nowMs + Math.round(change.trialMs), route, nowMs).changes === 1
  }
}
