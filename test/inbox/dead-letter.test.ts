/** What dies goes to another consumer, over HTTP: what it gets, how it is delivered, and what others see of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { StoreRejected, StoreUnavailable } from '../../src/ports/errors.ts'
import type { InboxPolicy } from '../../src/core/policy/policy.ts'
import { eventually } from '../harness/eventually.ts'
import { recordingLog, startGateway, upstreamPolicy } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { INBOX, inboxRoute } from './world.ts'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const BACKOFF = { firstMs: 1, longestMs: 20, scheduleMs: null }

async function consumer (t: TestContext, behave: Behaviour): Promise<Witness> {
  const witness = await startWitness(behave)
  t.after(async () => { await witness.close() })
  return witness
}

function lettersTo ({ url }: Witness, inbox: Partial<InboxPolicy> = {}): NonNullable<InboxPolicy['deadLetter']> {
  const upstream = upstreamPolicy(url, { name: 'ops', requestHeaders: [['Authorization', 'Bearer of-ops']] })
  return { upstream, path: '/dead', inbox: { ...INBOX, backoff: BACKOFF, ...inbox } }
}

async function send ({ url }: TestGateway, key: string, body: string): Promise<{ readonly id: string, readonly location: string }> {
  const response = await fetch(`${url}/things?by=sender`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'Idempotency-Key': key,
      Authorization: 'Bearer of-the-sender',
      'Onceway-Dead-Error': 'NONE'
    },
    body
  })
  assert.equal(response.status, 202)
  return await response.json() as { readonly id: string, readonly location: string }
}

async function statusOf ({ url }: TestGateway, location: string): Promise<Response> {
  return fetch(url + location, { headers: { Authorization: 'Bearer of-the-sender' } })
}

test('what dies is delivered to another consumer until that has it: signed, with why, and without the credential of the sender', async (t) => {
  const dying = await consumer(t, (_seen, response) => { response.writeHead(503).end() })
  const ops = await consumer(t, (_seen, response, _socket, count) => { response.writeHead(count < 3 ? 500 : 204).end() })
  const deadLetter = lettersTo(ops, { sign: [SECRET] })
  const log = recordingLog()
  const routes = [inboxRoute({ deadLetter, backoff: BACKOFF, attemptsMax: 2 }, {}, dying.url)]
  const gateway = await startGateway(t, { routes, world: { log } })
  const { id, location } = await send(gateway, 'k1', '{"event":"a"}')
  await eventually(() => ops.seen.length === 3, 'it is taken by the third delivery')
  assert.deepEqual(dying.seen.map(({ headers }) => headers['onceway-dead-error']), [undefined, undefined], 'nobody else says so')
  for (const { method, target, headers, body } of ops.seen) {
    assert.deepEqual([method, target, headers.authorization, body.toString()], ['POST', '/dead', 'Bearer of-ops', '{"event":"a"}'])
    assert.deepEqual(
      ['key', 'route', 'error', 'tries'].map((name) => headers[`onceway-dead-${name}`]),
      [id, 'things', 'ATTEMPTS_SPENT HTTP_503', '2']
    )
    const fields = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
    new Webhook(SECRET).verify(body.toString(), fields)
  }
  const own = String(ops.seen[0]?.headers['onceway-key'])
  assert.notEqual(own, id)
  const status = await (await statusOf(gateway, location)).json() as { readonly state: string, readonly lastError: string }
  assert.deepEqual([status.state, status.lastError], ['dead', 'ATTEMPTS_SPENT HTTP_503'])
  assert.equal((await statusOf(gateway, location.replace(id, own))).status, 404, 'no sender was told of the letter')
  const died = log.lines.filter(({ event }) => event === 'message-dead')
  assert.deepEqual(died.map(({ deadLetter: letter }) => letter), [own])
  const isDone = async (): Promise<boolean> =>
    (await gateway.world.inbox.depths()).every(({ waiting, delivering }) => waiting + delivering === 0)
  await eventually(isDone, 'no more')
  assert.deepEqual([dying.seen.length, ops.seen.length], [2, 3])
})

test('the letter of a message whose worker died again and again, and of what is refused for good', async (t) => {
  const refuses = await consumer(t, (_seen, response) => { response.writeHead(410).end('never') })
  const ops = await consumer(t, (_seen, response) => { response.end() })
  const world = { inbox: new MemoryInbox({ nowMs: Date.now }) }
  const route = inboxRoute({ deadLetter: lettersTo(ops), attemptsMax: 1 }, { unknown: 'retry' }, refuses.url)
  const accepting = await startGateway(t, { routes: [route], world, background: false })
  const lost = await send(accepting, 'k1', '1')
  const owner = Buffer.alloc(16, 1)
  await world.inbox.alive(owner, 1_000)
  assert.equal((await world.inbox.take({ routes: [{ route: 'things', places: 1 }], owner })).length, 1)
  await world.inbox.gone(owner)
  assert.equal((await world.inbox.recover(1)).count, 1)
  await accepting.close()
  const gateway = await startGateway(t, { routes: [route], world })
  const gone = await send(gateway, 'k2', '2')
  await eventually(() => ops.seen.length === 2, 'both are told')
  assert.deepEqual(
    ops.seen.map(({ headers }) => [headers['onceway-dead-key'], headers['onceway-dead-error'], headers['onceway-dead-tries']]).sort(),
    [[gone.id, 'GONE', '1'], [lost.id, 'ATTEMPTS_SPENT WORKER_LOST', '1']].sort()
  )
})

test('a death whose reply is lost, or whose answer the store refuses, is told once, and has one copy', async (t) => {
  const ops = await consumer(t, (_seen, response) => { response.end() })
  const refuses = await consumer(t, (_seen, response) => { response.writeHead(410).end('never') })
  const log = recordingLog()
  const inbox = new MemoryInbox({ nowMs: Date.now })
  const real = inbox.settle.bind(inbox)
  const faults = [
    () => new StoreUnavailable('postgres', 'message_settle', true, new Error('the reply was lost')),
    () => new StoreRejected('postgres', 'message_settle', new Error('no such character'))
  ]
  inbox.settle = async (token, fate) => {
    if (fate.kind !== 'dead' || faults.length === 0) return real(token, fate)
    const fault = (faults.length === 2 ? faults.shift() : fate.answer === null ? undefined : faults[0])?.()
    if (fault instanceof StoreUnavailable) await real(token, fate)
    if (fault !== undefined) throw fault
    return real(token, fate)
  }
  const routes = [inboxRoute({ deadLetter: lettersTo(ops) }, {}, refuses.url)]
  const gateway = await startGateway(t, { routes, world: { inbox, log } })
  const died = () => log.lines.filter(({ event }) => event === 'message-dead').map(({ deadLetter: letter }) => letter)
  const sent: string[] = []
  for (const key of ['lost', 'refused']) {
    sent.push((await send(gateway, key, '1')).id)
    await eventually(() => ops.seen.length === sent.length && died().length === sent.length, `${key}: it is told`)
  }
  assert.deepEqual(ops.seen.map(({ headers }) => headers['onceway-dead-key']), sent)
  assert.deepEqual(ops.seen.map(({ headers }) => headers['onceway-key']), died())
  assert.deepEqual((await inbox.list({ limit: 10 })).map(({ about }) => about.route).sort(), [
    'things', 'things', 'things::dead-letter', 'things::dead-letter'
  ])
})

test('it is delivered until it is taken, whatever the route says of answers; where anybody may ask, nobody is told the answer', async (t) => {
  const dying = await consumer(t, (_seen, response) => { response.writeHead(422).end('why') })
  const ops = await consumer(t, (_seen, response, _socket, count) => {
    if (count === 1) response.socket?.destroy()
    else response.writeHead(count < 4 ? 422 : 200).end()
  })
  const policy = { unknown: 'hold', profile: 'api', scope: { kind: 'parts', parts: [{ kind: 'const', value: 'shared' }] } } as const
  const gateway = await startGateway(t, { routes: [inboxRoute({ deadLetter: lettersTo(ops) }, policy, dying.url)] })
  const { location } = await send(gateway, 'k1', '1')
  await eventually(() => ops.seen.length === 4, 'it is taken by the fourth delivery')
  const status = await (await statusOf(gateway, location)).json() as { readonly lastError: string, readonly answer: unknown }
  assert.deepEqual([status.lastError, status.answer], ['HTTP_422', null])
})
