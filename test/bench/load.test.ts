/** The load generator's own eyes: what an upstream gives and what a liar gives. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { ACCEPTED, answerTo, BODY, GROUP_HEADER, GROUPS, keyOf, TOKEN } from '../../bench/exchange.ts'
import { settlePool } from '../../bench/pool.ts'
import { drive } from '../../bench/wrk.ts'
import type { Load } from '../../bench/wrk.ts'
import { needs } from '../harness/needs.ts'

interface Given { readonly status: number, readonly body: string }

async function startServer (t: TestContext, give: (key: string, request: IncomingMessage, count: number) => Given): Promise<string> {
  let count = 0
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const { status, body } = give(String(request.headers['idempotency-key']), request, ++count)
      response.writeHead(status).end(body)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.closeAllConnections(); server.close() })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const right = (key: string): Given => ({ status: 201, body: answerTo(key) })
const LOAD: Omit<Load, 'url'> = { connections: 2, seconds: 1, series: 'm00001', pool: null }
/** What the pool's client is asked to do. */
const POOL = { series: 'p00001', keys: 20, connections: 4 }

describe('the load of a turn', needs('wrk'), () => {
  test('asks with keys of its own, a token and a body, and finds nothing wrong', async (t) => {
    const seen = new Set<string>()
    const heads = new Set<string>()
    const url = await startServer(t, (key, { headers }) => {
      seen.add(key)
      heads.add(`${headers.authorization} ${headers['content-type']} ${headers['content-length']}`)
      return right(key)
    })
    const result = await drive({ ...LOAD, url })
    assert.deepEqual(result.wrong, { statuses: 0, bytes: 0, unasked: 0, example: '' })
    assert.ok(result.answered > 0 && seen.size >= result.answered)
    // wrk makes one request to look at it, and does not send it.
    assert.ok(seen.has(keyOf('m00001', 2)))
    assert.deepEqual(Array.from(heads), [`Bearer ${TOKEN} application/json ${BODY.length}`])
    assert.ok(result.p50Ms > 0 && result.p99Ms >= result.p50Ms && result.durationMs > 900)
  })

  test('asks for the keys of a pool in turn', async (t) => {
    const seen = new Set<string>()
    const url = await startServer(t, (key) => { seen.add(key); return right(key) })
    await drive({ ...LOAD, url, series: 'p00001', pool: 3 })
    assert.deepEqual(Array.from(seen).sort(), [1, 2, 3].map((number) => keyOf('p00001', number)))
  })

  test('asks for messages to be accepted, of one group after another, and does not look into the answers', async (t) => {
    const groups = new Set<string>()
    const url = await startServer(t, (_key, { headers }, count) => {
      groups.add(String(headers[GROUP_HEADER.toLowerCase()]))
      return count === 5 ? { status: 201, body: 'done' } : { status: ACCEPTED, body: String(count) }
    })
    const result = await drive({ ...LOAD, url, accepts: true })
    assert.deepEqual(result.wrong, { statuses: 1, bytes: 0, unasked: 0, example: '201 done' })
    assert.ok(groups.size > 1 && groups.size <= GROUPS && Array.from(groups).every((group) => /^\d+$/.test(group)))
  })

  test('sees another status, other bytes, and the answer of another key', async (t) => {
    const wrongOf = async (give: (key: string, count: number) => Given) =>
      (await drive({ ...LOAD, url: await startServer(t, (key, _request, count) => give(key, count)) })).wrong
    const statuses = await wrongOf((key, count) => count === 5 ? { status: 503, body: 'no' } : right(key))
    assert.deepEqual(statuses, { statuses: 1, bytes: 0, unasked: 0, example: '503 no' })
    const bytes = await wrongOf((key, count) =>
      count === 5 ? { status: 201, body: answerTo(key).replace('succeeded', 'succeedee') } : right(key))
    assert.equal(bytes.bytes, 1)
    const unasked = await wrongOf((key, count) => count === 5 ? right(keyOf('m00001', 99_999_999)) : right(key))
    assert.equal(unasked.unasked, 1)
  })
})

test('the client that settles a pool sees two answers that are swapped', async (t) => {
  const url = await startServer(t, right)
  assert.deepEqual(await settlePool({ ...POOL, url }), [])
  const [one, two] = [keyOf(POOL.series, 3), keyOf(POOL.series, 4)]
  const liar = await startServer(t, (key) => right(key === one ? two : key === two ? one : key))
  const wrong = await settlePool({ ...POOL, url: liar })
  assert.equal(wrong.length, 4)
  assert.match(wrong.join(), /got an answer that is not its own/)
})
