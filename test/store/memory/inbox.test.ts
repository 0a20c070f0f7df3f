/** The inbox in memory passes the suite of its port. */
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { inboxConformance } from '../../conformance/inbox.ts'

inboxConformance('memory', () => {
  let now = 1_800_000_000_000
  const records = new MemoryStore({ nowMs: () => now })
  const store = new MemoryInbox({ nowMs: () => now, records })
  return Promise.resolve({
    store,
    records,
    switchScheme: (...order) => Promise.resolve(records.switchScheme(...order)),
    advance: (ms) => { now += ms },
    requestBytes: (id) => Promise.resolve(store.requestBytes(id)),
    audits: () => Promise.resolve(store.audits.map(({ action, who, why }) => ({ action, who, why })))
  })
})
