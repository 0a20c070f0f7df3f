/**
 * The arbiter as the gateway sees it: every call's success or failure tells each contact (E2b). The calls themselves are
 * passed on unchanged.
 */
import { StoreUnavailable } from '../errors.ts'
import type { RecordStore } from '../ports.ts'
import type { Contact } from './contact.ts'

export function observed (records: RecordStore, ...contacts: readonly Contact[]): RecordStore {
  const tell = async <T> (call: Promise<T>): Promise<T> => {
    try {
      const result = await call
      for (const contact of contacts) contact.kept()
      return result
    } catch (error) {
      // A refusal is an answer: somebody's lock on one row says nothing about the database.
      if (error instanceof StoreUnavailable) for (const contact of contacts) error.answered ? contact.kept() : contact.broken()
      throw error
    }
  }
  return {
    name: records.name,
    get installation () { return records.installation },
    insert: async claim => tell(records.insert(claim)),
    take: async (seen, claim, mayRetry) => tell(records.take(seen, claim, mayRetry)),
    confirm: async claim => tell(records.confirm(claim)),
    look: async id => tell(records.look(id)),
    renew: async tokens => tell(records.renew(tokens)),
    settle: async settlement => tell(records.settle(settlement)),
    settleLost: async (settlement, claim, ageMs) => tell(records.settleLost(settlement, claim, ageMs)),
    lapse: async order => tell(records.lapse(order)),
    sweep: async limit => tell(records.sweep(limit)),
    takeProbes: async order => tell(records.takeProbes(order)),
    noteProbe: async note => tell(records.noteProbe(note)),
    unresolved: async () => tell(records.unresolved()),
    list: async filter => records.list(filter),
    resolve: async resolution => records.resolve(resolution),
    expire: async (token, audit) => records.expire(token, audit),
    beat: async sign => tell(records.beat(sign)),
    close: async () => records.close()
  }
}
