/**
 * The arbiter as the gateway sees it: every call's success or failure tells the contact (E2b). The calls themselves are
 * passed on unchanged.
 */
import { StoreUnavailable } from '../errors.ts'
import type { RecordStore } from '../ports.ts'
import type { Contact } from './contact.ts'

export function observed (records: RecordStore, contact: Contact): RecordStore {
  const tell = async <T> (call: Promise<T>): Promise<T> => {
    try {
      const result = await call
      contact.kept()
      return result
    } catch (error) {
      if (error instanceof StoreUnavailable) contact.broken()
      throw error
    }
  }
  return {
    name: records.name,
    get installation () { return records.installation },
    insert: async claim => await tell(records.insert(claim)),
    take: async (seen, claim, mayRetry) => await tell(records.take(seen, claim, mayRetry)),
    confirm: async claim => await tell(records.confirm(claim)),
    look: async id => await tell(records.look(id)),
    renew: async tokens => await tell(records.renew(tokens)),
    settle: async settlement => await tell(records.settle(settlement)),
    settleLost: async (settlement, claim) => await tell(records.settleLost(settlement, claim)),
    lapse: async order => await tell(records.lapse(order)),
    sweep: async limit => await tell(records.sweep(limit)),
    unresolved: async () => await tell(records.unresolved()),
    list: async filter => await records.list(filter),
    resolve: async resolution => await records.resolve(resolution),
    expire: async (token, audit) => await records.expire(token, audit),
    ping: async () => await tell(records.ping()),
    close: async () => await records.close()
  }
}
