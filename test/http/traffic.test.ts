/** The metrics of all traffic: each answer on the guarded port is counted once, under its route, method and class of status. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { PROBLEMS_PATH } from '../../src/core/protocol/problems.ts'
import { call, callRaw } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startSockets, startTraffic, talk } from './traffic-world.ts'
import type { Traffic } from './traffic-world.ts'

/** Counted when it is over, which may be a little after its client has it. */
async function becomes (traffic: Traffic, expected: Record<string, number>): Promise<void> {
  const text = JSON.stringify(Object.entries(expected).sort())
  let now = ''
  await eventually(async () => {
    now = JSON.stringify(Object.entries(await traffic.counted()).sort())
    return now === text
  }, () => `${now} is not ${text}`)
}

test('guarded requests, replays and refusals count under their route, those that pass under theirs', async (t) => {
  const traffic = await startTraffic(t)
  const post = (path: string, headers = {}) => call(traffic.url, path, { headers, body: 'x' })
  await post('/things/1', { 'Idempotency-Key': 'a' })
  await post('/things/1', { 'Idempotency-Key': 'a' })
  await post('/things/2', { 'Idempotency-Key': 'a' })
  await post('/open/1')
  await call(traffic.url, '/open/2', { method: 'GET' })
  await call(traffic.url, '/open/2', { method: 'PROPFIND' })
  traffic.witness.answer = (_seen, response) => { response.writeHead(503).end() }
  await call(traffic.url, '/open/3', { method: 'DELETE' })
  await becomes(traffic, {
    'things POST 2xx': 2,
    'things POST 4xx': 1,
    '/open/* POST 2xx': 1,
    '/open/* GET 2xx': 1,
    '/open/* OTHER 2xx': 1,
    '/open/* DELETE 5xx': 1
  })
  const text = await traffic.exposed()
  assert.match(text, /onceway_http_request_duration_seconds_count\{route="\/open\/\*"\} 4\n/)
  assert.match(text, /onceway_http_request_duration_seconds_count\{route="things"\} 3\n/)
  assert.match(text, /onceway_claim_duration_seconds_count 1\n/)
})

test('what has no route, cannot be read or is the gateway\'s own is counted too', async (t) => {
  const traffic = await startTraffic(t)
  await call(traffic.url, '/nowhere', { method: 'GET' })
  await call(traffic.url, '/%zz', { method: 'GET' })
  await call(traffic.url, `${PROBLEMS_PATH}/no-route`, { method: 'GET' })
  await callRaw(traffic.url, 'GET /open/1 HTTP/1.1\r\n\r\n')
  await callRaw(traffic.url, 'no HTTP at all\r\n\r\n')
  await callRaw(traffic.url, 'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n')
  await callRaw(traffic.url, 'GET /open/1 HTTP/1.1\r\nHost: g\r\nExpect: much\r\nConnection: close\r\n\r\n')
  await becomes(traffic, { '(none) GET 4xx': 4, '(none) OTHER 4xx': 2, [`${PROBLEMS_PATH} GET 2xx`]: 1 })
})

test('a request whose own body cannot be read counts once, with the answer beside its response', async (t) => {
  const traffic = await startTraffic(t)
  const said = await callRaw(
    traffic.url,
    'POST /things/1 HTTP/1.1\r\nHost: g\r\nIdempotency-Key: a\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n'
  )
  assert.match(said, /^HTTP\/1\.1 400 /)
  await becomes(traffic, { 'things POST 4xx': 1 })
})

test('a client that leaves before its answer counts as none, once', async (t) => {
  const traffic = await startTraffic(t, { answer: () => {} })
  for (const head of ['GET /open/1', 'POST /things/1']) {
    const seen = traffic.witness.seen.length
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(traffic.url).port) })
    socket.on('error', () => {})
    socket.write(`${head} HTTP/1.1\r\nHost: g\r\nIdempotency-Key: a\r\nContent-Length: 0\r\n\r\n`)
    await traffic.witness.reached(seen + 1)
    socket.destroy()
  }
  await becomes(traffic, { '/open/* GET none': 1, 'things POST none': 1 })
  // The execution goes on without its client.
  traffic.gateway.cutOff()
})

test('a tunnel counts at its switch, and an upgrade that fails with its answer', async (t) => {
  const traffic = await startTraffic(t, { sockets: await startSockets(t) })
  await talk(`${traffic.url}/sockets`, 'hello')
  await becomes(traffic, { 'sockets GET 1xx': 1 })
  const refused = new WebSocket(`${traffic.url.replace('http', 'ws')}/nowhere`)
  await new Promise((resolve) => { refused.on('error', resolve) })
  // This upstream is no server of WebSockets.
  const failed = new WebSocket(`${traffic.url.replace('http', 'ws')}/open/1`)
  await new Promise((resolve) => { failed.on('error', resolve) })
  await becomes(traffic, { 'sockets GET 1xx': 1, '(none) GET 4xx': 1, '/open/* GET 2xx': 1 })
  assert.match(await traffic.exposed(), /onceway_http_request_duration_seconds_count\{route="sockets"\} 1\n/)
})

test('requests of one connection count each, also pipelined ones', async (t) => {
  const traffic = await startTraffic(t)
  const one = 'GET /open/1 HTTP/1.1\r\nHost: g\r\n\r\n'
  await callRaw(traffic.url, `${one}${one}${one.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}`)
  await becomes(traffic, { '/open/* GET 2xx': 3 })
})
