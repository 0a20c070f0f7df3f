/** Broken ports, and the invariants that each violates. broken.test.ts runs them, and docs/reference/rules.md lists them. */
import type { Row } from '../../src/core/record/record.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import type { Invariant } from '../harness/checker.ts'
import type { Broken, Case } from './simulation.ts'
import { passing } from './watched.ts'

export interface Told {
  readonly name: string
  readonly scenario: string
  readonly broken: Broken
  readonly breaks: readonly Invariant[]
  readonly locks?: Case['locks']
  /** The process dies when this call has been applied. */
  readonly diesAfter?: string
}

export const BROKEN: readonly Told[] = [
  {
    name: 'a claim that is granted and not written',
    scenario: 'contest',
    broken: { records: claimsUnwritten },
    breaks: ['I1', 'I2'],
    locks: 'none'
  },
  {
    name: 'a settle that asks nobody whose record it is',
    scenario: 'stalled',
    broken: { records: settlesUnfenced },
    breaks: ['I3', 'I11']
  },
  {
    name: 'an answer that is called stored and was released',
    scenario: 'keep',
    broken: { records: (records) => settlesAs(records, 'completed', 'released') },
    breaks: ['I4', 'I10', 'I11'],
    locks: 'none'
  },
  {
    name: 'an answer that is called stored and was not written',
    scenario: 'keep',
    broken: { records: settlesUnwritten },
    breaks: ['I7', 'I11'],
    locks: 'none'
  },
  { name: 'copies that do not know whose they are', scenario: 'mismatch', broken: { locks: locksOfOneId }, breaks: ['I5'] },
  {
    name: 'fingerprints that are all alike',
    scenario: 'mismatch-elsewhere',
    broken: { records: fingerprintsAlike },
    breaks: ['I6'],
    locks: 'none'
  },
  { name: 'timers that never end', scenario: 'silence', broken: { longestTimerMs: 1_000 }, breaks: ['I8'] },
  { name: 'leases that nobody lapses', scenario: 'keep', broken: { records: neverLapses }, breaks: ['I9'], diesAfter: 'send' },
  {
    name: 'an unknown outcome that is released',
    scenario: 'unknown-hold',
    broken: { records: (records) => settlesAs(records, 'indeterminate', 'released') },
    breaks: ['I1', 'I10']
  },
  {
    name: 'a dead process whose claim is released',
    scenario: 'keep',
    broken: { records: lapsesToReleased },
    breaks: ['I1', 'I10'],
    diesAfter: 'send',
    locks: 'none'
  }
]

function claimsUnwritten (records: RecordStore): RecordStore {
  return { ...passing(records), insert: async () => ({ kind: 'won', attempt: 1 }) }
}

function settlesUnwritten (records: RecordStore): RecordStore {
  return { ...passing(records), settle: async ({ keepMs }) => ({ kind: 'settled', keepLeftMs: keepMs }) }
}

function settlesUnfenced (records: RecordStore): RecordStore {
  return {
    ...passing(records),
    settle: async (settlement) => {
      const row = await records.look(settlement.token.id)
      return records.settle({ ...settlement, token: row ?? settlement.token })
    }
  }
}

function settlesAs (records: RecordStore, from: string, to: 'released'): RecordStore {
  return {
    ...passing(records),
    settle: async (settlement) =>
      records.settle(settlement.outcome === from ? { ...settlement, outcome: to, status: null, headers: null, body: null } : settlement)
  }
}

function neverLapses (records: RecordStore): RecordStore {
  return { ...passing(records), lapse: async () => [] }
}

function lapsesToReleased (records: RecordStore): RecordStore {
  return {
    ...passing(records),
    lapse: async (order) => {
      for (const row of await records.list({ limit: 10, state: 'claimed' })) {
        if (row.lapsed) {
          await records.settle({ token: row, outcome: 'released', keepMs: 60_000, status: null, headers: null, body: null, reason: null })
        }
      }
      return records.lapse(order)
    }
  }
}

function fingerprintsAlike (records: RecordStore): RecordStore {
  return {
    ...passing(records),
    insert: async (claim) => {
      const result = await records.insert(claim)
      if (result.kind !== 'seen') return result
      const row: Row = { ...result.row, fingerprint: claim.fingerprint }
      return { kind: 'seen', row }
    }
  }
}

const ONE_ID = Buffer.alloc(32, 1)

function locksOfOneId (locks: LockStore): LockStore {
  return new Proxy(locks, {
    get: (target, property) => {
      const member: unknown = Reflect.get(target, property, target)
      if (typeof member !== 'function') return member
      return (first: unknown, ...rest: unknown[]) => Reflect.apply(member, target, [
        first instanceof Buffer ? ONE_ID : first,
        ...rest
      ]) as unknown
    }
  })
}
