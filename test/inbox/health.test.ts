/** A consumer that fails for long is paused, tried with single messages, and resumed by the first one that it takes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DeliveryBound } from '../../src/core/policy/policy.ts'
import { eventually } from '../harness/eventually.ts'
import { recordingLog, startGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { inboxRoute, message } from './world.ts'

for (const total of [{ concurrency: null, ratePerSecond: null }, { concurrency: 4, ratePerSecond: 50 }]) {
  const bound = total.concurrency === null ? '' : ', with a bound for all processes'
  test(`paused after the time, one message at each trial, resumed when one is taken${bound}`, async (t) => trialsAndEnd(t, total))
}

async function trialsAndEnd (t: TestContext, total: DeliveryBound): Promise<void> {
  let isBack = false
  const witness = await startWitness((_seen, response) => { response.writeHead(isBack ? 200 : 500).end() })
  t.after(async () => { await witness.close() })
  const log = recordingLog()
  const inbox = { total, pauseAfterMs: 1_500, backoff: { firstMs: 10, longestMs: 1_000, scheduleMs: null }, attemptsMax: 10_000 }
  const { gateway, world } = await startGateway(t, { routes: [inboxRoute(inbox, {}, witness.url)], world: { log } })
  const messages = ['one', 'two', 'three', 'four'].map((text) => message(text))
  for (const each of messages) await world.inbox.accept(each)
  gateway.onMessage()
  const paused = () => log.lines.filter(({ event }) => event === 'endpoint-paused')
  await eventually(() => paused().length === 1, 'it is paused')
  assert.deepEqual(paused().map(({ route, forMs, inMs }) => [route, forMs, inMs]), [['things', 1_500, 1_000]])
  await sleep(300)
  const before = witness.seen.length
  assert.ok(before > messages.length, 'it was tried often until then')
  await eventually(() => witness.seen.length > before, 'a trial')
  await sleep(400)
  assert.equal(witness.seen.length, before + 1, 'of one message')
  assert.equal((await world.inbox.health()).length, 1)
  isBack = true
  const states = async () => (await world.inbox.list({ limit: 10 })).map(({ state }) => state)
  await eventually(async () => (await states()).every((state) => state === 'delivered'), 'all are delivered')
  await eventually(() => log.lines.some(({ event }) => event === 'endpoint-resumed'), 'it says so')
  assert.deepEqual(await world.inbox.health(), [])
  assert.equal(paused().length, 1)
}

test('a consumer that refuses all that waits is resumed by the first trial after a message that it takes', async (t) => {
  const witness = await startWitness(({ body }, response) => { response.writeHead(body.includes('poison') ? 400 : 200).end() })
  t.after(async () => { await witness.close() })
  const log = recordingLog()
  const inbox = { pauseAfterMs: 1_000, backoff: { firstMs: 10, longestMs: 1_000, scheduleMs: null }, attemptsMax: 10_000 }
  const { gateway, world } = await startGateway(t, { routes: [inboxRoute(inbox, {}, witness.url)], world: { log } })
  for (let index = 0; index < 40; index++) await world.inbox.accept(message(`poison-${index}`))
  gateway.onMessage()
  const timesOf = (name: string) => log.lines.filter(({ event }) => event === name).length
  await eventually(() => timesOf('endpoint-paused') === 1, 'it is paused')
  // Now all of them are due, and longer than what comes next.
  await sleep(inbox.backoff.longestMs)
  await world.inbox.accept(message('good'))
  const before = witness.seen.length
  await eventually(() => timesOf('endpoint-resumed') === 1, 'it is resumed')
  const trials = witness.seen.slice(before).findIndex(({ body }) => body.includes('good'))
  assert.ok(trials === 0 || trials === 1, `${trials} others were tried before`)
})

test('without the setting it is never paused, and one that takes a message now and then is not either', async (t) => {
  const witness = await startWitness((_seen, response, _socket, count) => { response.writeHead(count % 10 === 0 ? 200 : 500).end() })
  t.after(async () => { await witness.close() })
  const log = recordingLog()
  const inbox = { pauseAfterMs: 1_000, backoff: { firstMs: 10, longestMs: 50, scheduleMs: null }, attemptsMax: 10_000 }
  const { gateway, world } = await startGateway(t, { routes: [inboxRoute(inbox, {}, witness.url)], world: { log } })
  for (let index = 0; index < 60; index++) {
    await world.inbox.accept(message(`m${index}`))
    gateway.onMessage()
    await sleep(50)
  }
  assert.deepEqual(log.lines.filter(({ event }) => event === 'endpoint-paused'), [])
})
