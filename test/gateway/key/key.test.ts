import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call, callRaw } from '../../harness/call.ts'
import { apiPolicy, startGuarded } from '../../harness/gateway.ts'

const KEY_POLICY = apiPolicy().key

test('the bare and the quoted form of a key are one key', async (t) => {
  const { ask, witness } = await startGuarded(t)
  const first = await ask('8e03978e-40d5-43dd-bc93-6894a57f9324')
  const quoted = await ask('"8e03978e-40d5-43dd-bc93-6894a57f9324"')
  const withParameter = await ask('"8e03978e-40d5-43dd-bc93-6894a57f9324";v=1')
  assert.equal(quoted.headers['idempotent-replayed'], 'true')
  assert.deepEqual(quoted.body, first.body)
  assert.deepEqual(withParameter.body, first.body)
  assert.equal(witness.seen.length, 1)
})

test('a key that is malformed gets 400 and is never echoed', async (t) => {
  const { ask, witness } = await startGuarded(t)
  const malformed = [
    '', '""', 'SECRET with space', `SECRET${'x'.repeat(256)}`, '"SECRET', '"SECRET\\n"', '"SECRET" tail',
    'SECRET\u00e9', 'SECRET\tTAB'
  ]
  for (const key of malformed) {
    const answer = await ask(key)
    assert.equal(answer.status, 400, JSON.stringify(key))
    assert.equal(answer.json.code, 'key-invalid')
    assert.equal(answer.headers['content-type'], 'application/problem+json')
    assert.equal(answer.headers['cache-control'], 'no-store')
    assert.ok(!answer.text.includes('SECRET') && !answer.rawHeaders.join().includes('SECRET'), JSON.stringify(key))
  }
  assert.equal(witness.seen.length, 0)
})

test('a key of exactly 255 characters is taken, quoted or not', async (t) => {
  const { ask, witness } = await startGuarded(t)
  const key = 'k'.repeat(255)
  assert.equal((await ask(key)).status, 201)
  assert.equal((await ask(`"${key}"`)).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('a control character in the key is refused by the parser in our problem shape', async (t) => {
  const { url, witness } = await startGuarded(t)
  const answer = await callRaw(url, 'POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\x01b\r\nContent-Length: 0\r\n\r\n')
  assert.match(answer, /^HTTP\/1\.1 400 /)
  assert.match(answer, /"code":"bad-request"/)
  assert.equal(witness.seen.length, 0)
})

test('a key with a comma gets 400 that says to quote it, and is a key when it is quoted', async (t) => {
  const { ask, witness } = await startGuarded(t)
  for (const key of ['SECRET,b', 'SECRET, b']) {
    const answer = await ask(key)
    assert.deepEqual([answer.status, answer.json.code], [400, 'key-invalid'], key)
    assert.match(String(answer.json.detail), /quotation marks/)
    assert.ok(!answer.text.includes('SECRET'))
  }
  assert.equal((await ask('"a,b"')).status, 201)
  assert.equal(witness.seen.length, 1)
})

test('two key lines are refused, even when they are equal', async (t) => {
  const { url, witness } = await startGuarded(t)
  const answer = await call(url, '/things', { headers: { 'Idempotency-Key': ['SECRET', 'SECRET'] }, body: 'same' })
  assert.equal(answer.status, 400)
  assert.equal(answer.json.code, 'key-invalid')
  assert.ok(!answer.text.includes('SECRET'))
  assert.equal(witness.seen.length, 0)
})

test('a strict route takes the quoted form only', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: { key: { ...KEY_POLICY, syntax: 'strict' } } })
  assert.equal((await ask('bare')).json.code, 'key-invalid')
  assert.equal(witness.seen.length, 0)
  assert.equal((await ask('"quoted"')).status, 201)
})

test('a route that requires a key refuses a request without one', async (t) => {
  const { url, witness } = await startGuarded(t, { policy: { key: { ...KEY_POLICY, required: true } } })
  const answer = await call(url, '/things', { body: 'same' })
  assert.equal(answer.status, 400)
  assert.equal(answer.json.code, 'key-missing')
  assert.equal(answer.json.detail, 'The request has no Idempotency-Key header. This route requires an idempotency key. Send one that is unique to this operation, and the same one with every retry of it.')
  assert.equal(witness.seen.length, 0)
})

test('a route that reads another header takes its key from there and from nowhere else', async (t) => {
  const { url, witness } = await startGuarded(t, { policy: { key: { ...KEY_POLICY, header: 'x-request-key' } } })
  const one = await call(url, '/things', { headers: { 'X-Request-Key': 'k' }, body: 'same' })
  const two = await call(url, '/things', { headers: { 'X-Request-Key': 'k', 'Idempotency-Key': 'other' }, body: 'same' })
  assert.deepEqual(two.body, one.body)
  assert.equal(two.headers['idempotency-status'], 'replayed')
  assert.equal(witness.seen.length, 1)
})
