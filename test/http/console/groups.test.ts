/** Groups on the console's pages: what waits for what, and what a change of one message means for the others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { acceptInTurn, DEAD, messageOf, takeOne, workerOf } from '../../conformance/inbox-world.ts'
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
async function end ({ store: { inbox } }: Console, fate = DEAD): Promise<void> {
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
