/** Operators beside real gateways: outcomes that a killed gateway leaves, resolved at another one while clients retry. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { hashOf, tokenLine } from '../../src/config/operator-tokens.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import { say } from '../cli/world.ts'
import { ask, Desk, Retries } from './operators-world.ts'
import type { Row } from './operators-world.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

const TOKEN = `ow_${'o'.repeat(43)}`
const OF_AN_OPERATOR = `ow_${'p'.repeat(43)}`
const UNKNOWN = 40
const AT_ONCE = 10
const SOON_MS = 30_000

describe('operators', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  async function configFor (t: TestContext, upstream: string, more = ''): Promise<string> {
    const directory = makeDirectory('operators')
    t.after(() => { directory.remove() })
    const file = join(directory.path, 'tokens')
    const lines = [
      tokenLine({ name: 'ada', role: 'admin', hash: hashOf(TOKEN) }),
      tokenLine({ name: 'bob', role: 'operator', hash: hashOf(OF_AN_OPERATOR) })
    ]
    writeFileSync(file, `${lines.join('\n')}\n`)
    const database = await servers.postgres.createDatabase('operators')
    return configOf(
      { database, redis: servers.redis.url, upstream, more, idempotency: ', key: { from: "header:Idempotency-Key", store: text }' }
    )
      .replace('admin: { host: 127.0.0.1, port: 0 }', `admin: { host: 127.0.0.1, port: 0, auth: { tokensFile: "${file}" } }`)
  }

  test('forty outcomes that a killed gateway left are resolved one by one and ten at once, while clients retry', async (t) => {
    const keys = Array.from({ length: UNKNOWN }, (_, index) => `order-${index}`)
    const witness = await startWitness(() => new Promise(() => {}))
    t.after(() => witness.close())
    const config = await configFor(t, witness.url)
    const [doomed, other] = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
    const lost = keys.map((key) => ask(doomed, key).catch(() => null))
    await witness.reached(UNKNOWN)
    doomed.signal('SIGKILL')
    await Promise.all(lost)
    const desk = new Desk(other, TOKEN)
    await eventually(async () => (await desk.unknown()).length === UNKNOWN, 'the leases to be over', SOON_MS)
    const retries = new Retries([other], keys)
    const retrying = retries.run()
    t.after(() => { retries.end() })
    const rows = await desk.unknown()
    assert.deepEqual(rows.map(({ key }) => key).toSorted(), keys.toSorted())
    const { history } = await desk.get(`/records/${rows[0]?.id}`) as { history: Array<{ what: string, text: string }> }
    assert.match(history[0]?.text ?? '', /Whether it was sent is not known/)
    assert.ok(history.every(({ what }) => what !== 'sent' && what !== 'answered'))
    for (const { id, owner, attempt, key } of rows.slice(AT_ONCE)) {
      const headers = [['Content-Type', 'application/json']]
      const body = { owner, attempt, status: 201, headers, body: JSON.stringify({ key }), reason: 'in the ledger' }
      await desk.post(`/records/${id}/resolve`, body)
    }
    const selection = await desk.post('/records/selections', { state: 'indeterminate', route: 'things' })
    assert.equal(selection.count, AT_ONCE)
    const step = await desk.post('/records/changes', {
      token: selection.token, action: 'resolve', status: 200, body: 'all of them were done', reason: 'the bank says so'
    })
    assert.deepEqual([step.changed, step.refused, step.next], [AT_ONCE, [], null])
    await retrying
    for (const [index, { key }] of rows.entries()) {
      const answer = retries.answers.get(key)
      assert.deepEqual(
        [answer?.status, answer?.headers['idempotent-replayed'], answer?.text],
        [index < AT_ONCE ? 200 : 201, 'true', index < AT_ONCE ? 'all of them were done' : JSON.stringify({ key })],
        key
      )
    }
    assert.equal(witness.seen.length, UNKNOWN, 'nothing was sent again')
    const { entries } = await desk.get('/audit?limit=500') as { entries: Array<{ who: string, via: string, before: { reason: string } }> }
    assert.equal(entries.length, UNKNOWN)
    assert.ok(entries.every(({ who, via, before: { reason } }) => who === 'ada' && via === 'token' && reason === 'lease/LEASE_OVER'))
  })

  test('the commands ask a gateway as they ask the stores, and the token\'s name goes into the audit', async (t) => {
    const witness = await startWitness((_seen, response) => { response.destroy() })
    t.after(() => witness.close())
    const gateway = await startProcess(t, { config: await configFor(t, witness.url) })
    for (const key of ['order-1', 'order-2']) await ask(gateway, key)
    const env = { ONCEWAY_ADMIN_TOKEN: TOKEN }
    const at = ['--admin-url', gateway.adminUrl]
    const listed = await say(['records', 'list', '--state', 'indeterminate', '--json', ...at], env)
    const [one, two] = listed.out.split('\n').map((line) => JSON.parse(line) as Row)
    assert.ok(one !== undefined && two !== undefined && listed.exitCode === 0)
    const token = ({ id, owner }: Row): string[] => [Buffer.from(id, 'base64url').toString('hex'), '--owner', owner, '--attempt', '1']
    const resolved = await say(['records', 'resolve', ...token(one), '--status', '201', '--why', 'in the ledger', ...at], env)
    assert.deepEqual([resolved.exitCode, resolved.err], [0, ''])
    assert.match(resolved.out, /in the gateway at http:\S+: Resolved: retries get this answer, status 201\./)
    const again = await say(['records', 'release', ...token(one), '--why', 'late', ...at], env)
    assert.deepEqual([again.exitCode, /Now: state completed/.test(again.err)], [1, true])
    const { exitCode, out } = await say(['audit', ...at], env)
    assert.deepEqual([exitCode, /resolve .* ada +in the ledger/.test(out)], [0, true])
    const discard = ['inbox', 'discard', '--all', '--state', 'dead', '--why', 'they are old', ...at]
    const refused = await say(discard, { ONCEWAY_ADMIN_TOKEN: OF_AN_OPERATOR })
    assert.deepEqual([refused.exitCode, /needs the role admin/.test(refused.err)], [1, true])
    assert.equal((await say(discard, env)).exitCode, 0)
    for (const [args, given, wanted] of [
      [['records', 'list', ...at], {}, 2],
      [['records', 'list', ...at, '--config', 'x'], env, 2],
      [['records', 'resolve', ...token(two), '--status', '201', '--why', 'x', '--who', 'me', ...at], env, 2],
      [['records', 'list', ...at], { ONCEWAY_ADMIN_TOKEN: 'wrong' }, 1],
      [['records', 'list', '--admin-url', gateway.url], env, 1],
      [['records', 'list', '--admin-url', 'ftp://x'], env, 2],
      [['records', 'list', '--admin-url', 'http://127.0.0.1:9'], env, 1]
    ] as const) assert.equal((await say(args, given)).exitCode, wanted, args.join(' '))
  })

  test('the primary of several workers answers for all of them', async (t) => {
    const witness = await startWitness(CREATED)
    t.after(() => witness.close())
    const gateway = await startProcess(t, { config: await configFor(t, witness.url, 'workers: 2') })
    for (let index = 0; index < 20; index++) for (let times = 0; times < 2; times++) await ask(gateway, `order-${index}`)
    const overview = await new Desk(gateway, TOKEN).get('/overview') as {
      gateway: { workers: number }
      recent: { requests: number, executionsAvoided: number }
      promise: { promise: string }
      status: { status: string }
    }
    assert.deepEqual(
      [overview.gateway.workers, overview.recent.requests, overview.recent.executionsAvoided, overview.status.status],
      [2, 40, 20, 'ready']
    )
    assert.equal(overview.promise.promise, 'strict')
    const { records } = await new Desk(gateway, TOKEN).get('/records?key=order-7') as { records: Row[] }
    assert.deepEqual(records.map(({ key }) => key), ['order-7'])
    const { history } = await new Desk(gateway, TOKEN).get(`/records/${records[0]?.id}`) as { history: Array<{ what: string, at: string }> }
    assert.deepEqual(history.map(({ what }) => what), ['claimed', 'sent', 'answered', 'settled', 'expires'])
  })
})
