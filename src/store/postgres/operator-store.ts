/** The port of operators over the connections of a store. Searches have connections of their own. */
import type { OperatorStore } from '../../ports/operator.ts'
import { searchAudit } from './audit.ts'
import type { Connections } from './connections.ts'
import { searchMessages } from './message-search.ts'
import { askNow } from './operator.ts'
import { pausedRoutes, pauseRoute, resumeRoute } from './paused-routes.ts'
import { searchRecords } from './record-search.ts'
import type { Statement } from './statements.ts'

const NOW: Statement = {
  name: 'operator_now',
  writes: false,
  text: () => 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms'
}

export function operatorOf ({ search, background }: { readonly search: Connections, readonly background: Connections }): OperatorStore {
  return {
    searchRecords: (order) => searchRecords(search, order),
    searchMessages: (order) => searchMessages(search, order),
    searchAudit: (order) => searchAudit(search, order),
    askNow: (token, audit) => background.use('ask_now', (session) => askNow(session, token, audit)),
    paused: () => background.use('paused', pausedRoutes),
    pause: (route, audit) => background.use('pause', (session) => pauseRoute(session, route, audit)),
    resume: (route, audit) => background.use('resume', (session) => resumeRoute(session, route, audit)),
    nowMs: async () => {
      const [row] = await search.use('operator_now', (session) => session.run<{ ms: number }>(NOW, []))
      if (row === undefined) throw new TypeError('a select without a table has one row')
      return row.ms
    }
  }
}
