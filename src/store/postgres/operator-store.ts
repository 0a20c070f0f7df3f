/** The port of operators over the connections of a store. Searches have connections of their own. */
import { StoreUnavailable } from '../../ports/errors.ts'
import type { GatewaySeen, OperatorStore, UnknownOutcomes } from '../../ports/operator.ts'
import { StepTimeOver } from '../shared/search.ts'
import { searchAudit } from './audit.ts'
import type { Connections } from './connections.ts'
import { searchMessages } from './message-search.ts'
import { askNow } from './operator.ts'
import { messageGroups, pausedRoutes, pauseRoute, resumeRoute } from './inbox-operator.ts'
import { searchRecords } from './record-search.ts'
import { searching } from './search-step.ts'
import type { Statement } from './statements.ts'

const NOW: Statement = {
  name: 'operator_now',
  writes: false,
  text: () => 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms'
}

const UNKNOWN: Statement = {
  name: 'unknown_by_route',
  writes: false,
  text: (schema) => {
    const younger = (interval: string) => `r.settled_at > statement_timestamp() - interval '${interval}'`
    return `select r.route, count(*)::int as count, (extract(epoch from min(r.settled_at)) * 1000)::float8 as "oldestMs",
       array[count(*) filter (where ${younger('1 hour')}), count(*) filter (where ${younger('1 day')} and not ${younger('1 hour')}),
             count(*) filter (
               where ${younger('7 days')} and not ${younger('1 day')}
             ), count(*) filter (where not ${younger('7 days')})]::int[] as ages
  from ${schema}.records r where r.state = 'indeterminate' group by r.route order by r.route`
  }
}

const GATEWAYS: Statement = {
  name: 'gateways_seen',
  writes: false,
  text: (schema) => `select g.instance, (extract(epoch from max(g.seen_at)) * 1000)::float8 as "seenMs" from ${schema}.gateways g
 where g.seen_at > statement_timestamp() - interval '1 hour' group by g.instance order by max(g.seen_at) desc, g.instance limit 100`
}

/** Half a million records are counted within it. */
const COUNT_WITHIN_MS = 2_000

export function operatorOf ({ search, background }: { readonly search: Connections, readonly background: Connections }): OperatorStore {
  return {
    searchRecords: (order) => searchRecords(search, order),
    searchMessages: (order) => searchMessages(search, order),
    searchAudit: (order) => searchAudit(search, order),
    unknownByRoute: () => searching(
      search,
      COUNT_WITHIN_MS,
      (session) => session.run<UnknownOutcomes>(UNKNOWN, [])
    ).catch((error: unknown) => {
      throw error instanceof StepTimeOver ? new StoreUnavailable('postgres', 'unknown_by_route', false, error) : error
    }),
    groups: (route, limit) => searching(
      search,
      COUNT_WITHIN_MS,
      (session) => messageGroups(session, route, limit)
    ).catch((error: unknown) => {
      if (error instanceof StepTimeOver) return null
      throw error
    }),
    askNow: (token, audit) => background.use('ask_now', (session) => askNow(session, token, audit)),
    paused: () => background.use('paused', pausedRoutes),
    gateways: () => background.use('gateways_seen', (session) => session.run<GatewaySeen>(GATEWAYS, [])),
    pause: (route, audit) => background.use('pause', (session) => pauseRoute(session, route, audit)),
    resume: (route, audit) => background.use('resume', (session) => resumeRoute(session, route, audit)),
    nowMs: async () => {
      const [row] = await background.use('operator_now', (session) => session.run<{ ms: number }>(NOW, []))
      if (row === undefined) throw new TypeError('a select without a table has one row')
      return row.ms
    }
  }
}
