/** The port of operators over the worker: a search is a step at a time, so that other calls go between. */
import type { AuditRow } from '../../core/record/audit.ts'
import type { MessageSearch, MessageSummary, OperatorStore, Page, RecordSummary } from '../../ports/operator.ts'
import { AUDITS } from '../shared/places.ts'
import { searchStreams, type Step, type Stream } from '../shared/search.ts'
import type { MessageStream, OperatorCall } from './worker-protocol.ts'

/** A call alone, in a transaction of its own if it writes. */
export type CallAlone = <Result>(call: OperatorCall) => Promise<Result>

export function operatorOf (alone: CallAlone, nowMs: () => number): OperatorStore {
  return {
    searchRecords: (search) => {
      const from = (part: 'claimed' | 'settled'): Stream<RecordSummary> => (order) =>
        alone<Step<RecordSummary>>({ op: 'recordStep', search, from: part, order })
      if (search.id !== undefined) return searchStreams([from('settled')], search)
      if (search.state === 'claimed') return searchStreams([from('claimed')], search)
      return searchStreams(search.state === undefined ? [from('claimed'), from('settled')] : [from('settled')], search)
    },
    searchMessages: (search) => searchMessages(alone, search),
    searchAudit: (search) => searchStreams(AUDITS.map((kind): Stream<AuditRow> => (order) =>
      alone<Step<AuditRow>>({ op: 'auditStep', search, kind, order })), search),
    unknownByRoute: () => alone({ op: 'unknownByRoute' }),
    groups: (route, limit) => alone({ op: 'messageGroups', route, limit }),
    askNow: (token, audit) => alone({ op: 'askNow', token, audit }),
    paused: () => alone({ op: 'paused' }),
    gateways: () => Promise.resolve([]),
    pause: (route, audit) => alone({ op: 'pause', route, audit }),
    resume: (route, audit) => alone({ op: 'resume', route, audit }),
    nowMs: () => Promise.resolve(nowMs())
  }
}

/** In the order in which a message goes through them. */
const OPEN_STATES = ['waiting', 'delivering', 'held', 'dead'] as const

async function searchMessages (alone: CallAlone, search: MessageSearch): Promise<Page<MessageSummary>> {
  const streamOf = (stream: MessageStream): Stream<MessageSummary> => (order) =>
    alone<Step<MessageSummary>>({ op: 'messageStep', search, stream, order })
  const { id, state, route } = search
  if (id !== undefined) return searchStreams([streamOf('ended')], search)
  // All states of a route: a message goes from one to another while it is looked for.
  const states = OPEN_STATES.filter((each) => state === undefined || each === state)
  const routes = route !== undefined || states.length === 0 ? [route ?? ''] : await alone<string[]>({ op: 'openRoutes' })
  const parts = routes.flatMap((each) => states.map((of) => ({ route: each, state: of })))
  const hasEnded = state === undefined || state === 'delivered' || state === 'discarded'
  return searchStreams([...parts, ...hasEnded ? ['ended' as const] : []].map(streamOf), search)
}
