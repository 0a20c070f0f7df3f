/** Lanes over a port that has none: its promises are turned into calls. */
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
