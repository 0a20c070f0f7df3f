/** A PgBouncer in transaction mode between the gateways and Postgres, which can be killed and stalled like anything else. */
import { startPgBouncer } from '../../harness/pgbouncer.ts'
import { pause, startStores } from '../stores.ts'
import type { Topology } from './topology.ts'

/** Fewer than the connections of two or three gateways, so that some always wait. */
const SESSIONS = 10

export const PGBOUNCER: Topology = {
  what: 'one Postgres (its directory in memory, fsync on) behind a PgBouncer in transaction mode, and one Redis',
  own: ['pgbouncer-kill', 'pgbouncer-stall'],
  without: {},
  start: async (fillsDisk) => {
    const stores = await startStores(fillsDisk)
    const pooler = await startPgBouncer({ target: stores.postgres.port, settings: { default_pool_size: SESSIONS } })
    return {
      ...stores,
      databasePort: pooler.port,
      prepared: false,
      own: {
        'pgbouncer-kill': async ({ forMs }) => {
          await pooler.kill()
          await pause(forMs)
          await pooler.restart()
        },
        'pgbouncer-stall': async ({ forMs }) => {
          pooler.pause()
          await pause(forMs)
          pooler.resume()
        }
      },
      stop: async () => {
        await pooler.stop()
        await stores.stop()
      }
    }
  }
}
