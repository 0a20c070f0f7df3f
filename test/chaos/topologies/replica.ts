/** A primary with a synchronous standby, which is promoted when the primary is killed. The run goes on with a new standby. */
import { startPair } from '../../harness/replication.ts'
import type { Pair } from '../../harness/replication.ts'
import { query } from '../../harness/postgres.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { startRedis } from '../../harness/redis.ts'
import { pause } from '../stores.ts'
import type { Topology } from './topology.ts'

const CANCEL_WAITS = 'select pg_cancel_backend(pid) from pg_stat_activity where wait_event = \'SyncRep\''
const CANCEL_EVERY_MS = 50
const NO_DISK = 'the servers of this topology share a disk'

export const REPLICA: Topology = {
  what: 'a Postgres with a synchronous standby that is promoted when it is killed, and one Redis',
  own: ['postgres-promote', 'postgres-forget-cancelled', 'postgres-standby-stall', 'postgres-standby-stall-promote'],
  without: { 'postgres-disk-full': NO_DISK },
  start: async () => {
    const [pair, redis] = await Promise.all([startPair({ synchronous: true }), startRedis()])
    return {
      postgres: whoeverIsPrimary(pair),
      redis,
      redisAt: null,
      database: await pair.createDatabase('chaos'),
      disk: NO_DISK,
      databasePort: pair.port,
      prepared: true,
      own: {
        'postgres-standby-stall': async ({ forMs }) => {
          const standby = pair.standby()
          standby?.pause()
          await pause(forMs)
          standby?.resume()
        },
        'postgres-standby-stall-promote': async ({ forMs }) => {
          const standby = pair.standby()
          standby?.pause()
          await pause(forMs)
          await pair.killPrimary()
          standby?.resume()
          await pair.promote()
          await pair.rebuild()
        },
        'postgres-promote': async ({ forMs }) => {
          await pair.killPrimary()
          await pause(forMs)
          await pair.promote()
          await pair.rebuild()
        },
        // Unacknowledged commits are visible to all, and then the promotion loses them.
        'postgres-forget-cancelled': async ({ forMs }) => {
          pair.holdStream()
          for (const endsAt = performance.now() + forMs; performance.now() < endsAt; await pause(CANCEL_EVERY_MS)) {
            await query(pair.primary().url, CANCEL_WAITS)
          }
          await pair.killPrimary()
          await pair.promote()
          await pair.rebuild()
        }
      },
      stop: async () => { await Promise.all([pair.stop(), redis.stop()]) }
    }
  }
}

/** One server, as the faults of the plain topology know it. */
function whoeverIsPrimary (pair: Pair): PostgresServer {
  return {
    url: pair.url,
    port: pair.port,
    pid: () => pair.primary().pid(),
    stop: () => pair.stop(),
    kill: () => pair.primary().kill(),
    restart: () => pair.primary().restart(),
    pause: () => { pair.primary().pause() },
    resume: () => { pair.primary().resume() },
    createDatabase: (name) => pair.createDatabase(name)
  }
}
