/** Lines of what passes through: whether there are any, what is in them, and that no secret of a client is, whatever it sends and where. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { ACCESS_DEFAULTS, ACCESS_FIELDS } from '../../src/config/config.ts'
import type { AccessField } from '../../src/config/config.ts'
import { call, callRaw } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startSockets, startTraffic, talk } from './traffic-world.ts'
import type { Traffic } from './traffic-world.ts'

/** On every line of the log. */
const USUAL = ['level', 'time', 'service', 'version', 'event', 'msg']

async function linesOf (traffic: Traffic, count: number): Promise<Array<Readonly<Record<string, unknown>>>> {
  await eventually(() => traffic.lines('passed').length >= count, () => `${count} lines: ${traffic.log()}`)
  const lines = traffic.lines('passed')
  assert.equal(lines.length, count)
  return lines
}

test('without log.access nothing that passes has a line', async (t) => {
  const traffic = await startTraffic(t)
  await call(traffic.url, '/open/1', { method: 'GET' })
  await eventually(async () => Object.keys(await traffic.counted()).length > 0, 'it is counted')
  assert.deepEqual(traffic.lines('passed'), [])
})

test('a line has the fields that are chosen, in one order, and the path without its query', async (t) => {
  const traffic = await startTraffic(t, { access: { sample: 1, fields: [...ACCESS_FIELDS].reverse() } })
  await call(traffic.url, '/open/a/b?q=secret#part', { body: 'four', headers: { 'User-Agent': 'te"st/1', 'X-Request-Id': 'r-1' } })
  const [line] = await linesOf(traffic, 1)
  assert.deepEqual(Object.keys(line ?? {}).filter((name) => !USUAL.includes(name)), [...ACCESS_FIELDS])
  const { ms, ...rest } = line ?? {}
  assert.ok(typeof ms === 'number' && ms > 0)
  assert.deepEqual(
    ACCESS_FIELDS.filter((field) => field !== 'ms').map((field) => rest[field]),
    ['r-1', '/open/*', 'test', 'POST', '/open/a/b', 201, 4, 8, '127.0.0.1', 'te"st/1']
  )
})

test('guarded requests have their own line, and no second one; a sample leaves some out', async (t) => {
  const traffic = await startTraffic(t, { access: { sample: 0.5, fields: ['requestId'] } })
  await call(traffic.url, '/things/1', { body: 'x', headers: { 'Idempotency-Key': 'a' } })
  const requests = 200
  for (let number = 0; number < requests; number++) await call(traffic.url, '/open/1', { method: 'GET' })
  await eventually(async () => (await traffic.counted())['/open/* GET 2xx'] === requests, 'all are counted')
  assert.equal(traffic.lines('request').length, 1)
  const { length } = traffic.lines('passed')
  // Neither has a chance of one in 10^9.
  assert.ok(length > 50 && length < 150, String(length))
})

test('a tunnel has a line at its end, with its bytes; what fails has one too, and so has a client that leaves', async (t) => {
  const traffic = await startTraffic(t, { access: { sample: 1, fields: [...ACCESS_DEFAULTS] }, sockets: await startSockets(t) })
  const message = 'x'.repeat(1_000)
  await talk(`${traffic.url}/sockets`, message)
  const [tunnel] = await linesOf(traffic, 1)
  assert.deepEqual([tunnel?.route, tunnel?.method, tunnel?.status], ['sockets', 'GET', 101])
  for (const bytes of [tunnel?.requestBytes, tunnel?.responseBytes].map(Number)) {
    assert.ok(bytes > message.length && bytes < message.length + 100, String(bytes))
  }

  traffic.witness.onHead = () => {}
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(traffic.url).port) })
  socket.on('error', () => {})
  socket.write('GET /open/1 HTTP/1.1\r\nHost: g\r\n\r\n')
  await eventually(() => traffic.held().passing === 1, 'it passes')
  socket.destroy()
  const [, left] = await linesOf(traffic, 2)
  assert.deepEqual([left?.route, left?.status], ['/open/*', null])

  await traffic.witness.close()
  await call(traffic.url, '/open/1', { method: 'GET' })
  const [, , failed] = await linesOf(traffic, 3)
  assert.deepEqual([failed?.route, failed?.status], ['/open/*', 502])
})

// ---------------------------------------------------------------- canaries

const CANARY = /cnry[a-z]+/g
/** Where a word may be, and in which field. */
const CHOSEN: Readonly<Partial<Record<AccessField, readonly string[]>>> = {
  path: ['cnrypath'],
  userAgent: ['cnryagent'],
  requestId: ['cnryid']
}

/** A secret in every place that a client can write to. */
const FIELDS = [
  'Host: gateway.example', 'Authorization: Bearer cnrytoken', 'Proxy-Authorization: Basic cnryproxy', 'Cookie: session=cnrycookie',
  'X-Api-Key: cnryapikey', 'User-Agent: cnryagent/1', 'Referer: http://cnryuser:cnrypassword@site.example/?cnryreferer',
  'X-Request-Id: cnryid',
  'X-Forwarded-For: cnryforwarded', 'Traceparent: 00-cnrytrace', 'Origin: https://cnryorigin.example'
]

function raw (line: string, more: readonly string[] = [], body = 'cnrybody'): string {
  return `${line} HTTP/1.1\r\n${[...FIELDS, ...more, `Content-Length: ${body.length}`, 'Connection: close'].join('\r\n')}\r\n\r\n${body}`
}

/** Guarded, replayed, refused, passed, with credentials in the target, without a route, malformed in several ways, and failed. */
async function sendAll (traffic: Traffic): Promise<string[]> {
  const key = 'Idempotency-Key: cnrykey'
  const answers = []
  for (const text of [
    raw('POST /things/cnrypath?cnryquery=cnryvalue', [key]),
    raw('POST /things/cnrypath?cnryquery=cnryvalue', [key]),
    raw('POST /things/cnrypath?cnryquery=cnryvalue', [key], 'cnryother'),
    raw('POST /open/cnrypath?cnryquery=cnryvalue', [key]),
    raw('GET /open/cnrypath;cnryparameter?cnryquery', [], ''),
    raw('GET http://cnryuser:cnrypassword@gateway.example/open/cnrypath?cnryquery', [], ''),
    raw('GET http://gateway.example/open/cnrypath?cnryquery', [], ''),
    raw('GET /nowhere/cnrypath?cnryquery', [], ''),
    raw('GET /%zzcnrypath?cnryquery', [], ''),
    raw('CNRYMETHOD /open/cnrypath'),
    raw('GET /open/cnrypath', ['cnry name: cnryvalue']),
    raw('POST /things/cnrypath', [key, 'Transfer-Encoding: cnrycoding']),
    raw('GET /open/cnrypath', ['Expect: cnryexpect'])
  ]) answers.push(await callRaw(traffic.url, text))
  const fields = { Authorization: 'cnrytoken', Cookie: 'cnrycookie', 'User-Agent': 'cnryagent' }
  await talk(`${traffic.url}/sockets?cnryquery`, 'cnrymessage', fields)
  await traffic.witness.close()
  for (const line of ['POST /open/cnrypath?cnryquery', 'POST /things/cnrypath?cnryfailed']) {
    answers.push(await callRaw(traffic.url, raw(line, [key])))
  }
  return answers
}

for (const fields of [[...ACCESS_DEFAULTS], [...ACCESS_FIELDS]]) {
  const names = fields.length === ACCESS_FIELDS.length ? 'all fields' : 'the usual fields'
  test(`no secret of a request or an answer is in a line, a metric or a problem: ${names}`, async (t) => {
    const traffic = await startTraffic(t, {
      access: { sample: 1, fields },
      sockets: await startSockets(t),
      answer: (_seen, response) => {
        response.writeHead(201, { 'Set-Cookie': 'cnryset=cnrysetcookie', 'X-Answer': 'cnryfield' }).end('cnryanswer')
      }
    })
    const answers = await sendAll(traffic)
    const passedLines = await (async () => {
      await eventually(() => traffic.lines('passed').some(({ status }) => status === 502), 'the last one has its line')
      return traffic.lines('passed')
    })()
    assert.ok(passedLines.length >= 5, String(passedLines.length))
    assert.ok(traffic.lines('request').length >= 4)

    const allowed = new Set(fields.flatMap((field) => CHOSEN[field] ?? []))
    // A client's request id is in every line of its request, and in the answer: it is what both are found by.
    allowed.add('cnryid')
    assert.deepEqual(Array.from(new Set(traffic.log().match(CANARY))).filter((word) => !allowed.has(word) && word !== 'cnryparameter'), [])
    assert.equal(traffic.log().includes('cnryparameter'), fields.includes('path'))
    for (const line of traffic.log().trim().split('\n')) {
      const { event, path: _path, userAgent: _agent, requestId: _id, ...rest } = JSON.parse(line) as Record<string, unknown>
      assert.deepEqual(JSON.stringify(rest).match(CANARY), null, String(event))
    }
    assert.deepEqual((await traffic.exposed()).match(CANARY), null)
    const problems = answers.filter((answer) => /application\/problem\+json/i.test(answer))
    assert.ok(problems.length >= 7, String(problems.length))
    assert.deepEqual(Array.from(new Set(problems.join('').match(CANARY))), ['cnryid'])
  })
}
