/** A process that is stopped across `upstream.timeout`, while its upstream answers: the answer is in the socket when it goes on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'

/** Long enough that nothing but the stop outlasts it. */
const TIMEOUT_MS = 3_000

test('a process that was stopped beyond the time-out takes the answers that came meanwhile: a client\'s, and a consumer\'s', async (t) => {
  const stopped = Promise.withResolvers<undefined>()
  const witness = await startWitness(async (_seen, response) => { await stopped.promise; response.writeHead(201).end('done') })
  t.after(async () => { await witness.close() })
  const gateway = await startProcess(t, {
    config: `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
upstreams: { witness: { url: "${witness.url}", timeout: ${TIMEOUT_MS}ms } }
routes:
  - { name: events, match: { path: "/events" }, upstream: witness, idempotency: { scope: public, mode: inbox, unknown: hold } }
  - { name: things, match: { path: "/*" }, upstream: witness, idempotency: { scope: public } }
`
  })
  const ask = async (path: string) => call(gateway.url, path, { headers: { 'Idempotency-Key': 'k' }, body: 'one' })
  const first = ask('/things')
  assert.equal((await ask('/events')).status, 202)
  await witness.reached(2)
  gateway.signal('SIGSTOP')
  stopped.resolve(undefined)
  await sleep(TIMEOUT_MS + 500)
  gateway.signal('SIGCONT')
  const answer = await first
  assert.deepEqual([answer.status, answer.headers['idempotency-status']], [201, 'executed'])
  await eventually(async () => (await ask('/things')).headers['idempotent-replayed'] === 'true', 'replayed')
  await eventually(async () => /onceway_inbox_deliveries_total\{[^}]*result="delivered"[^}]*\} 1\n/.test(
    (await call(gateway.adminUrl, '/metrics', { method: 'GET' })).text
  ), 'delivered, and not held')
  assert.equal(witness.seen.length, 2)
})
