/** Lanes over a port that has none: its promises are turned into calls. */
import type { LockLane, LockStore } from './locks.ts'
import type { RecordLanes, RecordStore } from './records.ts'

export function lanesOver (records: Pick<RecordStore, 'insert' | 'settle'>): RecordLanes {
  return {
    insert: (claim, reply) => {
      records.insert(claim).then((result) => { reply.claimed(result) }, (error: unknown) => { reply.claimFailed(error) })
    },
    settle: (settlement, reply) => {
      records.settle(settlement).then((result) => { reply.settled(result) }, (error: unknown) => { reply.settleFailed(error) })
    }
  }
}

export function laneOver (locks: Pick<LockStore, 'lock' | 'swap'>): LockLane {
  return {
    lock: (id, lock, ttlMs, reply) => { void locks.lock(id, lock, ttlMs).then((result) => { reply.locked(result) }) },
    swap: (id, owner, value, ttlMs) => { void locks.swap(id, owner, value, ttlMs) }
  }
}
