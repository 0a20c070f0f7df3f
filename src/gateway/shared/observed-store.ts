/**
 * The arbiter as the gateway sees it: what each call comes to tells each contact (E2b). Only an acknowledged write is contact:
 * where commits hang, or one row is locked, the living cannot renew, and whatever can still be read says nothing of that. A read,
 * a refusal, a write that changed nothing are neither contact nor its end; a store that does not answer ends it. The calls
 * themselves are passed on unchanged.
 */
import { StoreUnavailable } from '../../ports/errors.ts'
import type { InboxStore } from '../../ports/inbox.ts'
import type { RecordStore } from '../../ports/records.ts'
import type { LapseGuard } from './lapse-guard.ts'

/** `wrote`: by its result the call has certainly written. Absent: nobody can tell, or it never does. */
type Tell = <T> (call: Promise<T>, wrote?: (result: T) => boolean) => Promise<T>

function tellOf (guards: readonly LapseGuard[]): Tell {
  return async (call, wrote = () => false) => {
    try {
      const result = await call
      if (wrote(result)) for (const lapseGuard of guards) lapseGuard.kept()
      return result
    } catch (error) {
      // A refusal is an answer: somebody's lock on one row says nothing about the database.
      if (error instanceof StoreUnavailable && !error.answered) for (const lapseGuard of guards) lapseGuard.broken()
      throw error
    }
  }
}

const isWon = ({ kind }: { readonly kind: string }): boolean => kind === 'won'
const isSettled = ({ kind }: { readonly kind: string }): boolean => kind === 'settled'
const isAny = (changed: readonly unknown[]): boolean => changed.length > 0
const always = (): boolean => true

export function observed (records: RecordStore, ...guards: readonly LapseGuard[]): RecordStore {
  const tell = tellOf(guards)
  return {
    name: records.name,
    get installation () { return records.installation },
    insert: async (claim) => tell(records.insert(claim), isWon),
    take: async (seen, claim, mayRetry) => tell(records.take(seen, claim, mayRetry), isWon),
    confirm: async (claim) => tell(records.confirm(claim), isWon),
    look: async (id) => tell(records.look(id)),
    schemes: async () => tell(records.schemes()),
    endEarlierScheme: async () => tell(records.endEarlierScheme()),
    lostAlgorithms: async (lost, route) => tell(records.lostAlgorithms(lost, route)),
    mayBeLost: async (question) => tell(records.mayBeLost(question)),
    renew: async (tokens) => tell(records.renew(tokens), (results) => results.includes('renewed')),
    settle: async (settlement) => tell(records.settle(settlement), isSettled),
    settleLost: async (settlement, claim, ageMs) => tell(records.settleLost(settlement, claim, ageMs), isSettled),
    lapse: async (order) => tell(records.lapse(order), isAny),
    sweep: async (limit) => tell(records.sweep(limit), isAny),
    takeProbes: async (order) => tell(records.takeProbes(order), isAny),
    noteProbe: async (note) => tell(records.noteProbe(note), (noted) => noted),
    unresolved: async () => tell(records.unresolved()),
    list: async (filter) => records.list(filter),
    resolve: async (resolution) => records.resolve(resolution),
    expire: async (token, audit) => records.expire(token, audit),
    beat: async (sign) => tell(records.beat(sign), always),
    close: async () => records.close()
  }
}

/** The same for what the inbox's workers write. What is accepted at the door says nothing of them, nor do people's changes. */
export function observedInbox (inbox: InboxStore, ...guards: readonly LapseGuard[]): InboxStore {
  const tell = tellOf(guards)
  return {
    accept: async (message) => inbox.accept(message),
    acceptAll: async (messages) => inbox.acceptAll(messages),
    look: async (id) => inbox.look(id),
    alive: async (owner, leaseMs) => tell(inbox.alive(owner, leaseMs), always),
    gone: async (owner) => inbox.gone(owner),
    take: async (order) => tell(inbox.take(order), isAny),
    settle: async (token, fate) => tell(inbox.settle(token, fate), (settled) => settled),
    recover: async (limit) => inbox.recover(limit),
    dueInMs: async (routes) => inbox.dueInMs(routes),
    depths: async () => inbox.depths(),
    list: async (filter) => inbox.list(filter),
    retry: async (filter, audit) => inbox.retry(filter, audit),
    discard: async (filter, audit) => inbox.discard(filter, audit),
    sweep: async (limit) => inbox.sweep(limit)
  }
}
