/** The port of operators over the worker: a search is a step at a time, so that other calls go between. */
import type { MessageDetail } from '../../core/inbox/message.ts'
import { MESSAGE_STATES } from '../../core/inbox/message.ts'
import type { AuditRow } from '../../core/record/audit.ts'
import type { MessageSearch, OperatorStore, RecordSummary } from '../../ports/operator.ts'
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
    searchMessages: async (search) => {
      const streams = search.id === undefined ? messageStreams(search, await alone<string[]>({ op: 'openRoutes' })) : ['ended' as const]
      return searchStreams(streams.map((stream): Stream<MessageDetail> => (order) =>
        alone<Step<MessageDetail>>({ op: 'messageStep', search, stream, order })), search)
    },
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

/** Those in which anything may match. */
function messageStreams ({ route, state }: MessageSearch, routes: readonly string[]): MessageStream[] {
  const hasEnded = state === undefined || state === 'delivered' || state === 'discarded'
  const open = MESSAGE_STATES.filter((each) => each !== 'delivered' && each !== 'discarded')
    .filter((each) => state === undefined || each === state)
    .flatMap((each) => routes.filter((name) => route === undefined || name === route).map((name) => ({ state: each, route: name })))
  return hasEnded ? [...open, 'ended'] : open
}
