/** The run's own Postgres and Redis, and the faults that hit them from outside. The harness starts them on free ports. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startRedis } from '../harness/redis.ts'
import type { RedisServer } from '../harness/redis.ts'
import { mountDisk } from './disk.ts'
import type { Disk } from './disk.ts'
import type { FaultKind } from './faults.ts'
import type { PlannedFault } from './plan.ts'
import type { Truth } from './promise.ts'

export interface ChaosStores {
  readonly postgres: PostgresServer
  readonly redis: RedisServer
  /** Members of the gateways' `stores.redis`. null: the url of the one server, through each gateway's own link. */
  readonly redisAt: string | null
  /** The gateways' database, past the proxy. */
  readonly database: string
  /** Why this run's disk cannot be filled. */
  readonly disk: Disk | string
  /** Where the gateways look for their database, of 127.0.0.1. */
  readonly databasePort: number
  /** Whether they may name their statements. */
  readonly prepared: boolean
  /** Brings, lets stand and takes away what only this topology has. */
  readonly own: Readonly<Partial<Record<FaultKind, (fault: PlannedFault) => Promise<void>>>>
  /** What the gateways have to say of the promise now. Absent: it is not judged. */
  readonly truth?: () => Promise<Truth | null>
  readonly stop: () => Promise<void>
}

/** The Redis part. `redis`: one of its servers, for faults that need just one. */
export type RedisPart = Pick<ChaosStores, 'redis' | 'redisAt' | 'own' | 'stop'>

export async function startStores (fillsDisk: boolean, startRedisPart: () => Promise<RedisPart> = startOneRedis): Promise<ChaosStores> {
  const disk = fillsDisk ? mountDisk() : 'this run fills no disk'
  const [postgres, redisPart] = await Promise.all([startPostgres(typeof disk === 'string' ? {} : { below: disk.path }), startRedisPart()])
  const database = await postgres.createDatabase('chaos')
  return {
    ...redisPart,
    postgres,
    database,
    disk,
    databasePort: postgres.port,
    prepared: true,
    stop: async () => {
      await Promise.all([postgres.stop(), redisPart.stop()])
      if (typeof disk !== 'string') disk.remove()
    }
  }
}

async function startOneRedis (): Promise<RedisPart> {
  const redis = await startRedis()
  return { redis, redisAt: null, own: {}, stop: async () => redis.stop() }
}

// ---------------------------------------------------------------- Postgres

/** Every connection of the gateways is ended by the server. */
export async function terminateConnections ({ postgres }: ChaosStores): Promise<void> {
  await query(postgres.url, 'select pg_terminate_backend(pid) from pg_stat_activity where application_name like \'onceway%\'')
}

/** SIGQUIT: immediate shutdown without a checkpoint, and without notice to clients. Resolves when the server is gone. */
export async function quitPostgres ({ postgres }: ChaosStores): Promise<void> {
  const [row] = await query(postgres.url, 'show data_directory')
  const [pid = ''] = readFileSync(join(String(row?.['data_directory']), 'postmaster.pid'), 'utf8').split('\n')
  process.kill(Number(pid), 'SIGQUIT')
  while (await answers(postgres.url)) await pause(20)
}

/** As long as it takes, within reason. Started again if it has ended (a full disk may have ended it). */
export async function mendPostgres ({ postgres }: ChaosStores): Promise<void> {
  for (let tries = 0; tries < 20; tries++) {
    if (await answers(postgres.url)) return
    await pause(100)
  }
  await postgres.restart()
}

async function answers (url: string): Promise<boolean> {
  return query(url, 'select 1').then(() => true, () => false)
}

// ---------------------------------------------------------------- Redis

export async function redisSays ({ redis }: ChaosStores, ...commands: Array<readonly [string, ...Array<string | number>]>): Promise<void> {
  const client = new Redis(redis.url, { lazyConnect: true, maxRetriesPerRequest: 1, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    for (const [name, ...args] of commands) await client.call(name, ...args)
  } finally {
    client.disconnect()
  }
}

/** Redis evicts any keys: it is full of foreign keys. */
export async function evictUnderPressure (stores: ChaosStores): Promise<void> {
  await redisSays(stores,
    ['config', 'set', 'maxmemory-policy', 'allkeys-random'],
    ['eval', 'for i = 1, 20000 do redis.call("set", "somebody-elses:" .. i, string.rep("x", 100), "px", 20000) end', 0])
  const used = await usedMemory(stores)
  await redisSays(stores, ['config', 'set', 'maxmemory', Math.floor(used * PRESSURE)])
}

/** A share of the used memory: about a third must go, and every write evicts more. */
const PRESSURE = 0.8

async function usedMemory ({ redis }: ChaosStores): Promise<number> {
  const client = new Redis(redis.url, { lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    return Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1] ?? 0)
  } finally {
    client.disconnect()
  }
}

export async function pause (ms: number): Promise<void> {
  await new Promise<void>((resolve) => { setTimeout(resolve, ms) })
}
