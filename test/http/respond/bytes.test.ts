import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { call, callRaw } from '../../harness/call.ts'
import { startGuarded } from '../../harness/gateway.ts'

const ALL_BYTES = Buffer.from(Array.from({ length: 1024 }, (_value, index) => index % 256))

test('all 256 values of a byte survive, in the request, the answer and the replay', async (t) => {
  const { ask, witness } = await startGuarded(t, { answer: (seen, response) => { response.end(seen.body) } })
  const first = await ask('k', { body: ALL_BYTES })
  const replay = await ask('k', { body: ALL_BYTES })
  assert.ok(witness.seen[0]?.body.equals(ALL_BYTES))
  assert.ok(first.body.equals(ALL_BYTES))
  assert.ok(replay.body.equals(ALL_BYTES))
  assert.equal(replay.headers['idempotent-replayed'], 'true')
})

test('so it is without a key, whatever media type it says: Fastify would read text/plain as UTF-8', async (t) => {
  const { url, witness } = await startGuarded(t, { answer: (seen, response) => { response.end(seen.body) } })
  for (const type of [
    'text/plain', 'text/plain; charset=iso-8859-1', 'TEXT/PLAIN;charset=x', 'text/plain;', 'application/json',
    'application/octet-stream'
  ]) {
    const answer = await call(url, '/things', { headers: { 'Content-Type': type }, body: ALL_BYTES })
    assert.deepEqual([answer.status, answer.body.equals(ALL_BYTES)], [200, true], type)
    assert.equal(witness.seen.at(-1)?.headers['content-type'], type)
    assert.ok(witness.seen.at(-1)?.body.equals(ALL_BYTES))
  }
})

test('header values with bytes beyond ASCII survive', async (t) => {
  const { ask } = await startGuarded(t, {
    answer: (seen, response) => { response.writeHead(200, ['X-Name', String(seen.headers['x-name'])]).end() }
  })
  const name = Buffer.from('Zoë', 'utf8').toString('latin1')
  for (const answer of [
    await ask('k', { headers: { 'X-Name': name }, body: ALL_BYTES }),
    await ask('k', { headers: { 'X-Name': name }, body: ALL_BYTES })
  ]) {
    assert.equal(answer.headers['x-name'], name)
  }
})

test('a compressed answer is kept and replayed as it came', async (t) => {
  const zipped = gzipSync('hello')
  const { ask } = await startGuarded(t, {
    answer: (_seen, response) => { response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(zipped) }
  })
  for (const answer of [await ask('k'), await ask('k')]) {
    assert.equal(answer.headers['content-encoding'], 'gzip')
    assert.ok(answer.body.equals(zipped))
  }
})

test('a chunked request arrives whole, with a length', async (t) => {
  const { ask, witness } = await startGuarded(t)
  await ask('k', { headers: { 'Transfer-Encoding': 'chunked' }, body: ALL_BYTES })
  assert.ok(witness.seen[0]?.body.equals(ALL_BYTES))
  assert.equal(witness.seen[0]?.headers['content-length'], '1024')
  assert.equal(witness.seen[0]?.headers['transfer-encoding'], undefined)
})

test('a POST without a body is guarded and says Content-Length: 0', async (t) => {
  const { url, witness } = await startGuarded(t)
  const ask = async () =>
    callRaw(url, 'POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  assert.match(await ask(), /^HTTP\/1\.1 201 /)
  assert.match(await ask(), /Idempotent-Replayed: true/)
  assert.equal(witness.seen[0]?.headers['content-length'], '0')
})

for (const target of [
  '/things/%7Euser', '/a//b', '/things?b=2&a=%31&&c', '/Things/', '/things/%2Fx', '/things;p=1', '/a:b@c',
  "/it's(ok)*!"
]) {
  test(`the request target ${target} reaches the upstream as it came, guarded and keyless`, async (t) => {
    const { url, witness } = await startGuarded(t)
    const guarded = await call(url, target, { headers: { 'Idempotency-Key': 'k' }, body: 'x' })
    const keyless = await call(url, target, { body: 'x' })
    assert.equal(guarded.headers['idempotency-status'], 'executed')
    assert.equal(keyless.status, 201)
    assert.deepEqual(witness.seen.map((seen) => seen.target), [target, target])
  })
}
