/**
 * Starts the parts of a run in order: stores, witness, network, gateways, and the clients' links. Takes them down again.
 * It judges nothing, and causes no faults.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectory } from '../harness/directory.ts'
import { Door } from './asking.ts'
import { startPart } from './child.ts'
import type { Started } from './child.ts'
import { LOOK_EVERY_MS } from './core-waits.ts'
import type { FaultKind } from './faults.ts'
import { Seat } from './gateways.ts'
import type { Witness } from './misbehaving.ts'
import type { Network } from './network-process.ts'
import type { GatewayConfig } from './routes.ts'
import type { ChaosStores } from './stores.ts'
import { absentFrom, TOPOLOGIES } from './topologies/topologies.ts'
import type { TopologyName } from './topologies/topologies.ts'
import type { Pace } from './witness.ts'

export interface ChaosNetwork {
  readonly ask: Started<Network>['ask']
  readonly nameOf: (of: 'client' | 'redis' | 'postgres' | 'upstream', gateway: number) => string
}

export interface World {
  readonly stores: ChaosStores
  readonly network: ChaosNetwork
  readonly witness: Started<Witness>['ask']
  readonly seats: readonly Seat[]
  readonly doors: readonly Door[]
  readonly witnessFile: string
  readonly stampsFile: string
  /** A configuration for the command line, which bypasses the proxies. */
  readonly operatorFile: string
  readonly trouble: string[]
  /** Kinds of faults that are not dealt here. */
  readonly absent: ReadonlySet<FaultKind>
  /** Those that this machine, or these stores, cannot have, and why. */
  readonly without: Readonly<Record<string, string>>
  /** Ends the gateways. The files and the database stay readable. */
  readonly stopGateways: () => Promise<void>
  readonly stop: () => Promise<void>
}

/** The subject of a run: the upstream, the configurations, and the audit in the database. */
export interface Mode {
  /** The upstream's file, as child.ts starts it. */
  readonly upstream: string
  /** The configurations that a gateway may have. It begins with the first. */
  readonly configsOf: (config: GatewayConfig) => readonly string[]
  /** Runs before the first gateway. Absent: the database is empty. */
  readonly prepare?: (database: string) => Promise<void>
  /** Runs when the first gateway has made the tables. */
  readonly installAudit: (database: string) => Promise<void>
}

export interface WorldOptions {
  readonly mode: Mode
  readonly seed: number
  readonly topology: TopologyName
  readonly gateways: number
  readonly broken: string | null
  /** Connections of the narrow upstream. */
  readonly connections: number
  readonly pace: Pace
  /** Gives Postgres a disk of its own, if this machine can. */
  readonly fillsDisk: boolean
}

/** Takes the world down again, even if the work fails. */
export async function inWorld<Result> (options: WorldOptions, work: (world: World) => Promise<Result>): Promise<Result> {
  const world = await startWorld(options)
  try {
    return await work(world)
  } finally {
    await world.stop()
  }
}

async function startWorld (options: WorldOptions): Promise<World> {
  const directory = makeDirectory('chaos')
  const [witnessFile, stampsFile, operatorFile] = [
    join(directory.path, 'witness.jsonl'),
    join(directory.path, 'stamps.jsonl'),
    join(directory.path, 'operator.yaml')
  ]
  const witness = startPart<Witness>(options.mode.upstream, [witnessFile, String(options.seed), options.pace])
  const network = startPart<Network>('./network-process.ts', [stampsFile])
  const ends: Array<() => Promise<void>> = [witness.end, network.end]
  const stores = await TOPOLOGIES[options.topology].start(options.fillsDisk, network.ask).catch(async (error: unknown) => {
    await Promise.allSettled(ends.map(async (end) => end()))
    throw error
  })
  ends.unshift(async () => { await stores.stop() })
  const upstreamPort = await witness.ask.listen()
  const trouble: string[] = []
  const linked: ChaosNetwork = { ask: network.ask, nameOf: (of, gateway) => `${of}-${gateway}` }
  const seats: Seat[] = []
  const doors: Door[] = []
  try {
    await options.mode.prepare?.(stores.database)
    for (let number = 0; number < options.gateways; number++) {
      const seat = await seatOf(number, { options, directory: directory.path, stores, network: linked, upstreamPort, trouble })
      seats.push(seat)
      doors.push(new Door(await network.ask.open(linked.nameOf('client', number), null, null)))
      await seat.start()
      // The first one has made the tables.
      if (number === 0) await options.mode.installAudit(stores.database)
    }
  } catch (error) {
    await Promise.allSettled([...seats.map(async (seat) => seat.kill()), ...ends.map(async (end) => end())])
    throw error
  }
  writeFileSync(
    operatorFile,
    options.mode.configsOf({
      database: stores.database,
      prepared: stores.prepared,
      redis: stores.redisAt ?? `url: "${stores.redis.url}"`,
      upstream: `http://127.0.0.1:${upstreamPort}`,
      connections: 1
    })[0] ?? ''
  )
  const looking = setInterval(() => { for (const seat of seats) seat.look([process.pid, network.pid]) }, LOOK_EVERY_MS)
  const absent = absentFrom(options.topology)
  const without: Record<string, string> = { ...TOPOLOGIES[options.topology].without }
  if (typeof stores.disk === 'string') {
    absent.add('postgres-disk-full')
    without['postgres-disk-full'] = stores.disk
  }
  return {
    stores,
    network: linked,
    witness: witness.ask,
    seats,
    doors,
    witnessFile,
    stampsFile,
    operatorFile,
    trouble,
    absent,
    without,
    stopGateways: async () => { await Promise.all(seats.map(async (seat) => seat.kill())) },
    stop: async () => {
      clearInterval(looking)
      await Promise.all(doors.map(async (door) => door.close()))
      await Promise.all(seats.map(async (seat) => seat.kill()))
      await Promise.all(ends.map(async (end) => end()))
      rmSync(directory.path, { recursive: true, force: true })
      directory.remove()
    }
  }
}

interface Making {
  readonly options: WorldOptions
  readonly directory: string
  readonly stores: ChaosStores
  readonly network: ChaosNetwork
  readonly upstreamPort: number
  readonly trouble: string[]
}

/** A gateway that reaches everything through links of its own, and is reached through one. */
async function seatOf (number: number, { options, directory, stores, network, upstreamPort, trouble }: Making): Promise<Seat> {
  const { ask, nameOf } = network
  const name = `gateway-${number}`
  const redisPort = await ask.open(nameOf('redis', number), stores.redis.port, null)
  const postgresPort = await ask.open(nameOf('postgres', number), stores.databasePort, null)
  const upstream = await ask.open(nameOf('upstream', number), upstreamPort, name)
  const database = new URL(stores.database)
  database.port = String(postgresPort)
  return new Seat({
    name,
    directory,
    broken: options.broken,
    configs: options.mode.configsOf({
      database: database.href,
      prepared: stores.prepared,
      redis: stores.redisAt ?? `url: "redis://127.0.0.1:${redisPort}/0"`,
      upstream: `http://127.0.0.1:${upstream}`,
      connections: options.connections
    }),
    onListening: async (port) => ask.aim(nameOf('client', number), port),
    onTrouble: (what) => { trouble.push(what) }
  })
}
