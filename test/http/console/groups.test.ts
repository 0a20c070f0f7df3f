/** Groups on the console's pages: what waits for what, and what a change of one message means for the others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { acceptInTurn, DEAD, DELIVERED, HELD, messageOf, takeFrom, takeOne, workerOf } from '../../conformance/inbox-world.ts'
import type { Fate } from '../../../src/core/inbox/message.ts'
import type { MessageOver } from '../../conformance/inbox-world.ts'
import { startConsole } from './world.ts'
import type { Console } from './world.ts'

const ORDERED = `
  - name: webhooks
    match: { path: /hooks, methods: [POST] }
    upstream: a
    idempotency: { scope: public, mode: inbox, inbox: { order: "header:X-Group", onDead: stop-group } }
  - { name: plain, match: { path: /plain, methods: [POST] }, upstream: a, idempotency: { scope: public, mode: inbox } }`

async function startOrdered (t: TestContext): Promise<Console> {
  return startConsole(t, { routes: ORDERED })
}

/** Messages of a group, one behind another. Their ids as the console shows them. */
async function groupOf ({ store: { inbox } }: Console, count: number, over: MessageOver = {}): Promise<string[]> {
  const messages = Array.from({ length: count }, () => messageOf({ group: 'one', stops: true, holds: true, ...over }))
  await acceptInTurn(inbox, messages)
  return messages.map(({ id }) => id.toString('base64url'))
}

/** The one that is due ends so. */
async function end ({ store: { inbox } }: Console, fate: Fate = DEAD): Promise<void> {
  await inbox.settle((await takeOne(inbox, await workerOf(inbox))).token, fate)
}

test('the groups of a route are shown with depth, age and the message that each waits for', async (t) => {
  const world = await startOrdered(t)
  const viewer = await world.as('viewer')
  assert.match((await viewer.get('/inbox/groups?route=webhooks')).body, /No message of a group is open/)
  const [first = ''] = await groupOf(world, 3)
  await end(world)
  await groupOf(world, 1, { group: 'two' })
  world.advance(3_600_000)
  const inbox = await viewer.get('/inbox')
  assert.deepEqual(Array.from(inbox.body.matchAll(/"\/inbox\/groups\?route=([^"]*)"/g), ([, route]) => route), ['webhooks'])
  const { status, body } = await viewer.get('/inbox/groups?route=webhooks')
  assert.equal(status, 200)
  assert.match(body, new RegExp(`/inbox/messages/${first}"[\\s\\S]*Dead: given up[\\s\\S]*stops the group until[\\s\\S]*>3<[\\s\\S]*>1 h<[\\s\\S]*>Waits<[\\s\\S]*>1<`))
  assert.equal((await viewer.get('/inbox/groups?route=nothing')).status, 404)
})

test('groups that cannot be counted in time are not said to be none', async (t) => {
  const world = await startOrdered(t)
  world.store.operator.groups = async () => null
  const { body } = await (await world.as('viewer')).get('/inbox/groups?route=webhooks')
  assert.match(body, /could not be counted in time/)
  assert.doesNotMatch(body, /No message of a group is open/)
})

test('the age of a route is that of what waits, and its dead letters lead to the oldest first', async (t) => {
  const world = await startOrdered(t)
  await groupOf(world, 1, { route: 'webhooks' })
  await end(world)
  const { body } = await (await world.as('viewer')).get('/inbox')
  assert.match(body, />Oldest waiting</)
  assert.match(body, /"\/inbox\/messages\?route=webhooks&amp;state=dead&amp;order=oldest"/)
})

/** The value of a fact on a page, as text. */
function fact (body: string, name: string): string {
  const [, value = ''] = new RegExp(`<dt>${name}</dt><dd>(.*?)</dd>`).exec(body) ?? []
  return value.replace(/<[^>]*>/g, '').trim()
}

test('a message that stops its group says so, how many wait behind it, and what follows for them', async (t) => {
  const world = await startOrdered(t)
  const operator = await world.as('operator')
  const [first = '', second = ''] = await groupOf(world, 3)
  await end(world, HELD)
  const { body } = await operator.get(`/inbox/messages/${first}`)
  assert.equal(fact(body, 'Its group'), 'It stops its group. 2 messages wait behind it.')
  assert.equal(fact(body, 'Forgotten'), 'Not before an operator retries or discards it')
  assert.match(fact(body, 'Held since'), /UTC$/)
  assert.match(body, /discard it so that the group goes on/)
  const retry = await operator.get(`/inbox/messages/${first}/retry`)
  assert.match(retry.body, /2 messages wait behind it\.[\s\S]*It keeps its place, and its group goes on waiting for it/)
  const discard = await operator.get(`/inbox/messages/${first}/discard`)
  assert.match(discard.body, /2 messages wait behind it\.[\s\S]*The later messages of its group go on without it/)
  // The groups that are read may not have this one.
  world.store.operator.groups = async () => []
  assert.match((await operator.get(`/inbox/messages/${first}`)).body, /How many wait behind it: <a href="\/inbox\/groups\?route=webhooks"/)
  assert.equal(fact((await operator.get(`/inbox/messages/${second}`)).body, 'Next delivery'), 'It waits for its turn in its group')
})

test('a dead message that stops no group does not say that it does', async (t) => {
  const world = await startOrdered(t)
  const operator = await world.as('operator')
  const [first = ''] = await groupOf(world, 2, { stops: false })
  await end(world)
  const { body } = await operator.get(`/inbox/messages/${first}`)
  assert.deepEqual([fact(body, 'Its group'), fact(body, 'Request kept until')], ['', 'As long as the message'])
  assert.match(fact(body, 'Forgotten'), /UTC$/)
  assert.match((await operator.get(`/inbox/messages/${first}/discard`)).body, /Its group does not wait for it/)
})

test('a message that was replayed and is dead keeps its request as long as itself', async (t) => {
  const world = await startOrdered(t)
  const operator = await world.as('operator')
  const [id = ''] = await groupOf(world, 1)
  await end(world, { ...DELIVERED, requestMs: 60_000 })
  const replay = await operator.get(`/inbox/messages/${id}/replay`)
  assert.match(replay.body, /If it is given up this time, it stops its group until an operator/)
  await operator.submit(replay, `/inbox/messages/${id}/replay`, { reason: 'they lost it' })
  assert.equal(fact((await operator.get(`/inbox/messages/${id}`)).body, 'Request kept until'), 'As long as the message')
  await end(world)
  const { body } = await operator.get(`/inbox/messages/${id}`)
  assert.equal(fact(body, 'Request kept until'), 'As long as the message')
  assert.equal(fact(body, 'Its group'), 'It stops its group. No message waits behind it.')
})

test('a message that waits says for what, and that it was not delivered yet', async (t) => {
  const world = await startOrdered(t)
  const viewer = await world.as('viewer')
  const [first = '', second = ''] = await groupOf(world, 2)
  const waiting = (await viewer.get(`/inbox/messages/${second}`)).body
  assert.equal(fact(waiting, 'Last delivery'), 'None yet')
  assert.match(waiting, new RegExp(`It waits for its turn in its group, behind <a[^>]* href="/inbox/messages/${first}"`))
  assert.match(fact(waiting, 'Next delivery'), /Waits$/)
  const [alone = ''] = await groupOf(world, 2, { group: 'two' })
  // Of which group it is is not known any more.
  const unknown = (await viewer.get(`/inbox/messages/${second}`)).body
  assert.equal(fact(unknown, 'Next delivery'), 'It waits for its turn in its group')
  assert.match(fact((await viewer.get(`/inbox/messages/${alone}`)).body, 'Next delivery'), /UTC$/)
})

test('a message of a paused route says that it is not delivered, since when and by whom', async (t) => {
  const world = await startOrdered(t)
  const operator = await world.as('operator')
  const messages = [messageOf({ route: 'plain' }), messageOf({ route: 'plain' })]
  await acceptInTurn(world.store.inbox, messages)
  const [delivery] = await takeFrom(world.store.inbox, await workerOf(world.store.inbox), 1, 'plain')
  assert.ok(delivery)
  await world.store.inbox.settle(delivery.token, DEAD)
  const [dead, waiting] = [delivery.token.id, messages.find(({ id }) => !id.equals(delivery.token.id))?.id ?? Buffer.alloc(0)]
    .map((id) => `/inbox/messages/${id.toString('base64url')}`)
  const paused = /Route <bdi[^>]*>plain<\/bdi> is paused since [\s\S]* by <bdi[^>]*>ops<\/bdi>: <bdi[^>]*>mending<\/bdi>/
  assert.doesNotMatch((await operator.get(`${waiting}`)).body, paused)
  await world.store.operator.pause('plain', { who: 'ops', why: 'mending' })
  const page = await operator.get(`${waiting}`)
  assert.match(page.body, paused)
  assert.match(fact(page.body, 'Next delivery'), /^Not before its route is resumed\. Due: .* UTC$/)
  assert.doesNotMatch((await operator.get(`${dead}`)).body, paused)
  const retry = await operator.get(`${dead}/retry`)
  assert.match(retry.body, paused)
  const done = await operator.submit(retry, `${dead}/retry`, { reason: 'mended' })
  assert.match((await operator.get(done.location ?? '')).body, paused)
  assert.doesNotMatch((await operator.get(`${dead}/discard`)).body, paused)
})
