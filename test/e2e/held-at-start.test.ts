/** The embedded store after a kill: what was being delivered, and may not be sent again, is told of by the next start. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { directory } from '../cli/world.ts'
import { call } from '../harness/call.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { metricsOf, totalOf } from './metrics.ts'

const configOf = (consumer: string) => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
drain: { delay: 0s, timeout: 5s }
upstreams: { consumer: { url: "${consumer}" } }
routes:
  - name: hooks
    match: { path: /hooks }
    upstream: consumer
    idempotency:
      mode: inbox
      profile: relay
      scope: public
      unknown: hold
      key: { from: ["header:Idempotency-Key"], required: true }
`

test('unknown: hold: a message that a killed process was delivering is held, told of and counted by the next start', async (t) => {
  // Never answered: the process dies with the delivery under way.
  const witness = await startWitness(() => {})
  t.after(() => witness.close())
  const start = { config: configOf(witness.url), args: ['--data-dir', directory(t)] }
  const first = await startProcess(t, start)
  const { status, headers } = await call(first.url, '/hooks', {
    headers: { 'Idempotency-Key': 'one', 'X-Request-Id': 'request-one' },
    body: 'one'
  })
  assert.equal(status, 202)
  await witness.reached(1)
  first.signal('SIGKILL')
  await first.exited

  const next = await startProcess(t, start)
  const { json } = await call(next.url, headers.location ?? '', { method: 'GET' })
  const { id, state, attempts, lastError } = json as Record<string, unknown>
  assert.deepEqual([state, attempts, lastError], ['held', 1, 'WORKER_LOST'])
  const { msg, record, route, requestId, attempt, tries, result, error } = await next.logged(({ level }) => level === 'error')
  assert.match(msg ?? '', /it is held until somebody says so$/)
  assert.deepEqual(
    { record, route, requestId, attempt, tries, result, error },
    { record: id, route: 'hooks', requestId: 'request-one', attempt: 1, tries: 1, result: 'held', error: 'WORKER_LOST' }
  )
  const metrics = await metricsOf(next.adminUrl)
  assert.equal(totalOf(metrics, 'onceway_inbox_deliveries_total{route="hooks",result="held"}'), 1)
  assert.deepEqual(
    [totalOf(metrics, 'onceway_inbox_attempts_sum{route="hooks"}'), totalOf(metrics, 'onceway_inbox_attempts_count{route="hooks"}')],
    [1, 1]
  )
  assert.equal(totalOf(metrics, 'onceway_inbox_delivery_duration_seconds_count'), 0, 'how long it took nobody knows')
  assert.equal(witness.seen.length, 1)
})
