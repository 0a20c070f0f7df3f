/** The Postgres store passes the suite of its port, on a real server, with named statements and without. */
import { after, describe, type TestContext } from 'node:test'
import { recordStoreConformance } from '../../conformance/record-store.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { Worlds } from './world.ts'

describe('records in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  const worlds = { named: new Worlds(), unnamed: new Worlds({ prepared: false }) }
  after(async () => {
    await Promise.all([worlds.named.close(), worlds.unnamed.close()])
    await (await server)?.stop()
  })

  recordStoreConformance('postgres', async (t: TestContext) => worlds.named.take(t, await (server ??= startPostgres())))
  recordStoreConformance(
    'postgres, unnamed statements',
    async (t: TestContext) => worlds.unnamed.take(t, await (server ??= startPostgres()))
  )
})
