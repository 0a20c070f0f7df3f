/**
 * Wraps the stores and reports the result of each call to the lapse guards (E2b). The calls themselves are unchanged. Replies of the lanes
 * are reported by the requests that get them (execution/guarded-request.ts).
 * - An acknowledged write is contact. Only a write is: if commits hang, owners cannot renew although reads work.
 * - A store that does not answer breaks contact.
 * - A read, a refusal or a write that changed nothing does neither.
 */
import { StoreUnavailable } from '../../ports/errors.ts'
import type { InboxStore } from '../../ports/inbox.ts'
import type { RecordStore } from '../../ports/records.ts'
import type { LapseGuard } from './lapse-guard.ts'

/** A store that does not answer breaks contact. A refusal is an answer: a lock on one row says nothing about the database. */
export function breaksContact (error: unknown): boolean {
  return error instanceof StoreUnavailable && !error.answered
}

/** `wrote`: whether a result proves that the call has written. Absent: no result proves it. */
type Track = <T> (call: Promise<T>, wrote?: (result: T) => boolean) => Promise<T>

function trackerOf (guards: readonly LapseGuard[]): Track {
  return async (call, wrote = () => false) => {
    try {
      const result = await call
      if (wrote(result)) for (const lapseGuard of guards) lapseGuard.confirmContact()
      return result
    } catch (error) {
      if (breaksContact(error)) for (const lapseGuard of guards) lapseGuard.breakContact()
      throw error
    }
  }
}

const isWon = ({ kind }: { readonly kind: string }): boolean => kind === 'won'
const isSettled = ({ kind }: { readonly kind: string }): boolean => kind === 'settled'
const isAny = (changed: readonly unknown[]): boolean => changed.length > 0
const isTrue = (changed: boolean): boolean => changed
const always = (): boolean => true

export function trackContact (records: RecordStore, ...guards: readonly LapseGuard[]): RecordStore {
  const track = trackerOf(guards)
  return {
    name: records.name,
    get installation () { return records.installation },
    insert: async (claim) => track(records.insert(claim), isWon),
    take: async (seen, claim, mayRetry) => track(records.take(seen, claim, mayRetry), isWon),
    confirm: async (claim) => track(records.confirm(claim), isWon),
    look: async (id) => track(records.look(id)),
    schemes: async () => track(records.schemes()),
    endEarlierScheme: async () => track(records.endEarlierScheme()),
    lostAlgorithms: async (lost, route) => track(records.lostAlgorithms(lost, route)),
    mayBeLost: async (question) => track(records.mayBeLost(question)),
    renew: async (tokens) => track(records.renew(tokens), (results) => results.includes('renewed')),
    settle: async (settlement) => track(records.settle(settlement), isSettled),
    settleLost: async (settlement, claim, ageMs) => track(records.settleLost(settlement, claim, ageMs), isSettled),
    lapse: async (order) => track(records.lapse(order), isAny),
    sweep: async (limit) => track(records.sweep(limit), isAny),
    takeProbes: async (order) => track(records.takeProbes(order), isAny),
    noteProbe: async (note) => track(records.noteProbe(note), (noted) => noted),
    unresolved: async () => track(records.unresolved()),
    list: async (filter) => records.list(filter),
    resolve: async (resolution) => records.resolve(resolution),
    expire: async (token, audit) => records.expire(token, audit),
    beat: async (sign) => track(records.beat(sign), always),
    close: async () => records.close()
  }
}

/** The same for writes of the inbox's workers. Acceptances and operators' changes are neither contact nor its end. */
export function trackWorkerContact (inbox: InboxStore, ...guards: readonly LapseGuard[]): InboxStore {
  const track = trackerOf(guards)
  return {
    accept: (message) => inbox.accept(message),
    acceptAll: async (messages) => inbox.acceptAll(messages),
    look: async (id) => inbox.look(id),
    deliveries: async (id) => inbox.deliveries(id),
    alive: async (owner, leaseMs) => track(inbox.alive(owner, leaseMs), always),
    gone: async (owner) => inbox.gone(owner),
    take: async (order) => track(inbox.take(order), isAny),
    postpone: async (tenant, forMs, limit) => inbox.postpone(tenant, forMs, limit),
    allow: async (question) => inbox.allow(question),
    health: async () => inbox.health(),
    changeHealth: async (change) => inbox.changeHealth(change),
    settle: (token, fate) => track(inbox.settle(token, fate), isTrue),
    recover: async (limit) => inbox.recover(limit),
    dueInMs: async (routes) => inbox.dueInMs(routes),
    depths: async () => inbox.depths(),
    list: async (filter) => inbox.list(filter),
    retry: async (filter, audit) => inbox.retry(filter, audit),
    discard: async (filter, audit) => inbox.discard(filter, audit),
    replay: async (filter, audit) => inbox.replay(filter, audit),
    kept: async (bounds) => inbox.kept(bounds),
    dropRequests: async (beyond, limit) => inbox.dropRequests(beyond, limit),
    sweep: async (limit) => inbox.sweep(limit)
  }
}
