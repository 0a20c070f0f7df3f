/** Redis behind TLS with an authority of our own, and as a user with no more rights than docs/guides/deploy-with-redis.md names. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import type { LockStore } from '../../../src/ports/locks.ts'
import type { RedisOptions } from '../../../src/store/redis/locks.ts'
import type { TlsMaterial } from '../../../src/store/redis/topology-options.ts'
import { lockStoreConformance } from '../../conformance/lock-store.ts'
import { configOf } from '../../e2e/world.ts'
import { call } from '../../harness/call.ts'
import { clientOf, makeAuthority, redisCertificates, textOf } from '../../harness/certificates.ts'
import type { Authority, Certificates } from '../../harness/certificates.ts'
import { eventually } from '../../harness/eventually.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres } from '../../harness/postgres.ts'
import { startProcess } from '../../harness/process-gateway.ts'
import { startRedis } from '../../harness/redis.ts'
import type { RedisServer } from '../../harness/redis.ts'
import { startRedisCluster } from '../../harness/redis-cluster.ts'
import { MASTER_NAME, startRedisSentinel } from '../../harness/redis-sentinel.ts'
import { startWitness } from '../../harness/witness.ts'
import { lockOf, LONG_MS, openLocks, readyLocks, redisOptionsAt } from './world.ts'

const PASSWORD = 'hunter2-hunter2'
/** As documented: one server, a cluster, a sentinel. */
const [ACL = '', CLUSTER_ACL = '', SENTINEL_ACL = ''] = readFileSync(
  new URL('../../../docs/guides/deploy-with-redis.md', import.meta.url),
  'utf8'
)
  .split('\n')
  .map((line) => line.trim())
  .filter((line) => line.startsWith('ACL SETUSER onceway '))
  .map((line) => line.replace('PASSWORD', PASSWORD))

function wordsOf (line: string): [string, ...string[]] { return line.split(' ') as [string, ...string[]] }

describe('Redis behind TLS, as a user with few rights', needs('redis tls', 'postgres'), () => {
  let authority: Authority
  let stranger: Authority
  let certificates: Certificates
  let server: RedisServer
  let admin: Redis
  before(async () => {
    [authority, stranger] = [makeAuthority(), makeAuthority()]
    certificates = redisCertificates(authority)
    server = await startRedis({ tls: certificates })
    admin = new Redis(server.url, clientOf(certificates))
    await admin.call(...wordsOf(ACL))
  })
  after(async () => {
    admin?.disconnect()
    await server?.stop()
    authority?.remove()
    stranger?.remove()
  })

  const tls = (changes: Partial<TlsMaterial> = {}): TlsMaterial =>
    ({ ca: textOf(certificates.ca), cert: textOf(certificates.cert), key: textOf(certificates.key), servername: null, ...changes })
  const urlAs = (user: string, password = PASSWORD): string => `rediss://${user}:${password}@127.0.0.1:${server.port}/0`
  const options = (given: Partial<RedisOptions> = {}): RedisOptions => redisOptionsAt({ url: urlAs('onceway'), tls: tls() }, given)

  lockStoreConformance('redis as the documented user, over TLS', async (t) => {
    const given = options()
    const [store, second] = await Promise.all([readyLocks(t, given), readyLocks(t, given)])
    return { store, second }
  })

  for (const [what, refused, why] of [
    ['an authority that has not signed the server\'s certificate', () => ({ tls: tls({ ca: textOf(stranger.ca) }) }), /certificate/],
    ['the system\'s authorities only', () => ({ tls: tls({ ca: null }) }), /certificate/],
    [
      'another name than the certificate\'s',
      () => ({ tls: tls({ servername: 'redis.example' }) }),
      /Host: redis\.example\. is not in the cert/
    ],
    ['no certificate of our own, where one is asked for', () => ({ tls: tls({ cert: null, key: null }) }), /certificate|closed|ECONNRESET/],
    ['a wrong password', () => ({ url: urlAs('onceway', 'wrong') }), /WRONGPASS/],
    ['a user that there is not', () => ({ url: urlAs('nobody') }), /WRONGPASS/]
  ] satisfies ReadonlyArray<[string, () => Partial<RedisOptions>, RegExp]>) {
    test(`${what}: no Redis, and the log says why, once and without the password`, async (t) => {
      const log = recordingLog()
      const store = openLocks(t, options({ ...refused(), log }))
      await assertUnused(store, log, why)
    })
  }

  for (const right of ACL.split(' ').filter((word) => word.startsWith('+') && !/publish|subscribe/.test(word))) {
    test(`without ${right}: no Redis, said once, and never an error`, async (t) => {
      const user = userWithout(right)
      await admin.call(...wordsOf(ACL.replace('onceway', user)), `-${right.slice(1)}`)
      const log = recordingLog()
      const store = openLocks(t, options({ url: urlAs(user), log }))
      await assertUnused(store, log, /(NOPERM|user executing the script|ACL failure in script).*docs\/guides\/deploy-with-redis\.md/)
    })
  }

  test('without +publish or +subscribe nobody is woken, the log says so once, and everything else is as it was', async (t) => {
    for (const right of ['publish', 'subscribe']) {
      const user = userWithout(right)
      await admin.call(...wordsOf(ACL.replace('onceway', user)), `-${right}`)
      const log = recordingLog()
      const store = await readyLocks(t, options({ url: urlAs(user), log }))
      const id = randomBytes(32)
      ;(await store.watch(id, () => {}))()
      store.wake(id)
      await eventually(() => log.lines.some(({ level }) => level === 'warn'), `a word about ${right}`)
      assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'locked')
      const warnings = log.lines.filter(({ level }) => level === 'warn')
      assert.equal(warnings.length, 1)
      assert.match(`${warnings[0]?.message} ${String(warnings[0]?.['error'])}`, /nobody can be woken.*NOPERM/)
    }
  })

  test('keys of others are none of this user\'s business', async (t) => {
    const log = recordingLog()
    await assertUnused(openLocks(t, options({ prefix: 'somebody', log })), log, /NOPERM/)
  })

  test('a user who loses a right while it is used: no Redis from then on, and none of it is an error', async (t) => {
    const user = userWithout('nothing')
    await admin.call(...wordsOf(ACL.replace('onceway', user)))
    const log = recordingLog()
    const store = await readyLocks(t, options({ url: urlAs(user), log }))
    await admin.call('ACL', 'SETUSER', user, '-eval')
    await eventually(async () => {
      const [id, lock] = [randomBytes(32), lockOf()]
      await store.lock(id, lock, LONG_MS)
      await store.unlock(id, lock.owner)
      return !store.available()
    }, 'Redis to be given up')
    await admin.call('ACL', 'SETUSER', user, '+eval')
    await eventually(() => store.available(), 'Redis to be used again')
    const said = log.lines.filter(({ level }) => level !== 'debug')
    assert.deepEqual(said.map(({ level, message }) => `${level} ${message}`), [
      'info Redis is in use',
      'warn no Redis: going on with the database alone',
      'info Redis is in use'
    ])
    assert.match(String(said[1]?.['error']), /NOPERM/)
  })

  test('a cluster over TLS, as the user documented for it', async (t) => {
    const cluster = await startRedisCluster({ tls: certificates })
    t.after(() => cluster.stop())
    for (const { client } of cluster.nodes) await client.call(...wordsOf(CLUSTER_ACL))
    const given = redisOptionsAt({ cluster: cluster.addresses, username: 'onceway', password: PASSWORD, tls: tls() })
    const [store, second] = await Promise.all([readyLocks(t, given), readyLocks(t, given)])
    await assertServes(store, second)
    for (const right of CLUSTER_ACL.split(' ').filter((word) => /^\+cluster/.test(word))) {
      for (const { client } of cluster.nodes) await client.call(...wordsOf(CLUSTER_ACL.replace('onceway', 'less')), `-${right.slice(1)}`)
      const log = recordingLog()
      await assertUnused(openLocks(t, { ...given, username: 'less', log }), log, /NOPERM/)
    }
  })

  test('sentinels and servers over TLS, as the users documented for them', async (t) => {
    const world = await startRedisSentinel({ tls: certificates })
    t.after(() => world.stop())
    await world.tellSentinels(...wordsOf(SENTINEL_ACL))
    for (const { url } of world.servers) {
      const client = new Redis(url, clientOf(certificates))
      await client.call(...wordsOf(ACL))
      client.disconnect()
    }
    const sentinel = { name: MASTER_NAME, nodes: world.addresses, username: 'onceway', password: PASSWORD, tls: tls() }
    const given = redisOptionsAt({ sentinel, username: 'onceway', password: PASSWORD, tls: tls() })
    const [store, second] = await Promise.all([readyLocks(t, given), readyLocks(t, given)])
    await assertServes(store, second)
    const log = recordingLog()
    await assertUnused(openLocks(t, { ...given, sentinel: { ...sentinel, password: 'wrong' }, log }), log, /no sentinel answers/)
  })

  test('through a whole gateway: a wrong authority costs speed only, the right one is used, and no password is shown', async (t) => {
    const [postgres, witness] = await Promise.all([startPostgres(), startWitness()])
    t.after(async () => { await Promise.all([postgres.stop(), witness.close()]) })
    const block = (ca: string) =>
      `{ url: "${urlAs('onceway')}", tls: { caFile: "${ca}", certFile: "${certificates.cert}", keyFile: "${certificates.key}" } }`
    for (const [ca, said] of [
      [stranger.ca, 'Redis cannot be reached: going on with the database alone'],
      [certificates.ca, 'Redis is in use']
    ] as const) {
      const gateway = await startProcess(t, {
        config: configOf({ database: await postgres.createDatabase('tls'), redis: block(ca), upstream: witness.url })
      })
      await gateway.logged(({ msg }) => msg === said)
      const ask = async () => call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'same' }, body: 'one' })
      const answer = await ask()
      assert.equal(answer.status, 201)
      assert.deepEqual((await ask()).body, answer.body)
      assert.ok(!gateway.output().includes(PASSWORD) && !gateway.output().includes('PRIVATE KEY'))
    }
    assert.equal(witness.seen.length, 2)
    assert.ok((await admin.keys('onceway:*')).length > 0)
  })

  async function assertServes (store: LockStore, second: LockStore): Promise<void> {
    const ids = Array.from({ length: 60 }, () => randomBytes(32))
    await eventually(async () => (await Promise.all(ids.map(async (id) => store.lock(id, lockOf(), LONG_MS)))).every(({ kind }) =>
      kind !== 'unavailable'), 'all servers to serve')
    assert.ok((await Promise.all(ids.map(async (id) => second.lock(id, lockOf(), LONG_MS)))).every(({ kind }) => kind === 'lock'))
    let woken = false
    await store.watch(ids[0] as Buffer, () => { woken = true })
    second.wake(ids[0] as Buffer)
    await eventually(() => woken, 'the wake-up')
  }

  async function assertUnused (store: LockStore, log: ReturnType<typeof recordingLog>, why: RegExp): Promise<void> {
    await eventually(() => log.lines.length > 0, 'a word')
    // Probes and reconnects go on behind it.
    await new Promise((resolve) => { setTimeout(resolve, 700) })
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
    assert.equal(store.available(), false)
    assert.equal(log.lines.length, 1, JSON.stringify(log.lines))
    assert.match(String(log.lines[0]?.['error']), why)
    assert.ok(!JSON.stringify(log.lines).includes(PASSWORD))
  }
})

let users = 0

/** A user that no other test has. */
function userWithout (right: string): string { return `without-${right.replace(/[^a-z]/g, '')}-${users++}` }
