/** With `verify`, every request with a key needs a good signature before any record of the key is looked at. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { VerifyPolicy } from '../../../src/core/policy/policy.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { faulty } from '../../harness/faulty-store.ts'
import { countingMeter, startGuarded } from '../../harness/gateway.ts'
import type { Guarded, GuardedOptions } from '../../harness/gateway.ts'
import { CREATED } from '../../harness/witness.ts'
import { startDrop } from '../drop/drop-world.ts'

const [SECRET, BEFORE, ANOTHERS] = ['hunter2', 'hunter1', 'hunter3']
const VERIFY: VerifyPolicy = { scheme: 'stripe', secrets: [SECRET, BEFORE], toleranceMs: 60_000, hmac: null }
const BODY = '{"amount":100}'

/** Signs as Stripe's libraries do. `agoMs`: how long ago. */
function signed ({ secret = SECRET, body = BODY, agoMs = 0 } = {}): Record<string, string> {
  const at = Math.floor((Date.now() - agoMs) / 1_000)
  return { 'Stripe-Signature': `t=${at},v1=${createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')}` }
}

const BAD: ReadonlyArray<readonly [what: string, headers: () => Record<string, string>]> = [
  ['none', () => ({})],
  ['another\'s', () => signed({ secret: ANOTHERS })],
  ['another body\'s', () => signed({ body: '{"amount":900}' })],
  ['too old', () => signed({ agoMs: 120_000 })],
  ['from the future', () => signed({ agoMs: -120_000 })]
]

async function start (
  t: TestContext,
  options: GuardedOptions = {}
): Promise<Guarded & { readonly send: (key: string, headers?: Record<string, string>) => Promise<Called> }> {
  const guarded = await startGuarded(t, { ...options, policy: { verify: VERIFY, ...options.policy } })
  return { ...guarded, send: async (key, headers = signed()) => guarded.ask(key, { body: BODY, headers }) }
}

function assertRefused (answer: Called): void {
  assert.deepEqual(
    [answer.status, answer.json.code, answer.headers['www-authenticate'], answer.headers['idempotent-replayed']],
    [401, 'signature-invalid', 'Signature', undefined]
  )
  assert.match(answer.json.detail, /Nothing was executed\.$/)
  assert.doesNotMatch(answer.text, /"id"/)
}

test('a good signature is executed, and a retry that is signed anew is replayed, under either secret', async (t) => {
  const { send, witness } = await start(t)
  const first = await send('k', { ...signed(), 'Onceway-Verified': 'github' })
  const again = await send('k', signed({ secret: BEFORE, agoMs: 30_000 }))
  assert.deepEqual(
    [first.headers['idempotency-status'], again.headers['idempotency-status'], again.text],
    ['executed', 'replayed', first.text]
  )
  const told = witness.seen.map(({ rawHeaders }) => rawHeaders.filter((_, at) => rawHeaders[at - 1]?.toLowerCase() === 'onceway-verified'))
  assert.deepEqual(told, [['stripe']])
})

for (const [what, headers] of BAD) {
  test(`a signature that is ${what}: nothing is sent, nothing is claimed, and no stored answer is given`, async (t) => {
    const records = faulty(new MemoryStore({ nowMs: Date.now }))
    const { send, witness } = await start(t, { world: { records: records.store } })
    assertRefused(await send('k', headers()))
    assert.deepEqual([witness.seen.length, records.calls('insert'), records.calls('look')], [0, 0, 0])
    assert.equal((await send('k')).status, 201)
    assertRefused(await send('k', headers()))
    assert.equal(witness.seen.length, 1)
  })
}

test('who does not sign learns nothing of what is under way, and does not wait for it', async (t) => {
  const release = Promise.withResolvers<void>()
  const { send, witness } = await start(t, {
    policy: { inFlight: { waitMs: 5_000, status: 409 } },
    answer: async (...args) => { await release.promise; await CREATED(...args) }
  })
  const first = send('k')
  await witness.reached(1)
  assertRefused(await send('k', {}))
  const joined = send('k', signed({ secret: BEFORE }))
  release.resolve()
  assert.deepEqual([(await first).headers['idempotency-status'], (await joined).headers['idempotency-status']], ['executed', 'replayed'])
})

test('another request under a known key is told apart only by who signs', async (t) => {
  const { ask, send } = await start(t)
  await send('k')
  assert.equal((await ask('k', { body: 'other' })).status, 401)
  assert.equal((await ask('k', { body: 'other', headers: signed({ body: 'other' }) })).status, 422)
})

test('a request without a key is passed on as it came, for the upstream to verify', async (t) => {
  const { url, witness } = await start(t)
  const answer = await call(url, '/things', { body: BODY, headers: { ...signed({ secret: ANOTHERS }), 'Onceway-Verified': 'stripe' } })
  assert.equal(answer.status, 201)
  assert.equal(witness.seen[0]?.headers['onceway-verified'], undefined)
  assert.match(String(witness.seen[0]?.headers['stripe-signature']), /^t=/)
})

test('every check is counted by what it came to', async (t) => {
  const counted: string[] = []
  const signature = (route: string, result: string): void => { counted.push(`${route} ${result}`) }
  const meter = new Proxy(countingMeter(), {
    get: (target, name) => name === 'signature' ? signature : Reflect.get(target, name) as unknown
  })
  const { send } = await start(t, { world: { meter } })
  for (const headers of [signed(), signed(), signed({ secret: BEFORE }), ...BAD.map(([, bad]) => bad())]) await send('k', headers)
  assert.deepEqual(
    counted,
    ['current', 'current', 'previous', 'missing', 'wrong', 'wrong', 'untimely', 'untimely'].map((result) => `things ${result}`)
  )
})

test('by-key-id verifies nothing, and says nothing to the upstream', async (t) => {
  const { send, witness } = await start(t, { policy: { verify: 'by-key-id' } })
  assert.equal((await send('k')).headers['idempotency-status'], 'executed')
  assert.equal((await send('k', {})).headers['idempotency-status'], 'replayed')
  assert.equal(witness.seen[0]?.headers['onceway-verified'], undefined)
})

test('mode drop: an event that nobody signed is neither forwarded nor called a duplicate', async (t) => {
  const { ask, witness, marks } = await startDrop(t, { policy: { verify: VERIFY } })
  assertRefused(await ask('k', { body: BODY }))
  assert.deepEqual([witness.seen.length, marks.calls.get('mark')], [0, undefined])
  assert.equal((await ask('k', { body: BODY, headers: signed() })).status, 201)
  assertRefused(await ask('k', { body: BODY }))
  assert.equal((await ask('k', { body: BODY, headers: signed() })).headers['idempotency-status'], 'duplicate')
  assert.deepEqual(witness.seen.map(({ headers }) => headers['onceway-verified']), ['stripe'])
})

test('a refused request leaves nothing held', async (t) => {
  const { send, gateway } = await start(t, {
    world: {
      limits: {
        share: 1,
        executions: 10,
        waiters: 10,
        inFlightPerScope: 1,
        bufferedBytes: 1024 * 1024,
        unsettledBytes: 1024,
        recentBytes: 1024
      }
    }
  })
  for (let time = 0; time < 3; time++) assertRefused(await send('k', {}))
  assert.deepEqual([gateway.limits.buffered.held, gateway.limits.callerSlots.size], [0, 0])
  assert.equal((await send('k')).status, 201)
})
