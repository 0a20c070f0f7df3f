/** A bug on the way of a request ends that request alone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Deps } from '../../src/gateway/shared/deps.ts'
import { call } from '../harness/call.ts'
import { guardedRoute, recordingLog, startGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'

test('what throws while a head is decided on cuts its connection, is logged, and leaves the next request alone', async (t) => {
  const [witness, log] = [await startWitness(), recordingLog()]
  let isBroken = false
  const sizeOf = (): number => { if (isBroken) throw new Error('a bug'); return 0 }
  const inboxes: Deps['inboxes'] = Object.defineProperty(new Map(), 'size', { get: sizeOf })
  const { url, close } = await startGateway(t, { routes: [guardedRoute(witness.url)], world: { log, inboxes } })
  t.after(async () => { await close(); await witness.close() })
  const ask = async (): ReturnType<typeof call> => call(url, '/things', { headers: { 'Idempotency-Key': 'k' } })

  isBroken = true
  await assert.rejects(ask(), { code: 'ECONNRESET' })
  isBroken = false
  const [line] = log.lines.filter(({ event }) => event === 'response-error')
  assert.match(String(line?.['error']), /a bug/)
  assert.equal((await ask()).status, 201)
})
