/** A route whose mode changes while its keys are kept: each key stays one operation. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { readPointer } from '../../../src/core/json/pointer.ts'
import type { IdempotencyPolicy, InboxPolicy } from '../../../src/core/policy/policy.ts'
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { settlementOf } from '../../conformance/record-world.ts'
import { call } from '../../harness/call.ts'
import { gate } from '../../harness/faulty-store.ts'
import { apiPolicy } from '../../harness/gateway.ts'
import { ASYNC, idOf, startAsync, startInbox } from './inbox-world.ts'
import type { InboxWorld } from './inbox-world.ts'

const MODES = {
  enforce: async (t: TestContext, world: Shared, policy: Partial<IdempotencyPolicy>) => startAsync(t, {
    ...world,
    policy: { ...policy, inbox: null }
  }),
  async: async (t: TestContext, world: Shared, policy: Partial<IdempotencyPolicy>) => startAsync(t, { ...world, policy }),
  inbox: async (t: TestContext, world: Shared, policy: Partial<IdempotencyPolicy>, inbox: Partial<InboxPolicy>) => startInbox(t, {
    ...world,
    policy,
    inbox
  })
}

interface Shared { readonly shared: MemoryInbox, readonly world: { readonly records: MemoryStore, readonly locks: typeof NO_LOCKS } }

/** One database, and a gateway on it for each of these modes, as if the file had changed in between. */
async function startModes<Mode extends keyof typeof MODES> (
  t: TestContext,
  modes: readonly Mode[],
  policy: Partial<IdempotencyPolicy> = {},
  inbox: Partial<InboxPolicy> = {}
): Promise<Record<Mode, InboxWorld>> {
  const records = new MemoryStore({ nowMs: Date.now })
  const world: Shared = { shared: new MemoryInbox({ nowMs: Date.now, records }), world: { records, locks: NO_LOCKS } }
  const started: Array<[Mode, InboxWorld]> = []
  for (const mode of modes) started.push([mode, await MODES[mode](t, world, policy, inbox)])
  return Object.fromEntries(started) as Record<Mode, InboxWorld>
}

for (const before of ['enforce', 'async'] as const) {
  test(`what was executed under mode ${before} is replayed by the inbox, and is not delivered`, async (t) => {
    const worlds = await startModes(t, [before, 'inbox'])
    const first = await worlds[before].ask('k')
    const again = await worlds.inbox.ask('k')
    assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [first.status, first.text, 'true'])
    assert.equal((await worlds.inbox.ask('k', { body: 'other' })).status, 422)
    assert.deepEqual(await worlds.inbox.messages(), [])
    assert.equal((await worlds.inbox.ask('new')).status, 202)
  })
}

test('what an upstream refused under another mode is accepted, and its deliveries go on where the attempts ended', async (t) => {
  const worlds = await startModes(t, ['enforce', 'inbox'])
  worlds.enforce.witness.answer = (_seen, response) => { response.writeHead(429).end() }
  for (let attempt = 1; attempt <= 2; attempt++) assert.equal((await worlds.enforce.ask('k')).status, 429)
  const accepted = await worlds.inbox.ask('k')
  assert.deepEqual([accepted.status, accepted.headers['preference-applied']], [202, undefined])
  assert.equal((await worlds.inbox.ask('k')).text, accepted.text)
  const owner = Buffer.alloc(16, 1)
  await worlds.inbox.inbox.alive(owner, 60_000)
  const [delivery] = await worlds.inbox.inbox.take({ owner, routes: [{ route: 'things', places: 1 }] })
  assert.equal(delivery?.token.attempt, 3, 'the third request that the consumer sees of this key')
})

test('an acceptance that comes behind the end of its claim comes to nothing: what another has executed since is no message', async (t) => {
  const worlds = await startModes(t, ['async', 'enforce'], { unknown: 'retry' })
  const slow = gate()
  worlds.async.faults.set('accept', slow.fault)
  const late = worlds.async.ask('k', { headers: ASYNC })
  await slow.reached
  const { records } = worlds.enforce.world
  const claimed = await records.look(idOf('k'))
  assert.ok(claimed)
  // As a process does that finds the lease over.
  await records.settle(settlementOf(claimed, 'indeterminate'))
  const executed = await worlds.enforce.ask('k')
  slow.open()
  assert.deepEqual([(await late).text, (await late).headers['idempotency-status']], [executed.text, 'replayed'])
  assert.deepEqual(await worlds.async.messages(), [])
  assert.equal((await worlds.async.ask('k', { headers: ASYNC })).headers['idempotency-status'], 'replayed')
  assert.equal(worlds.enforce.witness.seen.length + worlds.async.witness.seen.length, 1)
})

test('what was executed is not delivered again where `unknown: retry` is meant of deliveries', async (t) => {
  const { enforce, inbox } = await startModes(t, ['enforce', 'inbox'], { unknown: 'retry', profile: 'api' })
  enforce.witness.answer = (_seen, response) => { response.destroy() }
  assert.equal((await enforce.ask('k')).json.code, 'outcome-unknown')
  assert.equal((await inbox.ask('k')).json.code, 'outcome-unknown')
  assert.deepEqual(await inbox.messages(), [])
  const relays = await startModes(t, ['enforce', 'inbox'], { unknown: 'retry', profile: 'relay' })
  relays.enforce.witness.answer = (_seen, response) => { response.destroy() }
  await relays.enforce.ask('k')
  assert.equal((await relays.inbox.ask('k')).status, 202, 'a relay is promised to be sent again')
})

test('an outcome that is not known stays so, and one under way is in flight', async (t) => {
  const worlds = await startModes(t, ['enforce', 'inbox'], { unknown: 'hold' })
  worlds.enforce.witness.answer = (_seen, response) => { response.destroy() }
  assert.equal((await worlds.enforce.ask('k')).json.code, 'outcome-unknown')
  assert.equal((await worlds.inbox.ask('k')).json.code, 'outcome-unknown')
  let release = (): void => {}
  const arrived = new Promise<void>((resolve) => {
    worlds.enforce.witness.answer = (_seen, response) => { release = () => { response.writeHead(201).end('late') }; resolve() }
  })
  const running = worlds.enforce.ask('slow')
  await arrived
  assert.equal((await worlds.inbox.ask('slow')).json.code, 'in-flight')
  release()
  assert.equal((await running).status, 201)
  assert.equal((await worlds.inbox.ask('slow')).text, 'late')
  assert.deepEqual(await worlds.inbox.messages(), [])
})

for (const after of ['enforce', 'async'] as const) {
  test(`what the inbox has accepted is not executed under mode ${after}`, async (t) => {
    const worlds = await startModes(t, ['inbox', after])
    const first = await worlds.inbox.ask('k')
    const again = await worlds[after].ask('k')
    assert.deepEqual(
      [again.status, again.text, again.headers.location, again.headers['idempotency-status']],
      [202, first.text, first.headers.location, 'accepted']
    )
    assert.equal((await worlds[after].ask('k', { body: 'other' })).json.code, 'key-reused')
    assert.equal(worlds[after].witness.seen.length, 0)
    assert.equal(await worlds[after].world.records.look(idOf('k')), null)
  })
}

test('from inbox to enforce and back: no number of an attempt comes twice to the consumer', async (t) => {
  const worlds = await startModes(t, ['inbox', 'enforce'])
  const { inbox } = worlds.inbox
  const owner = Buffer.alloc(16, 1)
  await inbox.alive(owner, 60_000)
  const numbers: string[] = []
  const deliver = async (): Promise<void> => {
    for (const { token } of await inbox.take({ owner, routes: [{ route: 'things', places: 9 }] })) {
      numbers.push(String(token.attempt))
      await inbox.settle(token, { kind: 'again', inMs: 0, status: 503, error: 'HTTP_503' })
    }
  }
  worlds.enforce.witness.answer = ({ headers }, response) => {
    numbers.push(String(headers['idempotency-attempt']))
    response.writeHead(429).end()
  }
  for (const key of ['accepted-first', 'executed-first']) {
    numbers.length = 0
    for (const mode of key === 'accepted-first'
      ? ['inbox', 'enforce', 'inbox', 'enforce'] as const
      : ['enforce', 'inbox', 'enforce', 'inbox'] as const) {
      await worlds[mode].ask(key)
      await deliver()
    }
    assert.deepEqual(numbers, ['1', '2', '3', '4'].slice(0, numbers.length), key)
    assert.ok(numbers.length >= 3, `${key}: ${numbers.length} sendings`)
    await inbox.discard({ state: 'waiting', limit: 9 }, { who: 'test', why: 'the next key' })
  }
})

test('of a batch with an event that was executed alone none is accepted, and the item is named', async (t) => {
  const policy: Partial<IdempotencyPolicy> = {
    key: { ...apiPolicy({}).key, sources: [{ kind: 'json', written: '/id', pointer: readPointer('/id') ?? assert.fail() }] }
  }
  const worlds = await startModes(t, ['enforce', 'inbox'], policy, { batch: 'split' })
  const json = { 'Content-Type': 'application/json' }
  const send = async (world: InboxWorld, events: unknown) => call(world.url, '/things', { headers: json, body: JSON.stringify(events) })
  const { depths } = worlds.inbox.gateway
  let woken = 0
  worlds.inbox.gateway.onMessage = () => { woken++ }
  assert.equal((await send(worlds.enforce, { id: 'b' })).headers['idempotency-status'], 'executed')
  for (const events of [[{ id: 'a' }, { id: 'b' }], [{ id: 'b' }]]) {
    const refused = await send(worlds.inbox, events)
    assert.deepEqual([refused.status, refused.json.code], [422, 'key-reused'])
    assert.match(
      String(refused.json.detail),
      new RegExp(`^Item ${events.length - 1} of the batch: .*Nothing of this request was accepted\\.$`)
    )
  }
  assert.deepEqual(await worlds.inbox.messages(), [])
  assert.deepEqual(
    [woken, depths.isFull('things', { depthMax: 1, bytesMax: 1_000 }, { messages: 1, bytes: 0 })],
    [0, false],
    'and none is counted'
  )
})
