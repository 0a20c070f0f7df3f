/** Every client of docs/reference/clients.md while something happens to the gateway itself. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call } from '../../harness/call.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { eventually } from '../../harness/eventually.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres } from '../../harness/postgres.ts'
import { idOf, written } from './client.ts'
import type { Client, Ending } from './client.ts'
import { cellOf, held } from './columns.ts'
import type { Cell } from './columns.ts'
import { driverOf } from './drivers.ts'
import { PLAY, ROWS } from './table.ts'
import { startUpstream } from './upstream.ts'
import type { Upstream } from './upstream.ts'
import { portOf, startDefault } from './world.ts'

/** A database starts again, on a busy machine. */
const RECOVERY_MS_MAX = 60_000

interface Player { readonly client: Client, readonly cell: Cell }
interface Result {
  readonly executed: number
  readonly ending: Ending
  readonly again: Ending
  readonly key: string
  readonly executedAtLast: number
}

const rows = ROWS.map((row) => ({ row, ...needs(...row.needs) }))

/** All clients that are on this machine, each with a line and a key of its own. */
async function playersOf (upstream: Upstream, port: number): Promise<Map<string, Player>> {
  return new Map(await Promise.all(rows.filter(({ skip }) => skip === false).map(async ({ row: { id } }) => {
    const client = driverOf(id)
    return [id, { client, cell: await cellOf(client, upstream, port) }] as const
  })))
}

async function closed (players: Iterable<Player>): Promise<void> {
  for (const { client, cell } of players) {
    await cell.close()
    await client.close?.()
  }
}

/** `meanwhile`: between the callers' first calls and their second ones. */
async function played (
  players: ReadonlyMap<string, Player>,
  first: () => Promise<readonly Ending[]>,
  meanwhile: () => Promise<void>
): Promise<Map<string, Result>> {
  const cells = Array.from(players.values(), ({ cell }) => cell)
  const endings = await first()
  const executed = cells.map(({ order }) => order.executed)
  await meanwhile()
  const again = await Promise.all(cells.map(async (cell) => cell.call()))
  return new Map(Array.from(players.keys(), (id, at) => [id, {
    executed: executed[at] as number,
    ending: endings[at] as Ending,
    again: again[at] as Ending,
    key: cells[at]?.order.key as string,
    executedAtLast: cells[at]?.order.executed as number
  }]))
}

function holds (column: 'down' | 'drain', results: () => ReadonlyMap<string, Result>): void {
  for (const { row: { id, title, cells }, skip } of rows) {
    test(`${title}: ${PLAY[column].title}`, { skip }, () => {
      const { executed, ending, again, key, executedAtLast } = results().get(id) as Result
      assert.deepEqual([executed, written(ending)], cells[column])
      assert.equal(written(again), PLAY[column].again, 'the same call, later')
      assert.deepEqual([idOf(again), executedAtLast], [`${key}-1`, 1], 'once, and the answer of that once')
    })
  }
}

describe('real clients while the database is down', needs('own postgres'), () => {
  const ends: Array<() => Promise<void>> = []
  let results: Map<string, Result>
  before(async () => {
    const upstream = await startUpstream()
    ends.unshift(async () => upstream.witness.close())
    const postgres = await startPostgres()
    ends.unshift(async () => postgres.stop())
    const { url } = await startDefault(
      { after: (end) => { ends.unshift(end as () => Promise<void>) } },
      upstream,
      { config: `stores: { postgres: { url: "${postgres.url}" } }` }
    )
    const isServed = async (key: string): Promise<boolean> =>
      (await call(url, '/orders', { headers: { 'Idempotency-Key': key, Authorization: 'Bearer of-nobody' }, body: '{}' })).status === 201
    await eventually(async () => isServed('before'), 'the gateway serves', RECOVERY_MS_MAX)
    const players = await playersOf(upstream, portOf(url))
    ends.unshift(async () => closed(players.values()))
    await postgres.kill()
    results = await played(players, async () => Promise.all(Array.from(players.values(), async ({ cell }) => cell.call())), async () => {
      await postgres.restart()
      await eventually(async () => isServed('after'), 'the gateway serves again', RECOVERY_MS_MAX)
    })
  })
  after(async () => { for (const end of ends) await end() })
  holds('down', () => results)
})

describe('real clients while a gateway is replaced', () => {
  const ends: Array<() => Promise<void>> = []
  let results: Map<string, Result>
  before(async () => {
    const directory = makeDirectory('drained')
    ends.unshift(async () => { directory.remove() })
    const upstream = await startUpstream()
    ends.unshift(async () => upstream.witness.close())
    const start = async (): ReturnType<typeof startDefault> => startDefault(
      { after: (end) => { ends.unshift(end as () => Promise<void>) } },
      upstream,
      { config: 'drain: { delay: 0s }', args: ['--data-dir', directory.path] }
    )
    const gateway = await start()
    const players = await playersOf(upstream, portOf(gateway.url))
    ends.unshift(async () => closed(players.values()))
    const cells = Array.from(players.values(), ({ cell }) => cell)
    const first = async (): Promise<readonly Ending[]> => {
      const release = cells.map(({ order }) => held(order))
      const endings = cells.map(async (cell) => cell.call())
      await Promise.all(cells.map(async ({ order }) => order.seen('sent', 1)))
      gateway.signal('SIGTERM')
      await gateway.logged((line) => line.msg === 'draining')
      for (const go of release) go()
      return Promise.all(endings)
    }
    results = await played(players, first, async () => {
      assert.equal(await gateway.exited, 0)
      const next = portOf((await start()).url)
      for (const { line } of cells) line.target = next
    })
  })
  after(async () => { for (const end of ends) await end() })
  holds('drain', () => results)
})
