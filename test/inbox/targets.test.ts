/** One acceptance for several consumers, over HTTP: who gets what, what each did with it, and what the sender sees. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { Webhook } from 'standardwebhooks'
import type { MessageView } from '../../src/core/inbox/message-view.ts'
import type { InboxPolicy, InboxTarget, UpstreamPolicy } from '../../src/core/policy/policy.ts'
import { eventually } from '../harness/eventually.ts'
import { startGateway, upstreamPolicy } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { INBOX, inboxRoute } from './world.ts'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const TYPE = { kind: 'json', pointer: ['type'], written: '/type' } as const
const ACCOUNT = { kind: 'json', pointer: ['account'], written: '/account' } as const

interface TargetOver extends Partial<Omit<InboxTarget, 'inbox' | 'upstream'>> {
  readonly inbox?: Partial<InboxPolicy>
  readonly upstream?: Partial<UpstreamPolicy>
}

function targetOf (name: string, { url }: Witness, { inbox, upstream, ...over }: TargetOver = {}): InboxTarget {
  return {
    name,
    path: null,
    when: [],
    ...over,
    upstream: upstreamPolicy(url, { name: `of ${name}`, ...upstream }),
    inbox: { ...INBOX, backoff: { firstMs: 1, longestMs: 100, scheduleMs: null }, ...inbox }
  }
}

async function consumer (t: TestContext, behave: Behaviour = (_seen, response) => { response.end() }): Promise<Witness> {
  const witness = await startWitness(behave)
  t.after(async () => { await witness.close() })
  return witness
}

async function send (
  { url }: TestGateway,
  key: string,
  body: object | string,
  headers: Readonly<Record<string, string>> = {}
): Promise<Response> {
  return fetch(`${url}/things?by=sender`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key, Authorization: 'Bearer of-the-sender', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body)
  })
}

async function statusOf ({ url }: TestGateway, location: string): Promise<MessageView> {
  const response = await fetch(url + location, { headers: { Authorization: 'Bearer of-the-sender' } })
  assert.equal(response.status, 200)
  return await response.json() as MessageView
}

interface Accepted { readonly id: string, readonly location: string }

test('each target gets its own message: its path, its signature, its retries; the sender gets one 202 and sees how each stands', async (t) => {
  const [billing, audit, search] = [
    await consumer(t),
    await consumer(t, (_seen, response, _socket, count) => { response.writeHead(count < 3 ? 503 : 200).end() }),
    await consumer(t, (_seen, response) => { response.writeHead(410).end() })
  ]
  const targets = [
    targetOf('billing', billing, { path: '/hooks?from=us', when: [{ source: TYPE, values: ['paid'] }], inbox: { sign: [SECRET] } }),
    targetOf('audit', audit, { upstream: { requestHeaders: [['Authorization', 'Bearer of-audit']] } }),
    targetOf('search', search, { when: [{ source: TYPE, values: ['paid', 'refunded'] }] })
  ]
  const other = await consumer(t)
  const gateway = await startGateway(t, { routes: [inboxRoute({ targets }, {}, other.url)] })
  const headers = { 'X-Api-Key': 'secret', Cookie: 'a=b', 'X-Kind': 'kept', 'Stripe-Signature': 't=1,v1=abc', 'X-Real-Ip': '10.0.0.7' }
  const response = await send(gateway, 'k1', { type: 'paid', account: 'a' }, headers)
  assert.equal(response.status, 202)
  const { id, location } = await response.json() as Accepted
  await eventually(async () => (await statusOf(gateway, location)).state === 'dead', 'all have ended')
  const { targets: views = [], ...whole } = await statusOf(gateway, location)
  assert.deepEqual(
    views.map(({ target, state, attempts, lastError }) => [target, state, attempts, lastError]),
    [['billing', 'delivered', 1, null], ['audit', 'delivered', 3, null], ['search', 'dead', 1, 'GONE']]
  )
  assert.deepEqual([whole.id, whole.attempts, whole.lastError, whole.answer], [id, 3, 'GONE', null])

  assert.deepEqual([billing.seen.length, audit.seen.length, search.seen.length, other.seen.length], [1, 3, 1, 0])
  assert.deepEqual([billing.seen[0]?.target, audit.seen[0]?.target], ['/hooks?from=us', '/things?by=sender'])
  const signed = billing.seen[0]?.headers ?? assert.fail('it was delivered')
  const fields = Object.fromEntries(Object.entries(signed).map(([name, value]) => [name, String(value)]))
  new Webhook(SECRET).verify(billing.seen[0]?.body.toString() ?? '', fields)
  assert.equal(audit.seen[0]?.headers['webhook-signature'], undefined)
  for (const { headers: got } of [...billing.seen, ...search.seen]) {
    assert.deepEqual([got.authorization, got['x-api-key'], got.cookie], [undefined, undefined, undefined], 'no credential of the sender')
    assert.deepEqual([got['x-kind'], got['stripe-signature']], ['kept', 't=1,v1=abc'])
    assert.deepEqual(Object.keys(got).filter((name) => /forwarded|real-ip/.test(name)), [], 'nor its address')
  }
  assert.deepEqual(audit.seen.map(({ headers: got }) => got.authorization), Array.from({ length: 3 }, () => 'Bearer of-audit'))
  const keys = new Set([billing, audit, search].map(({ seen: [first] }) => first?.headers['onceway-key']))
  assert.equal(keys.size, 3, 'each has an identity of its own')

  const again = await send(gateway, 'k1', { type: 'paid', account: 'a' }, headers)
  assert.deepEqual([again.status, await again.json()], [202, { id, location }])
  const clash = await send(gateway, 'k1', { type: 'refunded', account: 'a' }, headers)
  assert.equal(clash.status, 422, 'the key was used for something else, whoever would take that')
  const nobodys = await send(gateway, 'k1', { type: 'x', account: 'a' }, headers)
  assert.equal(nobodys.status, 422)
  assert.deepEqual([billing.seen.length, audit.seen.length, search.seen.length], [1, 3, 1])
})

test('a duplicate reaches nobody, also at a gateway whose targets are others, in another order, or under other conditions', async (t) => {
  const [one, other, late] = [await consumer(t), await consumer(t), await consumer(t)]
  const [a, b, c] = [targetOf('a', one), targetOf('b', other), targetOf('c', late)]
  const world = { inbox: new MemoryInbox({ nowMs: Date.now }) }
  const gatewayWith = (...targets: readonly InboxTarget[]) => startGateway(t, { routes: [inboxRoute({ targets }, {}, late.url)], world })
  const gateway = await gatewayWith(a, b)
  const first = await (await send(gateway, 'k1', { type: 'paid' })).json() as Accepted
  await eventually(async () => (await statusOf(gateway, first.location)).state === 'delivered', 'both have it')
  await gateway.close()
  const never = { ...b, when: [{ source: TYPE, values: ['x'] }] }
  for (const targets of [[b, a], [c, a, b], [never, a], [c]]) {
    const differs = await gatewayWith(...targets)
    const again = await send(differs, 'k1', { type: 'paid' })
    assert.deepEqual([again.status, await again.json()], [202, first])
    await differs.close()
  }
  const last = await gatewayWith(c, a)
  const fresh = await (await send(last, 'k2', { type: 'paid' })).json() as Accepted
  await eventually(async () => (await statusOf(last, fresh.location)).state === 'delivered', 'the new message has come')
  assert.deepEqual([one, other, late].map(({ seen }) => seen.length), [2, 1, 1])
})

test('what no target takes is accepted and forgotten; what nobody can decide is refused, and nothing of it is accepted', async (t) => {
  const witness = await consumer(t)
  const targets = [
    targetOf('a', witness, { when: [{ source: TYPE, values: ['paid'] }], inbox: { order: ACCOUNT } }),
    targetOf('b', witness, { when: [{ source: TYPE, values: ['paid', 'refunded'] }] })
  ]
  const gateway = await startGateway(t, { routes: [inboxRoute({ targets, batch: 'split' }, {}, witness.url)], background: false })
  const untaken = await send(gateway, 'k1', { type: 'created' })
  const taken = await (await send(gateway, 'k0', { type: 'refunded' })).json() as Accepted
  assert.equal((await send(gateway, 'k0', { type: 'created' })).status, 422, 'whatever the other request is for')
  await gateway.world.inbox.discard({ id: Buffer.from(taken.id, 'base64url'), limit: 1 }, { who: 'ops', why: 'a test' })
  assert.deepEqual([untaken.status, untaken.headers.get('Location'), await untaken.json()], [202, null, { targets: [] }])
  for (const [key, body, said] of [
    ['k2', 'no json', /^A value by which targets take messages of this route cannot be looked for: the body is no JSON in UTF-8\. Nothing/],
    ['k3', '{"type":["paid"]}', /^A value by which targets take messages of this route is no string, integer or boolean\. Nothing/],
    ['k4', '{"type":"paid","account":{}}', /^The value by which messages of this route are ordered is no string, integer or boolean\. Nothing/]
  ] as const) {
    const refused = await send(gateway, key, body)
    assert.equal(refused.status, 400)
    assert.match((await refused.json() as { detail: string }).detail, said)
  }
  assert.deepEqual((await gateway.world.inbox.depths()).filter(({ waiting }) => waiting > 0), [])
})

test('a batch: each event goes to its own targets; the answer says which have none', async (t) => {
  const [one, other] = [await consumer(t), await consumer(t)]
  const targets = [
    targetOf('a', one, { when: [{ source: TYPE, values: ['paid'] }] }),
    targetOf('b', other, { when: [{ source: TYPE, values: ['paid', 'refunded'] }] })
  ]
  const { idempotency: { key } } = inboxRoute()
  const byId = { key: { ...key, sources: [{ kind: 'json', pointer: ['id'], written: '/id' } as const], required: true } }
  const gateway = await startGateway(t, { routes: [inboxRoute({ targets, batch: 'split' }, byId, one.url)] })
  const events = ['paid', 'created', 'refunded', 'paid'].map((type, index) => ({ id: `e${index % 3}`, type: index === 3 ? 'paid' : type }))
  const post = async () => fetch(`${gateway.url}/things`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(events)
  })
  const response = await post()
  assert.equal(response.status, 202)
  const { messages } = await response.json() as { messages: Array<Record<string, unknown>> }
  assert.deepEqual(messages.map((entry) => [typeof entry.id, entry.duplicate ?? false, entry.targets ?? null]), [
    ['string', false, null], ['undefined', false, []], ['string', false, null], ['string', true, null]
  ])
  await eventually(() => one.seen.length === 1 && other.seen.length === 2, 'each has its events')
  const bodies = (witness: Witness) => witness.seen.map(({ body }) => (JSON.parse(body.toString()) as { id: string }).id).sort()
  assert.deepEqual([bodies(one), bodies(other)], [['e0'], ['e0', 'e2']])
  const again = (await (await post()).json() as { messages: Array<Record<string, unknown>> }).messages
  assert.deepEqual(again.map(({ duplicate = false }) => duplicate), [true, false, true, true])
})

test('one target that is full keeps all of them from a new message, and no duplicate from its 202', async (t) => {
  const witness = await consumer(t)
  const targets = [targetOf('a', witness, { inbox: { depthMax: 2 } }), targetOf('b', witness)]
  const gateway = await startGateway(t, { routes: [inboxRoute({ targets }, {}, witness.url)], background: false })
  const answers: Response[] = []
  for (const key of ['k1', 'k2', 'k3', 'k2']) answers.push(await send(gateway, key, {}))
  assert.deepEqual(answers.map(({ status }) => status), [202, 202, 503, 202])
  assert.match(await answers[2]?.text() ?? '', /The inbox of the target a is full/)
  const depths = await gateway.world.inbox.depths()
  assert.deepEqual(depths.map(({ route, waiting }) => [route, waiting]).sort(), [['things::a', 2], ['things::b', 2]])
})

test('each target has an order of its own, and one that is slow holds up no other', async (t) => {
  const free = Promise.withResolvers<void>()
  const [quick, slow] = [await consumer(t), await consumer(t, async (_seen, response) => {
    await free.promise
    response.end()
  })]
  const targets = [
    targetOf('quick', quick, { inbox: { order: ACCOUNT } }),
    targetOf('slow', slow, { inbox: { order: ACCOUNT, concurrency: 8 } })
  ]
  const gateway = await startGateway(t, { routes: [inboxRoute({ targets }, {}, quick.url)] })
  for (const [index, account] of ['x', 'x', 'y', 'x'].entries()) await send(gateway, `k${index}`, { account, index })
  await eventually(() => quick.seen.length === 4, 'the quick one has all')
  assert.equal(slow.seen.length, 2, 'one of each account is on its way')
  free.resolve()
  await eventually(() => slow.seen.length === 4, 'the slow one gets the rest')
  for (const { seen } of [quick, slow]) {
    const events = seen.map(({ body }) => JSON.parse(body.toString()) as { account: string, index: number })
    const ofX = events.filter(({ account }) => account === 'x')
    assert.deepEqual(ofX.map(({ index }) => index), [0, 1, 3])
  }
})

test('a request that is accepted under a claim is so for all targets, or for none', async (t) => {
  const [one, other] = [await consumer(t), await consumer(t)]
  const records = new MemoryStore({ nowMs: Date.now })
  const inbox = new MemoryInbox({ nowMs: Date.now, records })
  const world = { records, inbox }
  const usual = inboxRoute({}, {}, one.url)
  const executing = { ...usual, idempotency: { ...usual.idempotency, inbox: null, inboxFor: 'asked' as const } }
  one.answer = (_seen, response) => { response.writeHead(503, { 'Retry-After': '1' }).end() }
  const before = await startGateway(t, { routes: [executing], world })
  assert.equal((await send(before, 'k1', { type: 'paid' })).status, 503, 'its key is free again, and has a record')
  await before.close()
  one.answer = (_seen, response) => { response.end() }
  const route = inboxRoute({ targets: [targetOf('a', one), targetOf('b', other)] }, {}, one.url)
  const gateway = await startGateway(t, { routes: [route], world })
  const response = await send(gateway, 'k1', { type: 'paid' })
  assert.equal(response.status, 202)
  const { location } = await response.json() as Accepted
  await eventually(async () => (await statusOf(gateway, location)).state === 'delivered', 'all have it')
  assert.deepEqual((await statusOf(gateway, location)).targets?.map(({ target }) => target), ['a', 'b'])
  assert.deepEqual([one.seen.length, other.seen.length], [2, 1])
})

test('the status is the sender\'s while the first target is gone from the file, and shows no answers where anybody may ask', async (t) => {
  const witness = await consumer(t, (_seen, response) => { response.end('for billing alone') })
  const [a, b] = [targetOf('a', witness, { upstream: { host: 'preserve' } }), targetOf('b', witness)]
  const world = { inbox: new MemoryInbox({ nowMs: Date.now }) }
  const gateway = await startGateway(t, { routes: [inboxRoute({ targets: [a, b] }, {}, witness.url)], world, rules: 2 })
  const { location } = await (await send(gateway, 'k1', { type: 'paid' })).json() as Accepted
  await eventually(async () => (await statusOf(gateway, location)).state === 'delivered', 'both have it')
  const answers = async (of: TestGateway) =>
    (await statusOf(of, location)).targets?.map(({ target, answer }) => [target, answer?.body ?? null])
  assert.deepEqual(await answers(gateway), [['a', null], ['b', null]], 'its callers need no credential')
  await gateway.close()
  const named = { scope: { kind: 'parts', parts: [{ kind: 'header', name: 'authorization' }] } } as const
  const reloaded = await startGateway(t, { routes: [inboxRoute({ targets: [b] }, {}, witness.url)], world, rules: 2 })
  assert.deepEqual((await answers(reloaded))?.map(([target]) => target), ['a', 'b'])
  await reloaded.close()
  const strict = await startGateway(t, { routes: [inboxRoute({ targets: [a, b] }, named, witness.url)], rules: 2 })
  const own = await (await send(strict, 'k2', { type: 'paid' })).json() as Accepted
  await eventually(async () => (await statusOf(strict, own.location)).state === 'delivered', 'both have it')
  const { targets = [] } = await statusOf(strict, own.location)
  assert.deepEqual(targets.map(({ answer }) => answer?.body), ['for billing alone', 'for billing alone'])
  assert.equal(witness.seen.at(-1)?.headers.authorization, undefined)
})
