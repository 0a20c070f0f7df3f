/** `npm run ha`, as a user runs it: what it prints is there, and Ctrl-C ends all of it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { ReportedDurability } from '../../src/core/protocol/durability.ts'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { alive, descendants } from '../harness/process.ts'

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))
const START_MS_MAX = 180_000

describe('everything of deploy/ha', needs('postgres tools', 'own redis', 'patroni', 'etcd', 'haproxy', 'pgbouncer'), () => {
  test('a payment at two gateways is made once, the promise is strict, and nothing is left', { timeout: 230_000 }, async (t) => {
    const child = spawn(process.execPath, ['--disable-proto=delete', MAIN], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => { child.kill('SIGTERM') })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => { output += chunk.toString() })
    await eventually(() => output.includes('Ctrl-C ends everything.') || child.exitCode !== null, 'it has started', START_MS_MAX)
    const printed = output.matchAll(/^gateway \d +(http:\S+) .*console: (http:[^)]+)\/\)/gm)
    const gateways = Array.from(printed, ([, url = '', admin = '']) => ({ url, admin }))
    assert.equal(gateways.length, 3, output)
    const headers = { Authorization: 'Bearer me', 'Content-Type': 'application/json', 'Idempotency-Key': 'order-1' }
    const answers = []
    for (const { url } of gateways) answers.push(await call(url, '/v1/payments', { method: 'POST', headers, body: '{"amount": 100}' }))
    assert.deepEqual(answers.map(({ status, headers: of }) => [status, of['idempotency-status']]), [
      [201, 'executed'], [201, 'replayed'], [201, 'replayed']
    ])
    const says = async (promise: string, about: readonly string[]): Promise<void> => {
      for (const { admin } of gateways) {
        const said = async () => (await call(admin, '/readyz', { method: 'GET' })).json as Partial<ReportedDurability>
        await eventually(async () => {
          const { promise: found, reasons = [], remarks = [] } = await said()
          return found === promise && [...reasons, ...remarks].join() === about.join()
        }, `the gateways say ${promise} ${about.join()}`)
      }
    }
    await says('strict', [])
    const [, patroni = ''] = /\(Patroni: (http:[^)]+)\)/.exec(output) ?? []
    const configure = async (settings: object): Promise<void> => {
      assert.equal((await call(patroni, '/config', { method: 'PATCH', body: JSON.stringify(settings) })).status, 200)
    }
    await configure({ synchronous_mode_strict: false })
    await says('strict', ['failover-not-strict'])
    // Both standbys are there, and Patroni would promote either. It takes the names out of synchronous_standby_names later.
    await configure({ synchronous_mode: false })
    await says('weakened', ['asynchronous-standby', 'asynchronous-failover'])
    const started = descendants(child.pid ?? 0)
    assert.ok(started.length > 20, `${started.length} processes`)
    child.kill('SIGINT')
    const [code] = await once(child, 'exit')
    assert.equal(code, 0)
    await eventually(() => !started.some(alive), 'all processes have ended')
  })
})
