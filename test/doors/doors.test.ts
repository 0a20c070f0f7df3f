/** A sample of `npm run test:doors`, of its first seed, and that its judge sees what it looks for. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import { judge, playFraming } from './framing.ts'
import type { Door } from './framing.ts'
import { playPeers } from './peers.ts'
import { playSpellings } from './spellings.ts'
import { readAnswers, readRequests } from './wire.ts'

const SEED = 20_261_123
const FRAMED = 1_024
const SPELLED = 40_000

describe('doors', needs('nginx', 'haproxy'), () => {
  for (const door of ['direct', 'nginx', 'haproxy'] as const satisfies readonly Door[]) {
    test(`${door}: no two hops differ on what a request is, and nothing is executed behind an answer that ends its connection`, async (t) => {
      const { violations, arrived, changes } = await playFraming(t, { door, seed: SEED, requests: FRAMED })
      assert.deepEqual(violations, [])
      // Enough of them went through for the rest to have been a search.
      assert.ok(arrived > FRAMED / 10 && changes.size > 20, `${arrived} arrived, ${changes.size} kinds of changes`)
    })
  }

  test('peers that stop, are silent or want too much are ended, others are served meanwhile, and memory stays bounded', async (t) => {
    const { violations } = await playPeers(t, { seed: SEED })
    assert.deepEqual(violations, [])
  })
})

test('no spelling of a guarded path or host that some server undoes is unguarded', () => {
  const { violations, reached } = playSpellings({ seed: SEED, requests: SPELLED })
  assert.deepEqual(violations, [])
  assert.ok(reached > SPELLED / 4, `${reached} reached a guarded handler`)
})

const wire = (text: string): Buffer => Buffer.from(text, 'latin1')
const request = (target: string, fields = '', body = ''): string => `POST ${target} HTTP/1.1\r\nHost: a\r\n${fields}\r\n${body}`
const answer = (fields = ''): string => `HTTP/1.1 200 OK\r\n${fields}Content-Length: 2\r\n\r\nok`
const arrivedOf = (text: string): Parameters<typeof judge>[1] => readRequests(wire(text)).messages.map((message) => ({
  ...message,
  bad: false
}))

test('the judge sees a request that was smuggled, one that was sent twice, one behind the end, and one whose key nobody saw', () => {
  const hidden = request('/open/hidden')
  const carried = request('/open/a', `Content-Length: ${hidden.length}\r\n`, hidden)
  const asked = [{ sent: wire(carried), answered: wire(answer()) }]
  assert.deepEqual(judge(asked, arrivedOf(carried), false), [])
  assert.match(judge(asked, arrivedOf(carried + hidden), false).join(), /a request that nobody made/)
  assert.match(judge(asked, arrivedOf(carried + carried), false).join(), /made once/)
  const closed = [{ sent: wire(request('/open/a') + request('/open/b')), answered: wire(answer('Connection: close\r\n')) }]
  assert.deepEqual(judge(closed, arrivedOf(request('/open/a')), false), [])
  assert.match(judge(closed, arrivedOf(request('/open/a') + request('/open/b')), false).join(), /a request that nobody made/)
  const keyed = request('/guarded/a', 'Idempotency_Key: k\r\n')
  assert.match(
    judge([{ sent: wire(keyed), answered: wire(answer()) }], arrivedOf(keyed), false).join(),
    /a key that the gateway did not see/
  )
  assert.match(judge([], [{ bad: true, bytes: wire('x') }], false).join(), /no request/)
})

test('the judge sees an answer that is another request\'s, and one that cannot be read', () => {
  const asked = request('/open/a', 'X-Door: 1\r\n') + request('/open/b', 'X-Door: 2\r\n')
  const told = (first: string, second: string): Buffer =>
    wire(answer(`X-Door-Answer: ${first}\r\n`) + answer(`X-Door-Answer: ${second}\r\n`))
  assert.deepEqual(judge([{ sent: wire(asked), answered: told('1', '2') }], arrivedOf(asked), true), [])
  assert.match(judge([{ sent: wire(asked), answered: told('2', '1') }], arrivedOf(asked), true).join(), /was given the answer to 2/)
  assert.match(judge([{ sent: wire(asked), answered: wire('HTTP/1.1 200 OK\nX: y\n\n') }], [], false).join(), /cannot be read/)
})

test('the measure reads HTTP/1 as it is written, and nothing else', () => {
  const ends: ReadonlyArray<readonly [string, number, 'whole' | 'more' | 'bad']> = [
    [request('/a') + request('/b'), 2, 'whole'],
    [request('/a', 'Transfer-Encoding: chunked\r\n', '3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n'), 1, 'whole'],
    [request('/a', 'Content-Length: 3\r\n', 'ab'), 0, 'more'],
    [request('/a', 'Content-Length: 3\r\nContent-Length: 3\r\n', 'abc'), 0, 'bad'],
    [request('/a', 'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'), 0, 'bad'],
    [request('/a', 'Transfer-Encoding: identity, chunked\r\n', '0\r\n\r\n'), 0, 'bad'],
    [request('/a', 'Transfer-Encoding: chunked\r\n', '3\nabc\r\n0\r\n\r\n'), 0, 'bad'],
    [request('/a').replaceAll('\r\n', '\n'), 0, 'bad'],
    [request('/a', 'X : y\r\n'), 0, 'bad'],
    [request('/a', 'X: y\r\n z\r\n'), 0, 'bad'],
    [request('/a').replace('Host: a\r\n', ''), 0, 'bad']
  ]
  for (const [text, count, end] of ends) {
    const read = readRequests(wire(text))
    assert.deepEqual([read.messages.length, read.end], [count, end], JSON.stringify(text))
  }
  assert.equal(readAnswers(wire('HTTP/1.1 103 Early Hints\r\n\r\n' + answer()), ['GET']).finals, 1)
  assert.equal(readAnswers(wire(answer() + answer()), ['GET']).end, 'bad')
})
