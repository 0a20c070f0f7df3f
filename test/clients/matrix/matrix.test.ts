/** Every client of docs/reference/clients.md against a gateway process at its defaults, through what can go wrong with one request. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { needs } from '../../harness/needs.ts'
import { idOf, written } from './client.ts'
import type { Client, Ending } from './client.ts'
import { played } from './columns.ts'
import { driverOf } from './drivers.ts'
import { PLAY, ROWS, SOLO } from './table.ts'
import type { Row, SoloColumn } from './table.ts'
import { startUpstream } from './upstream.ts'
import type { Upstream } from './upstream.ts'
import { portOf, startDefault } from './world.ts'

/** Two cores, and clients that mostly wait. */
const ROWS_AT_ONCE = 6

describe('real clients with a key and nothing else', { concurrency: ROWS_AT_ONCE }, () => {
  const ends: Array<() => Promise<void>> = []
  let upstream: Upstream
  let port: number
  before(async () => {
    upstream = await startUpstream()
    const { url } = await startDefault({ after: (end) => { ends.push(end as () => Promise<void>) } }, upstream)
    port = portOf(url)
  })
  after(async () => {
    for (const end of ends) await end()
    await upstream.witness.close()
  })

  // Those that take longest stand last in the table.
  for (const row of ROWS.toReversed()) {
    const { id, title, needs: needed } = row
    describe(title, { concurrency: true, ...needs(...needed) }, () => {
      let client: Client
      before(() => { client = driverOf(id) })
      after(async () => client.close?.())
      for (const column of SOLO) test(`${title}: ${PLAY[column].title}`, async (t) => plays(t, client, column, row))
    })
  }

  async function plays (t: TestContext, client: Client, column: SoloColumn, { cells, again: more }: Row): Promise<void> {
    const { cell, ending } = await played(client, upstream, port, column)
    t.after(async () => cell.close())
    assert.deepEqual([cell.order.executed, written(ending)], cells[column])
    assertTrue(ending, cell.order.key)
    const again = await cell.call()
    assert.equal(written(again), more[column] ?? PLAY[column].again, 'the same call, later')
    assertTrue(again, cell.order.key)
    assert.equal(cell.order.executed, 1, 'never twice')
  }
})

/** A success is the answer of the one execution. */
function assertTrue (ending: Ending, key: string): void {
  if ('status' in ending && ending.status === 201) assert.equal(idOf(ending), `${key}-1`)
}
