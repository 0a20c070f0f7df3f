/**
 * A route's mode is changed while requests of it are under way, and while another gateway still has the old one: a key
 * is executed or accepted, never both.
 */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { startReloadable } from './reload-world.ts'
import { configOf } from './world.ts'

const KEYS = 60

describe('a change of the mode', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(async () => { await server.stop() })

  async function startWorld (t: TestContext): Promise<[Witness, (mode: string) => string]> {
    const witness = await startWitness()
    t.after(() => witness.close())
    const database = await server.createDatabase('mode')
    return [witness, (mode) => configOf({ database, redis: null, upstream: witness.url, idempotency: `, mode: ${mode}, unknown: hold` })]
  }

  const ask = async ({ url }: { readonly url: string }, key: string): Promise<Called> => call(url, '/things', {
    headers: { 'Idempotency-Key': key },
    body: 'one'
  })
  const keysOf = ({ seen }: Witness): string[] => seen.map(({ headers }) => String(headers['idempotency-key']))

  test('a body that comes late, under the mode of before: its request has been accepted, and is not executed', async (t) => {
    const [witness, config] = await startWorld(t)
    const gateway = await startReloadable(t, config('enforce'))
    await ask(gateway, 'ready')
    const late = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    t.after(async () => { late.destroy() })
    let told = ''
    late.on('data', (chunk: Buffer) => { told += chunk.toString() })
    late.write('POST /things HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: k\r\nContent-Length: 3\r\n\r\no')
    await eventually(async () => witness.seen.length === 1, 'the first one to be executed')
    await gateway.reload(config('inbox'))
    const accepted = await ask(gateway, 'k')
    assert.equal(accepted.status, 202)
    late.write('ne')
    await eventually(() => told.includes('\r\n\r\n'), 'the late one to be answered')
    assert.match(told, /^HTTP\/1\.1 202 /)
    assert.match(told, new RegExp(`Location: ${String(accepted.headers.location)}`, 'i'))
    await eventually(() => keysOf(witness).includes('k'), 'the message to be delivered')
    assert.deepEqual(keysOf(witness).filter((key) => key === 'k'), ['k'])
  })

  test('two gateways, of which one has the new mode: of many keys that come to both at once each is one operation', async (t) => {
    const [witness, config] = await startWorld(t)
    const [old, fresh] = await Promise.all([startProcess(t, { config: config('enforce') }), startProcess(t, { config: config('inbox') })])
    await ask(old, 'ready')
    const keys = Array.from({ length: KEYS }, (_, index) => `k${index}`)
    const answers = await Promise.all(
      keys.map(async (key, index) => Promise.all((index % 2 === 0 ? [old, fresh] : [fresh, old]).map(async (gateway) => ask(gateway, key))))
    )
    const last = await Promise.all(keys.map(async (key) => Promise.all([old, fresh].map(async (gateway) => ask(gateway, key)))))
    for (const [index, [one, other]] of last.entries()) {
      assert.equal(one?.status, other?.status, keys[index])
      for (const { status } of answers[index] ?? []) {
        assert.ok(status === one?.status || status === 409, `${keys[index]}: ${status}, then ${one?.status}`)
      }
    }
    await eventually(() => keys.every((key) => keysOf(witness).includes(key)), 'all of them to reach the upstream')
    assert.deepEqual(keysOf(witness).toSorted(), ['ready', ...keys].toSorted(), 'each of them once')
    assert.equal(old.logLines().filter(({ aspect }) => aspect === 'scope').length, 0)
    old.signal('SIGTERM')
    await old.exited
    // Whoever ends takes its registration with it: nothing is claimed any more.
    assert.equal((await ask(fresh, 'alone')).status, 202)
    assert.equal((await ask(fresh, 'alone')).headers['idempotency-status'], 'accepted')
  })
})
