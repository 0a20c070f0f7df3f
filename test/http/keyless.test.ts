import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { call } from '../harness/call.ts'
import { faulty } from '../harness/faulty-store.ts'
import { countingMeter, startGuarded } from '../harness/gateway.ts'

const MEGABYTES = randomBytes(3_000_000)

/** Echoes what it got. */
const ECHO = (seen: { body: Buffer }, response: ServerResponse): void => {
  response.writeHead(200, { 'Content-Type': 'application/octet-stream' }).end(seen.body)
}

test('a request without a key passes through a guarded route byte for byte and leaves no record', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const meter = countingMeter()
  const { url, witness } = await startGuarded(t, { answer: ECHO, world: { records: records.store, meter } })
  const answer = await call(url, '/things?a=1', {
    headers: { 'Content-Type': 'application/json; charset=weird', 'Content-Length': String(MEGABYTES.length) } as Record<string, string>,
    body: MEGABYTES
  })
  assert.equal(answer.status, 200)
  assert.ok(answer.body.equals(MEGABYTES))
  assert.ok(witness.seen[0]?.body.equals(MEGABYTES))
  assert.equal(witness.seen[0]?.headers['content-type'], 'application/json; charset=weird')
  assert.equal(answer.headers['idempotency-status'], undefined)
  assert.equal(records.calls('insert'), 0)
  assert.equal(meter.counts.get('keyless'), 1)
})

test('a chunked request without a key passes through byte for byte', async (t) => {
  const { url, witness } = await startGuarded(t, { answer: ECHO })
  const answer = await call(url, '/things', { headers: { 'Transfer-Encoding': 'chunked' }, body: MEGABYTES })
  assert.ok(answer.body.equals(MEGABYTES))
  assert.equal(witness.seen[0]?.headers['transfer-encoding'], 'chunked')
  assert.equal(witness.seen[0]?.headers['content-length'], undefined)
})

test('a request without a key is streamed: its first bytes arrive before its last are sent', async (t) => {
  const { url, witness } = await startGuarded(t)
  const begun = Promise.withResolvers<void>()
  const echoed = Promise.withResolvers<string>()
  witness.onHead = (request, response) => {
    response.writeHead(200)
    response.flushHeaders()
    request.once('data', () => { begun.resolve() })
    request.pipe(response)
  }
  const request = httpRequest(`${url}/things`, { method: 'POST', agent: false }, (response) => {
    let text = ''
    response.on('data', (chunk) => { text += String(chunk) }).on('end', () => { echoed.resolve(text) })
  })
  request.write('first ')
  await begun.promise
  request.end('last')
  assert.equal(await echoed.promise, 'first last')
})

test('many executions without a key are many executions', async (t) => {
  const { url, witness } = await startGuarded(t)
  for (let time = 0; time < 3; time++) await call(url, '/things', { body: 'same' })
  assert.equal(witness.seen.length, 3)
})
