/** A whole gateway with secrets wherever there can be some: its banner, its log, a reload, and stores that are not there. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startReloadable } from '../e2e/reload-world.ts'
import { call } from '../harness/call.ts'
import { MAIN } from '../harness/process-gateway.ts'
import { directory } from './world.ts'

const CANARY = 'hunter2canary'
const LONG = `${CANARY}, which is long enough to be a secret`

const file = (level: string): string => `version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0, token: "${LONG}" }
drain: { delay: 0s, timeout: 1s }
log: { level: ${level} }
secret: "${LONG}"
previousSecret: "the one before ${LONG}"
issuedKeys: { secrets: [{ id: a, secret: "${LONG}" }] }
upstreams: { payments: { url: "http://127.0.0.1:1", requestHeaders: { X-Any: "${CANARY}" } } }
routes:
  - name: signed
    match: { path: /hooks }
    upstream: payments
    idempotency: { scope: shared, verify: { scheme: stripe, secret: "${CANARY}", previousSecret: "a ${CANARY}" } }
  - name: charges
    match: { path: /v1/charges }
    upstream: payments
    idempotency:
      scope: "jwt:sub"
      jwt: { jwks: "http://u:${CANARY}@127.0.0.1:1/jwks?key=${CANARY}" }
      unknown: probe
      probe: { path: "/v1?ref={key}&k=${CANARY}", headers: { Authorization: "Bearer ${CANARY}" } }
`

test('a gateway says none of its secrets: at its start, in its log, at a reload that it takes and at one that it refuses', async (t) => {
  const gateway = await startReloadable(t, file('info'))
  await call(gateway.url, '/v1/charges', { headers: { 'Idempotency-Key': 'k', Authorization: 'Bearer a.b.c' } })
  await call(gateway.url, '/hooks', { headers: { 'Idempotency-Key': 'k', 'Stripe-Signature': 't=1,v1=aa' } })
  assert.deepEqual((await gateway.reload(file('debug').replaceAll(LONG, `other ${LONG}`)))['changed'], [
    'secret',
    'admin.token',
    'log.level',
    'issuedKeys.secrets'
  ])
  await call(gateway.url, '/v1/charges', { headers: { 'Idempotency-Key': 'k', Authorization: 'Bearer a.b.c' } })
  await gateway.reload(file('debug').replace(`token: "${LONG}"`, `token: ["${CANARY}"]`))
  const { text } = await call(gateway.adminUrl, '/metrics', { method: 'GET' })
  gateway.signal('SIGTERM')
  assert.equal(await gateway.exited, 0)
  assert.ok(!`${gateway.output()}${text}`.includes(CANARY), gateway.output())
})

test('a gateway that does not find its stores says where they should be, and never as whom', async (t) => {
  const at = join(directory(t), 'onceway.yaml')
  writeFileSync(at, `version: 1
admin: { port: 0 }
stores: { postgres: { url: "postgres://u:${CANARY}@127.0.0.1:1/db?sslpassword=${CANARY}" }, redis: { url: "redis://u:${CANARY}@127.0.0.1:1/0" } }
upstreams: { a: { url: "http://127.0.0.1:1" } }
routes: [{ match: { path: "/*" }, upstream: a }]
`)
  for (const words of [['serve', '--port', '0'], ['records', 'list'], ['ids'], ['clock'], ['migrate']]) {
    const child = spawn(process.execPath, [MAIN, ...words, '--config', at], { stdio: ['ignore', 'pipe', 'pipe'] })
    t.after(() => { child.kill('SIGKILL') })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (piece: string) => { said += piece })
    const seen = new Promise<void>((resolve) => {
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', () => { if (/ECONNREFUSED|127\.0\.0\.1:1/.test(said)) resolve() })
      }
    })
    await Promise.race([once(child, 'close'), seen])
    child.kill('SIGKILL')
    assert.match(said, /ECONNREFUSED|127\.0\.0\.1:1/, words.join(' '))
    assert.ok(!said.includes(CANARY), said)
  }
})
