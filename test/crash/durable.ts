/**
 * The store that survives a simulated process: the memory store (the same object), or one SQLite file, which is opened again as after a
 * death. SQLite runs on this thread, which is fast enough for a case for each call, or behind its worker as in production.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Lapsed, RecordStore } from '../../src/ports/records.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { Database } from '../../src/store/sqlite/database.ts'
import { errorOf, Faulted } from '../../src/store/sqlite/faults.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { revived } from '../../src/store/sqlite/worker-protocol.ts'
import type { Call } from '../../src/store/sqlite/worker-protocol.ts'
import { QUICKEST } from '../harness/directory.ts'
import type { Timeline } from '../harness/timeline.ts'

export type StoreKind = 'memory' | 'sqlite' | 'sqlite-worker'

export interface Opened {
  readonly records: RecordStore
  /** Claims of a dead process that the opening made indeterminate. */
  readonly lapsed: readonly Lapsed[]
}

export interface Durable {
  /** The first opening and every one after a death. The one before is closed first. */
  readonly open: () => Promise<Opened>
  readonly close: () => Promise<void>
}

export function durableOf (kind: StoreKind, timeline: Timeline): Durable {
  switch (kind) {
    case 'memory': return inMemory(timeline)
    case 'sqlite': return inFile(timeline, async (dataDir, nowMs) => onThisThread(dataDir, nowMs))
    case 'sqlite-worker': return inFile(timeline, behindWorker)
  }
}

function inMemory (timeline: Timeline): Durable {
  const records = new MemoryStore({ nowMs: () => timeline.wallMs, installation: 'simulated' })
  return { open: async () => ({ records, lapsed: [] }), close: async () => {} }
}

type Open = (dataDir: string, nowMs: () => number) => Promise<Opened>

function inFile (timeline: Timeline, open: Open): Durable {
  const dataDir = mkdtempSync(join(QUICKEST, 'onceway-crash-'))
  let current: RecordStore | null = null
  const close = async (): Promise<void> => { await current?.close() }
  return {
    open: async () => {
      const opened = await timeline.real(close().then(async () => open(dataDir, () => timeline.wallMs)))
      current = opened.records
      return { lapsed: opened.lapsed, records: standingStill(opened.records, timeline) }
    },
    close: async () => {
      await close()
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
}

/** A worker answers in real time. Virtual time stands still until then. So its lanes are left out: they call back at any time. */
function standingStill (records: RecordStore, timeline: Timeline): RecordStore {
  return new Proxy(records, {
    get: (target, property) => {
      if (property === 'lanes') return undefined
      const member: unknown = Reflect.get(target, property, target)
      if (typeof member !== 'function') return member
      return async (...args: unknown[]) => timeline.real(Reflect.apply(member, target, args) as Promise<unknown>)
    }
  })
}

async function behindWorker (dataDir: string, nowMs: () => number): Promise<Opened> {
  const records = await openSqlite({ dataDir, exclusive: true, nowMs })
  return { records, lapsed: records.lapsedAtStart }
}

function onThisThread (dataDir: string, nowMs: () => number): Opened {
  const database = new Database({ file: join(dataDir, 'onceway.db'), nowMs: nowMs(), exclusive: true })
  /** As it comes off the wire between the threads: copies, never the caller's own objects. */
  const run = async <Result>(call: Call): Promise<Result> => {
    try {
      const [result] = database.run([revived(structuredClone(call))], nowMs())
      return revived(structuredClone(result)) as Result
    } catch (error) {
      throw error instanceof Faulted ? errorOf(error.fault) : error
    }
  }
  const records: RecordStore = {
    name: 'sqlite',
    installation: database.installation,
    insert: async (claim) => run({ op: 'insert', claim }),
    take: async (seen, claim, mayRetry) => run({ op: 'take', seen, claim, mayRetry }),
    confirm: async (claim) => run({ op: 'confirm', claim }),
    look: async (id) => run({ op: 'look', id }),
    schemes: async () => run({ op: 'schemes' }),
    lostAlgorithms: async (lost, route) => run({ op: 'lostAlgorithms', lost, route }),
    mayBeLost: async (question) => run({ op: 'mayBeLost', question }),
    endEarlierScheme: async () => { await run({ op: 'endEarlierScheme' }) },
    renew: async (tokens) => run({ op: 'renew', tokens }),
    settle: async (settlement) => run({ op: 'settle', settlement }),
    settleLost: async (settlement, claim, ageMs) => run({ op: 'settleLost', settlement, claim, ageMs }),
    lapse: async ({ still, ...order }) => still() ? run({ op: 'lapse', order }) : [],
    sweep: async (limit) => run({ op: 'sweep', limit }),
    takeProbes: async (order) => run({ op: 'takeProbes', order }),
    noteProbe: async (note) => run({ op: 'noteProbe', note }),
    unresolved: async () => run({ op: 'unresolved' }),
    list: async (filter) => run({ op: 'list', filter }),
    resolve: async (resolution) => run({ op: 'resolve', resolution }),
    expire: async (token, audit) => run({ op: 'expire', token, audit }),
    beat: async (sign) => run({ op: 'beat', sign }),
    close: async () => { database.close() }
  }
  return { records, lapsed: database.lapsedAtStart }
}
