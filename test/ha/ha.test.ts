/** `npm run ha`, as a user runs it: what it prints is there, and Ctrl-C ends all of it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
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
    for (const { admin } of gateways) {
      await eventually(
        async () => ((await call(admin, '/readyz', { method: 'GET' })).json as { promise?: string }).promise === 'strict',
        'commits wait for both standbys'
      )
    }
    const started = descendants(child.pid ?? 0)
    assert.ok(started.length > 20, `${started.length} processes`)
    child.kill('SIGINT')
    const [code] = await once(child, 'exit')
    assert.equal(code, 0)
    await eventually(() => !started.some(alive), 'all processes have ended')
  })
})
