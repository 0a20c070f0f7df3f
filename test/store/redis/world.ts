/** What a test of the Redis store stands on: stores of one installation on a real server, and a bare client beside them. */
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import type { Lock, LockStore } from '../../../src/ports/locks.ts'
import { RedisLocks } from '../../../src/store/redis/locks.ts'
import type { RedisOptions } from '../../../src/store/redis/locks.ts'
import type { RedisAt } from '../../../src/store/redis/topology-options.ts'
import { until } from '../../conformance/record-world.ts'

export const LONG_MS = 600_000

export function redisOptionsOf (url: string, given: Partial<RedisOptions> = {}): RedisOptions & { readonly url: string } {
  return { ...redisOptionsAt({}, given), url }
}

/** Wherever Redis is. */
export function redisOptionsAt (at: RedisAt, given: Partial<RedisOptions> = {}): RedisOptions {
  return {
    ...at,
    prefix: 'onceway',
    installation: randomBytes(8).toString('hex'),
    copies: { ttlMs: LONG_MS, bytesMax: 65_536 },
    commandTimeoutMs: 1_000,
    ...given
  }
}

/** Closed with the test; not waited for. */
export function openLocks (t: TestContext, options: RedisOptions): LockStore {
  const store = new RedisLocks(options)
  t.after(() => store.close())
  return store
}

export async function readyLocks (t: TestContext, options: RedisOptions): Promise<LockStore> {
  const store = openLocks(t, options)
  await untilAvailable(store)
  return store
}

export async function untilAvailable (store: LockStore): Promise<void> {
  await until(() => Promise.resolve(store.available()), 'Redis to be in use')
}

export async function untilUnavailable (store: LockStore): Promise<void> {
  await until(() => Promise.resolve(!store.available()), 'Redis to be given up')
}

/** A client that sees all keys; closed with the test. */
export async function bareClient (t: TestContext, url: string): Promise<Redis> {
  const client = new Redis(url, { lazyConnect: true })
  client.on('error', () => {})
  t.after(() => { client.disconnect() })
  await client.connect()
  return client
}

export function keyOf ({ prefix, installation }: RedisOptions, id: Buffer): string {
  return `${prefix}:${installation}:${id.toString('base64url')}`
}

export function lockOf (): Lock {
  return { owner: randomBytes(16), fingerprint: { alg: 1, value: randomBytes(32) }, lockedAtMs: 1_700_000_000_000 }
}
