/** What the log says of requests that are not protected as their senders may believe: once, then once a minute, and never a value. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call } from '../harness/call.ts'
import { SILENT, apiPolicy, startGuarded } from '../harness/gateway.ts'
import type { GuardedOptions } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'
import type { TestContext } from 'node:test'

type Line = Record<string, unknown> & { readonly message: string }

async function start (t: TestContext, wanted: RegExp, options: GuardedOptions = {}) {
  const lines: Line[] = []
  const log = { ...SILENT, warn: (fields: object, message: string) => { if (wanted.test(message)) lines.push({ ...fields, message }) } }
  return { ...await startGuarded(t, { ...options, world: { ...options.world, log } }), lines }
}

const ANONYMOUS = { kind: 'credential', anonymous: true, cookies: 'refuse' } as const

test('a client that misspells Idempotency-Key is named in the log: once for each name, then once a minute, never the value', async (t) => {
  const clock = new ManualClock()
  const { url, lines, witness } = await start(t, /mistyped/, { world: { clock }, background: false })
  const send = async (name: string) => call(url, '/things', { headers: { [name]: 'SECRET' }, body: 'x' })
  const names = [
    'Idempotency_Key', 'IdempotencyKey', 'X-Idempotency-Key', 'Idempotent-Key', 'idempotency-token', 'Idempotence-Key',
    'Idempotency-Id', 'Idempotncy-Key', 'Idemptency-Ky', 'Indempotency-Key', 'idempotenyc-key', 'X-Idempotency'
  ]
  for (const name of names) await send(name)
  assert.deepEqual(
    lines.map(({ sent, expected, route }) => [sent, expected, route]),
    names.map((name) => [name, 'Idempotency-Key', 'things'])
  )
  for (const name of [...names, ...names]) await send(name)
  assert.equal(lines.length, names.length)
  await clock.advance(60_000)
  await send('X-IDEMPOTENCY-KEY')
  assert.deepEqual([lines.length, lines.at(-1)?.['sent'], lines.at(-1)?.['unsaid']], [names.length + 1, 'X-IDEMPOTENCY-KEY', 2])
  assert.ok(!JSON.stringify(lines).includes('SECRET'))
  assert.equal(witness.seen.length, 3 * names.length + 1)
})

test('where a key is required its sender is refused, and the log still says which header may be meant', async (t) => {
  const { url, lines, witness } = await start(t, /refused: .*mistyped/, { policy: { key: { ...apiPolicy().key, required: true } } })
  assert.equal((await call(url, '/things', { headers: { Idempotency_Key: 'SECRET' }, body: 'x' })).json.code, 'key-missing')
  assert.deepEqual(lines.map(({ sent, expected, route }) => [sent, expected, route]), [['Idempotency_Key', 'Idempotency-Key', 'things']])
  assert.ok(!JSON.stringify(lines).includes('SECRET'))
  assert.equal(witness.seen.length, 0)
})

test('whoever sends ever new misspellings does not fill the log: twenty lines a minute', async (t) => {
  const clock = new ManualClock()
  const { url, lines, witness } = await start(t, /mistyped/, { world: { clock }, background: false })
  const flood = async (from: number) => {
    for (let at = from; at < from + 25; at++) {
      await call(url, '/things', { headers: { [`Idempotency${'_'.repeat(at)}Key`]: 'k' }, body: 'x' })
    }
  }
  await flood(2)
  assert.equal(lines.length, 20)
  await clock.advance(60_000)
  await flood(27)
  assert.equal(lines.length, 40)
  assert.equal(witness.seen.length, 50)
})

test('nothing is said of requests with a key, of those without anything like one, and of fields that mean something else', async (t) => {
  const { url, lines, ask } = await start(t, /mistyped/)
  await ask('k', { headers: { 'X-Idempotency-Key': 'too' } })
  for (const headers of [
    {},
    { 'X-Request-Id': 'a' },
    { 'Idempotency-Policy': 'store' },
    { 'X-Api-Key': 'a' },
    { 'Idempotency-Attempt': '1' }
  ]) {
    await call(url, '/things', { headers, body: 'x' })
  }
  assert.deepEqual(lines, [])
})

test('a route with another key header says so to whoever sends the usual one, or spells its own with an underscore', async (t) => {
  const { url, lines } = await start(t, /mistyped/, {
    policy: { key: { ...apiPolicy().key, sources: [{ kind: 'header', name: 'x-order-key' }], header: 'x-order-key' } }
  })
  for (const name of ['Idempotency-Key', 'X_Order_Key']) await call(url, '/things', { headers: { [name]: 'k' }, body: 'x' })
  assert.deepEqual(lines.map(({ sent, expected }) => [sent, expected]), [
    ['Idempotency-Key', 'X-Order-Key'],
    ['X_Order_Key', 'X-Order-Key']
  ])
})

test('two callers that only an unknown field tells apart share a key, and the log names the field and what to configure', async (t) => {
  const { ask, lines, witness } = await start(t, /shares its keys/, { policy: { scope: ANONYMOUS } })
  await ask('k', { headers: { 'X-Buyer-Id': 'SECRET-alice' } })
  const bob = await ask('k', { headers: { 'X-Buyer-Id': 'SECRET-bob' } })
  assert.equal(bob.headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
  assert.deepEqual(lines.map(({ field, configure }) => [field, configure]), [['X-Buyer-Id', 'scope: [public, "header?:X-Buyer-Id"]']])
  assert.ok(!JSON.stringify(lines).includes('SECRET'))
})

test('callers whom the scope tells apart, and those who show nothing, are not spoken of', async (t) => {
  const { ask, lines } = await start(t, /shares its keys/, { policy: { scope: ANONYMOUS } })
  await ask('a')
  await ask('b', { headers: { Authorization: 'Bearer t', 'X-Buyer-Id': '1' } })
  await ask('c', { headers: { 'X-Csrf-Token': 'x', 'User-Agent': 'y', 'Sec-Ch-Ua': 'z' } })
  assert.deepEqual(lines, [])
})

test('an upstream whose ttl cannot be had or read is named: what it asked for, and what holds', async (t) => {
  const { ask, lines } = await start(t, / ttl /, {
    policy: { leaseMs: 15_000 },
    answer: (seen, response) => { response.writeHead(200, { 'Idempotency-Policy': `ttl=${String(seen.headers['x-ttl'])}` }).end() }
  })
  for (const ttl of ['60', '5', '5', '7', '99999999999', '5.5', '-1']) await ask(`k${ttl}`, { headers: { 'X-Ttl': ttl } })
  assert.deepEqual(lines.map(({ route, ttlAskedSeconds, ttlSeconds }) => [route, ttlAskedSeconds, ttlSeconds]), [
    ['things', 5, 30],
    ['things', 99_999_999_999, 366 * 86_400],
    ['things', undefined, undefined]
  ])
})
