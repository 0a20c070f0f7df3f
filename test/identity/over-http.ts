/** The same over real connections, on a store that outlives its gateways: the embedded one with one of them, Postgres with two. */
import { Agent, request as httpRequest } from 'node:http'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import type { Config } from '../../src/config/config.ts'
import type { DatabaseMarks } from '../../src/store/shared/mark-stores.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { NO_LOCKS } from '../../src/store/shared/no-locks.ts'
import { openPostgres } from '../../src/store/postgres/open.ts'
import { switchSchemeOf } from '../../src/store/postgres/scheme-switch.ts'
import { switchSchemeIn } from '../../src/store/sqlite/schemes.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { SWITCH } from '../conformance/record-schemes.ts'
import { makeDirectory } from '../harness/directory.ts'
import { startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { optionsOf } from '../store/postgres/world.ts'
import type { Sent } from './asks.ts'
import { CLAIM_WITHIN_MS, configOf, heardOf, nameOf, VERIFIER } from './in-process.ts'
import type { Stage } from './in-process.ts'
import type { Heard } from './judge.ts'
import type { World } from './world.ts'

type Store = RecordStore & { readonly inbox: InboxStore, readonly marks: DatabaseMarks }

/** Of a test, or of what stands for one. */
export type Cleanups = Pick<TestContext, 'after'>

interface Database {
  /** Gateways on it at once. */
  readonly seats: number
  open: () => Promise<Store>
  switchTo: (scheme: string) => Promise<{ readonly kind: string }>
  /** null: gateways go on meanwhile. */
  readonly switchesAlone: boolean
  close: () => Promise<void>
}

export async function openOnSqlite (t: Cleanups, world: World): Promise<Stage> {
  const directory = makeDirectory('pairs')
  return openStage(t, world, {
    seats: 1,
    open: async () => openSqlite({ dataDir: directory.path, exclusive: true, scheme: nameOf(world.scheme) }),
    switchTo: async (name) => switchSchemeIn(directory.path, { ...SWITCH, name }),
    switchesAlone: true,
    close: async () => { directory.remove() }
  })
}

export async function openOnPostgres (t: Cleanups, world: World, url: string): Promise<Stage> {
  const options = optionsOf(url, { serves: true, claimTimeoutMs: CLAIM_WITHIN_MS, scheme: nameOf(world.scheme) })
  const client = new Client({ connectionString: url })
  await client.connect()
  return openStage(t, world, {
    seats: 2,
    open: async () => openPostgres(options),
    switchTo: async (name) => switchSchemeOf(client, options.schema, { ...SWITCH, name }),
    switchesAlone: false,
    close: async () => {
      await client.query(`drop schema ${options.schema} cascade`)
      await client.end()
    }
  })
}

async function openStage (t: Cleanups, world: World, database: Database): Promise<Stage> {
  const executed = new Map<string, number[]>()
  let serial = 0
  const witness = await startWitness((seen, response) => {
    const id = String(seen.headers['x-request-id'])
    executed.set(id, [...executed.get(id) ?? [], ++serial])
    response.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify({ serial }))
  })
  const config = configOf(world, witness.url)
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  let seats = await openSeats(t, config, database)
  return {
    seats: database.seats,
    hold: null,
    executed: (id) => executed.get(id) ?? [],
    ask: async (seat, sent) => send((seats[seat] as Seat).gateway.url, agent, sent),
    messages: async () => (await (seats[0] as Seat).store.inbox.list({ limit: 100_000 })).length,
    switchScheme: async (heard) => {
      if (world.next === null) return
      if (database.switchesAlone) await closeSeats(seats)
      const { kind } = await database.switchTo(nameOf(world.next))
      if (kind !== 'switched') throw new Error(`the switch is ${kind}`)
      if (database.switchesAlone) seats = await openSeats(t, config, database)
      if (heard) await Promise.all(seats.map(async ({ gateway }) => gateway.gateway.ids.refresh()))
    },
    close: async () => {
      agent.destroy()
      await closeSeats(seats)
      await Promise.all([witness.close(), database.close()])
    }
  }
}

interface Seat { readonly gateway: TestGateway, readonly store: Store }

async function openSeats (t: Cleanups, { routes, secrets, trustProxies }: Config, { seats, open }: Database): Promise<Seat[]> {
  return Promise.all(Array.from({ length: seats }, async () => {
    const store = await open()
    const marks = new RouteMarks(() => performance.now(), false)
    marks.open(store.marks, null)
    const gateway = await startGateway(t, {
      routes,
      trustProxies,
      background: false,
      world: { records: store, inbox: store.inbox, marks, secrets, tokens: VERIFIER, locks: NO_LOCKS, claimWithinMs: CLAIM_WITHIN_MS }
    })
    return { gateway, store }
  }))
}

async function closeSeats (seats: readonly Seat[]): Promise<void> {
  for (const { gateway, store } of seats) {
    await gateway.close()
    await store.close()
  }
}

async function send (base: string, agent: Agent, { id, method, target, raw, body }: Sent): Promise<Heard> {
  const { hostname, port } = new URL(base)
  const headers = [...raw, 'X-Request-Id', id, 'Content-Length', String(body.length)]
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: hostname, port, path: target, method, headers, agent }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => { resolve(heardOf(response.statusCode ?? 0, response.rawHeaders, Buffer.concat(chunks))) })
    })
    request.on('error', reject)
    request.end(body)
  })
}
