/** The same clients without a gateway: what their retries do to an API that knows no keys. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { needs } from '../../harness/needs.ts'
import { written } from './client.ts'
import type { Client } from './client.ts'
import { played } from './columns.ts'
import { driverOf } from './drivers.ts'
import { BARE, PLAY, ROWS } from './table.ts'
import { startUpstream } from './upstream.ts'
import type { Upstream } from './upstream.ts'

describe('real clients without a gateway', { concurrency: 6 }, () => {
  let upstream: Upstream
  before(async () => { upstream = await startUpstream() })
  after(async () => upstream.witness.close())
  for (const { id, title, bare, needs: needed } of ROWS) {
    describe(title, { concurrency: true, ...needs(...needed) }, () => {
      let client: Client
      before(() => { client = driverOf(id) })
      after(async () => client.close?.())
      for (const column of BARE) {
        test(`${title}, without a gateway: ${PLAY[column].title}`, async (t) => {
          const { cell: { order, close }, ending } = await played(client, upstream, upstream.witness.port, column)
          t.after(close)
          // On a busy machine a retry may be late, too.
          const executed = column === 'timeout' ? Math.min(order.executed, 2) : order.executed
          assert.deepEqual([executed, written(ending)], bare[column])
        })
      }
    })
  }
})
