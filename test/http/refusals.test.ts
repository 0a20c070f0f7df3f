/** What is refused before anybody is asked: framing, targets, routes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call, callRaw } from '../harness/call.ts'
import { guardedRoute, startGateway, startGuarded } from '../harness/gateway.ts'

const HEAD = 'POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n'

const BAD: ReadonlyArray<readonly [what: string, request: string]> = [
  ['two Host lines', `${HEAD}Host: y\r\nContent-Length: 0\r\n\r\n`],
  ['no Host', 'POST /things HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n'],
  ['a Connection that names the key', `${HEAD}Connection: Idempotency-Key\r\nContent-Length: 0\r\n\r\n`],
  [
    'a Connection that names Authorization',
    `${HEAD}Authorization: Bearer a\r\nConnection: close, authorization\r\nContent-Length: 0\r\n\r\n`
  ],
  ['two Authorization lines', `${HEAD}Authorization: Bearer a\r\nAuthorization: Bearer b\r\nContent-Length: 0\r\n\r\n`],
  ['both Transfer-Encoding and Content-Length', `${HEAD}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n`],
  ['two different lengths', `${HEAD}Content-Length: 4\r\nContent-Length: 5\r\n\r\nsame`],
  ['an unknown transfer coding', `${HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ['a header name with a space', `${HEAD}X Y: 1\r\nContent-Length: 0\r\n\r\n`]
]

for (const [what, request] of BAD) {
  test(`a request with ${what} gets 400 and the connection is closed`, async (t) => {
    const { url, witness } = await startGuarded(t)
    const answer = await callRaw(url, request)
    assert.match(answer, /^HTTP\/1\.1 400 /)
    assert.match(answer, /connection: close/i)
    assert.match(answer, /"code":"bad-request"/)
    assert.match(answer, /content-type: application\/problem\+json/i)
    assert.equal(answer.match(/HTTP\/1\.1/g)?.length, 1)
    assert.equal(witness.seen.length, 0)
  })
}

test('two Host lines are refused without a key, too', async (t) => {
  const { url, witness } = await startGuarded(t)
  const answer = await callRaw(url, 'POST /things HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n')
  assert.match(answer, /^HTTP\/1\.1 400 /)
  assert.match(answer, /connection: close/i)
  assert.equal(witness.seen.length, 0)
})

test('a head that is too large gets 431 in our problem shape', async (t) => {
  const { url } = await startGuarded(t)
  const answer = await callRaw(url, `${HEAD}X-Large: ${'x'.repeat(20_000)}\r\nContent-Length: 0\r\n\r\n`)
  assert.match(answer, /^HTTP\/1\.1 431 /)
  assert.match(answer, /"code":"headers-too-large"/)
})

for (const target of ['/%ff', '/things/%zz', '/a/../things', '/a/%2e%2e/things', '/./things', '/a/..', '/things/%2E', '/a%2f..%2fthings']) {
  test(`the target ${target} is served or refused with 400 in our problem shape, never guessed at`, async (t) => {
    const { url, witness } = await startGuarded(t)
    const answer = await callRaw(
      url,
      `POST ${target} HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
    )
    assert.match(answer, /^HTTP\/1\.1 400 /)
    assert.match(answer, /"code":"bad-request"/)
    assert.match(answer, /x-request-id/i)
    assert.equal(witness.seen.length, 0)
  })
}

test('a path that no route matches gets 404', async (t) => {
  const { witness } = await startGuarded(t)
  const guarded = guardedRoute(witness.url)
  const { url } = await startGateway(t, { routes: [{ ...guarded, match: { ...guarded.match, path: '/v1/charges' } }] })
  for (const options of [
    { body: 'x', headers: { 'Idempotency-Key': 'k', 'X-Request-Id': 'req-1' } },
    { method: 'GET', headers: { 'X-Request-Id': 'req-1' } }
  ]) {
    const answer = await call(url, '/nowhere', options)
    assert.equal(answer.status, 404)
    assert.equal(answer.json.code, 'no-route')
    assert.equal(answer.json.instance, 'req-1')
    assert.equal(answer.headers['x-request-id'], 'req-1')
  }
})

test('another spelling of a guarded path is the guarded path, and a record of its own', async (t) => {
  const { witness } = await startGuarded(t)
  const guarded = guardedRoute(witness.url)
  const { url } = await startGateway(t, {
    routes: [
      { ...guarded, match: { ...guarded.match, path: '/v1/charges' } },
      { ...guarded, name: 'rest', match: { path: '/*', methods: [], host: null, exact: false }, idempotency: null }
    ]
  })
  for (const [index, path] of ['/v1/charges', '/V1/charges/', '/v1//charges', '/v1/%63harges'].entries()) {
    const answer = await call(url, path, { headers: { 'Idempotency-Key': `k${index}` }, body: 'x' })
    assert.equal(answer.headers['idempotency-status'], 'executed', path)
    assert.equal(witness.seen.at(-1)?.target, path)
  }
})
