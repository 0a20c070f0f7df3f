/** Routes that accept and do not deliver. Each change writes its audit row in the same statement. */
import type { MessageAudit } from '../../ports/inbox.ts'
import type { PausedRoute } from '../../ports/operator.ts'
import type { Session, Statement } from './statements.ts'

/** In a take and in a look for what is due. `route`: an expression. */
export function isPaused (schema: string, route: string): string {
  return `exists (select from ${schema}.paused_routes p where p.route = ${route})`
}

const PAUSED: Statement = {
  name: 'paused',
  writes: false,
  text: (schema) =>
    `select route, (extract(epoch from since) * 1000)::float8 as "sinceMs", who, why from ${schema}.paused_routes order by route`
}

export async function pausedRoutes (session: Session): Promise<PausedRoute[]> {
  return session.run<PausedRoute>(PAUSED, [])
}

/** $1 route, $2 who, $3 why, $4 via. */
const audited = (schema: string, action: 'pause' | 'resume', [before, after]: readonly [string, string]) => `
insert into ${schema}.message_audit (action, state, route, who, why, via, before, after)
select '${action}', '${after}', c.route, $2, $3, $4::text, jsonb_build_object('state', '${before}'), jsonb_build_object('state', '${after}') from changed c
returning route`

const PAUSE: Statement = {
  name: 'pause',
  writes: true,
  text: (schema) => `with changed as (
  insert into ${schema}.paused_routes (route, who, why) values ($1, $2, $3) on conflict (route) do nothing returning route
)${audited(schema, 'pause', ['delivers', 'paused'])}`
}

const RESUME: Statement = {
  name: 'resume',
  writes: true,
  text: (schema) => `with changed as (
  delete from ${schema}.paused_routes where route = $1 returning route
)${audited(schema, 'resume', ['paused', 'delivers'])}`
}

export async function pauseRoute (session: Session, route: string, audit: MessageAudit): Promise<boolean> {
  return change(session, PAUSE, route, audit)
}

export async function resumeRoute (session: Session, route: string, audit: MessageAudit): Promise<boolean> {
  return change(session, RESUME, route, audit)
}

async function change (session: Session, statement: Statement, route: string, { who, why, via }: MessageAudit): Promise<boolean> {
  return (await session.run(statement, [route, who, why, via ?? null])).length > 0
}
