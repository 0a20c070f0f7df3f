import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fate } from '../../../src/core/inbox/message.ts'
import type { Meter } from '../../../src/ports/telemetry.ts'
import type { Called, CallOptions } from '../../harness/call.ts'
import { call } from '../../harness/call.ts'
import { DOWN } from '../../harness/faulty-store.ts'
import { countingMeter, startGuarded } from '../../harness/gateway.ts'
import { ASYNC, startAsync, startInbox } from '../../gateway/inbox/inbox-world.ts'
import type { InboxWorld } from '../../gateway/inbox/inbox-world.ts'

const OWNER = Buffer.alloc(16, 1)
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

async function settle ({ inbox }: InboxWorld, fate: Fate): Promise<void> {
  await inbox.alive(OWNER, 60_000)
  const [delivery] = await inbox.take({ routes: [{ route: 'things', places: 1 }], owner: OWNER })
  if (delivery === undefined) throw new Error('nothing is due')
  await inbox.settle(delivery.token, fate)
}

async function look (world: InboxWorld, accepted: Called, options: CallOptions = {}): Promise<Called> {
  return call(world.url, accepted.headers.location ?? '', { method: 'GET', ...options })
}

test('how a message stands is told from its acceptance to its final answer', async (t) => {
  const world = await startInbox(t)
  const accepted = await world.ask('k')
  const waiting = await look(world, accepted)
  assert.deepEqual(
    [waiting.status, waiting.headers['content-type'], waiting.headers['cache-control'], waiting.headers['retry-after']],
    [200, 'application/json', 'no-store', '1']
  )
  const { receivedAt, nextAttemptAt, ...rest } = waiting.json
  assert.match(receivedAt, RFC3339)
  assert.match(nextAttemptAt, RFC3339)
  assert.deepEqual(rest, { id: accepted.json.id, state: 'waiting', attempts: 0, settledAt: null, lastError: null, answer: null })
  await settle(world, { kind: 'again', inMs: 30_000, status: 503, error: 'HTTP_503' })
  const again = await look(world, accepted)
  assert.deepEqual([again.json.state, again.json.attempts, again.json.lastError], ['waiting', 1, 'HTTP_503'])
  assert.ok(Number(again.headers['retry-after']) > 1 && Number(again.headers['retry-after']) <= 30)
  await world.inbox.retry({ limit: 1 }, { who: 'test', why: 'test' })
  await settle(world, {
    kind: 'delivered',
    status: 201,
    answer: { status: 201, headers: ['Content-Type', 'text/plain', 'X-Twice', 'a', 'X-Twice', 'b'], body: Buffer.from('für dich') }
  })
  const delivered = await look(world, accepted)
  assert.equal(delivered.headers['retry-after'], undefined)
  assert.match(delivered.json.settledAt, RFC3339)
  assert.deepEqual([delivered.json.state, delivered.json.nextAttemptAt, delivered.json.lastError], ['delivered', null, null])
  assert.deepEqual(delivered.json.answer, {
    code: 201,
    headers: [['Content-Type', 'text/plain'], ['X-Twice', 'a'], ['X-Twice', 'b']],
    body: 'für dich',
    encoding: 'utf-8'
  })
  assert.ok(!('status' in delivered.json) && !('status' in accepted.json), 'Dapr reads a member of that name')
  // Its sender's own retry still gets what it got.
  assert.equal((await world.ask('k')).text, accepted.text)
})

test('`attempts` is the number of the last delivery, whether it was sent or not, and an operator\'s retry does not begin it anew', async (t) => {
  const world = await startInbox(t)
  const accepted = await world.ask('k')
  await settle(world, { kind: 'again', inMs: 0, status: null, error: 'WORKER_LOST' })
  await settle(world, { kind: 'dead', status: null, error: 'ATTEMPTS_SPENT WORKER_LOST', answer: null, counts: false })
  const attempts = async (): Promise<unknown> => (await look(world, accepted)).json.attempts
  assert.deepEqual([await attempts(), (await world.inbox.list({ limit: 1 }))[0]?.tries], [2, 1])
  await world.inbox.retry({ limit: 1 }, { who: 'test', why: 'test' })
  assert.equal(await attempts(), 2)
  await settle(world, { kind: 'delivered', status: 204, answer: null })
  assert.equal(await attempts(), 3)
})

test('a body that is no text is in base64; a dead message says why', async (t) => {
  const world = await startInbox(t)
  const accepted = await world.ask('k')
  await settle(world, { kind: 'dead', status: 410, error: 'GONE', answer: { status: 410, headers: [], body: Buffer.from([255, 0]) } })
  const dead = await look(world, accepted)
  assert.deepEqual(
    [dead.json.state, dead.json.lastError, dead.json.answer],
    ['dead', 'GONE', { code: 410, headers: [], body: '/wA=', encoding: 'base64' }]
  )
})

test('HEAD tells the same without a body; other methods are 405', async (t) => {
  const world = await startInbox(t)
  const accepted = await world.ask('k')
  const [got, head] = [await look(world, accepted), await look(world, accepted, { method: 'HEAD' })]
  assert.deepEqual(
    [head.status, head.body.length, head.headers['content-length'], head.headers['retry-after']],
    [200, 0, String(got.body.length), '1']
  )
  for (const method of ['POST', 'DELETE', 'PUT']) {
    const refused = await look(world, accepted, { method })
    assert.deepEqual([refused.status, refused.headers.allow], [405, 'GET, HEAD'])
  }
})

test('to anybody else it is as if it were not there', async (t) => {
  const world = await startInbox(t)
  const mine = { Authorization: 'Bearer alice' }
  const accepted = await world.ask('k', { headers: mine })
  assert.equal((await look(world, accepted, { headers: mine })).status, 200)
  const strange = (answer: Called): unknown => [
    answer.status,
    answer.headers['content-type'],
    answer.headers['cache-control'],
    { ...answer.json, instance: '' }
  ]
  const unknown = strange(await call(world.url, `/.well-known/onceway/messages/${Buffer.alloc(32, 7).toString('base64url')}`, {
    method: 'GET',
    headers: mine
  }))
  assert.equal((unknown as number[])[0], 404)
  for (const headers of [{}, { Authorization: 'Bearer bob' }, { Cookie: 'a=b' }, { Authorization: ['Bearer alice', 'Bearer alice'] }]) {
    const answer = await look(world, accepted, { headers })
    // Two lines of it are refused before anything is looked at, for every path.
    if (answer.status === 400) assert.equal(answer.json.code, 'bad-request')
    else assert.deepEqual(strange(answer), unknown)
  }
  const { location = '' } = accepted.headers
  for (const spelling of [`${location}=`, `${location}A`, location.slice(0, -1), `${location}/`, `${location.slice(0, -1)}%41`]) {
    assert.equal((await call(world.url, spelling, { method: 'GET', headers: mine })).status, 404, spelling)
  }
})

test('a route that is not configured any more tells nothing; without any inbox the path is the upstream\'s', async (t) => {
  const world = await startInbox(t)
  const accepted = await world.ask('k')
  const other = await startAsync(t, { shared: world.inbox })
  const [route] = other.world.inboxes.values()
  if (route === undefined) throw new Error('no route')
  other.gateway.reconfigure({
    limits: other.world.limits,
    longestLeaseMs: 15_000,
    probed: new Map(),
    inboxes: new Map([['another', { ...route, name: 'another' }]])
  })
  assert.equal((await look(other, accepted)).json.code, 'no-message')
  const plain = await startGuarded(t)
  await call(plain.url, accepted.headers.location ?? '', { method: 'POST' })
  assert.equal(plain.witness.seen[0]?.target, accepted.headers.location)
})

test('while the store is away nobody is told that there is no message', async (t) => {
  const world = await startInbox(t)
  const accepted = await world.ask('k')
  world.faults.set('look', DOWN)
  const answer = await look(world, accepted)
  assert.deepEqual([answer.status, answer.json.code, answer.headers['retry-after']], [503, 'store-unavailable', '1'])
})

test('accepted and accepted again are counted as such', async (t) => {
  const counted: unknown[] = []
  const request: Meter['request'] = (route, outcome) => { counted.push([route, outcome]) }
  const meter = new Proxy(countingMeter(), { get: (rest, name) => name === 'request' ? request : Reflect.get(rest, name) as unknown })
  const world = await startAsync(t, { world: { meter } })
  const accepted = await world.ask('k', { headers: ASYNC })
  await world.ask('k', { headers: ASYNC })
  await world.ask('k')
  await look(world, accepted)
  assert.deepEqual(counted, [
    ['things', 'accepted'],
    ['things', 'accepted-again'],
    ['things', 'accepted-again'],
    ['/.well-known/onceway/messages', 'told']
  ])
})
