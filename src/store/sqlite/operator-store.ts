/** The port of operators over the worker: a search is a step at a time, so that other calls go between. */
import type { AuditRow } from '../../core/record/audit.ts'
import { StoreOverloaded } from '../../ports/errors.ts'
import type { MessageSearch, MessageSummary, OperatorStore, Page, RecordSearch, RecordSummary } from '../../ports/operator.ts'
import { AUDITS } from '../shared/places.ts'
import { searchStreams, type Step, type Stream } from '../shared/search.ts'
import { SNAPSHOTS_MAX } from './snapshots.ts'
import type { MessageStream, OperatorCall, SearchCall } from './worker-protocol.ts'

/** A call alone, in a transaction of its own if it writes. */
export type CallAlone = <Result>(call: OperatorCall) => Promise<Result>

/** A call in the snapshot of one search. */
type CallInside = <Result>(call: SearchCall) => Promise<Result>

export function operatorOf (alone: CallAlone, nowMs: () => number): OperatorStore {
  const inSnapshot = snapshotsOver(alone)
  return {
    searchRecords: (search) => inSnapshot((inside) => searchRecords(inside, search)),
    searchMessages: (search) => inSnapshot((inside) => searchMessages(inside, search)),
    searchAudit: (search) => inSnapshot((inside) => searchStreams(AUDITS.map((kind): Stream<AuditRow> => (order) =>
      inside<Step<AuditRow>>({ op: 'auditStep', search, kind, order })), search)),
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

type InSnapshot = <Row>(search: (inside: CallInside) => Promise<Page<Row>>) => Promise<Page<Row>>

function snapshotsOver (alone: CallAlone): InSnapshot {
  let last = 0
  let open = 0
  return async (search) => {
    if (open >= SNAPSHOTS_MAX) throw new StoreOverloaded('sqlite searches')
    open++
    const snapshot = ++last
    const inside: CallInside = (call) => alone({ ...call, snapshot })
    try {
      return await search(inside)
    } finally {
      // A worker that does not take it has ended, or ends what was left behind.
      await inside({ op: 'searchEnd' }).catch(() => {})
      open--
    }
  }
}

function searchRecords (inside: CallInside, search: RecordSearch): Promise<Page<RecordSummary>> {
  const from = (part: 'claimed' | 'settled'): Stream<RecordSummary> => (order) =>
    inside<Step<RecordSummary>>({ op: 'recordStep', search, from: part, order })
  if (search.id !== undefined) return searchStreams([from('settled')], search)
  if (search.state === 'claimed') return searchStreams([from('claimed')], search)
  return searchStreams(search.state === undefined ? [from('claimed'), from('settled')] : [from('settled')], search)
}

/** In the order in which a message goes through them. */
const OPEN_STATES = ['waiting', 'delivering', 'held', 'dead'] as const

async function searchMessages (inside: CallInside, search: MessageSearch): Promise<Page<MessageSummary>> {
  const streamOf = (stream: MessageStream): Stream<MessageSummary> => (order) =>
    inside<Step<MessageSummary>>({ op: 'messageStep', search, stream, order })
  const { id, state, route } = search
  if (id !== undefined) return searchStreams([streamOf('ended')], search)
  const states = OPEN_STATES.filter((each) => state === undefined || each === state)
  const routes = route !== undefined || states.length === 0 ? [route ?? ''] : await inside<string[]>({ op: 'openRoutes' })
  const parts = routes.flatMap((each) => states.map((of) => ({ route: each, state: of })))
  const hasEnded = state === undefined || state === 'delivered' || state === 'discarded'
  return searchStreams([...parts, ...hasEnded ? ['ended' as const] : []].map(streamOf), search)
}
