/** Routes, keys, callers and comparisons as they are explained. What a gateway answers to the same request is compared where it answers. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import type { IdempotencyPolicy, VerifyPolicy } from '../../../src/core/policy/policy.ts'
import { PRESETS } from '../../../src/core/key/presets.ts'
import { schemeName } from '../../../src/core/record/schemes.ts'
import { explain } from '../../../src/operator/explain/explain.ts'
import { retryAnswer } from '../../../src/operator/explain/answer.ts'
import { call } from '../../harness/call.ts'
import { inboxPolicy } from '../../gateway/inbox/inbox-world.ts'
import { bearing, bySubject, inFile, makeIssuer, tokenOf } from '../../gateway/scope/jwt-world.ts'
import { SYSTEM_CLOCK } from '../../../src/process/clock.ts'
import { DROP, faultyMarks } from '../../gateway/drop/drop-world.ts'
import { agree, askedOf, startExplained } from './explain-world.ts'

const KEY = { 'Idempotency-Key': 'k-1' }
const CALLER = { Authorization: 'Bearer hunter2' }

const credential: Partial<IdempotencyPolicy> = { scope: { kind: 'credential', anonymous: false, cookies: 'refuse' } }

// ---------------------------------------------------------------- routes

test('a request that no guarded route takes: why, and what it gets', async (t) => {
  const world = await startExplained(t)
  for (const asking of [{ method: 'GET', headers: KEY }, {}, { method: 'DELETE', headers: KEY }, { headers: { 'Idempotncy-Key': 'k' } }]) {
    const told = await explain(world.context, askedOf(world, asking))
    const answer = await call(world.url, '/things', { method: 'POST', ...asking })
    assert.equal(told.route.guarded, false)
    if (told.answer.does === 'passes') assert.equal(answer.headers['idempotency-status'], undefined)
    else assert.deepEqual([told.answer.status, told.answer.code], [answer.status, answer.json.code])
  }
  const mistyped = await explain(world.context, askedOf(world, { headers: { 'Idempotncy-Key': 'k' } }))
  assert.match(mistyped.answer.sentences.join(), /no Idempotency-Key header\. Its header Idempotncy-Key looks like a mistyped/)
})

test('a head that is ambiguous is refused as the gateway refuses it', async (t) => {
  const world = await startExplained(t)
  const asked = { ...askedOf(world, { headers: KEY }), headers: [...Object.entries(KEY).flat(), 'Host', 'a.test', 'Host', 'b.test'] }
  const told = await explain(world.context, asked)
  assert.deepEqual([told.answer.status, told.answer.code], [400, 'bad-request'])
  assert.match(told.answer.sentences.join(), /more than one host/)
})

test('the gateway\'s own paths, and a target that cannot be compared', async (t) => {
  const world = await startExplained(t)
  const own = await explain(world.context, askedOf(world, { method: 'GET', target: '/.well-known/onceway/problems/in-flight' }))
  assert.deepEqual([own.route.name, own.answer.does], [null, 'is-not-known'])
  const bad = await explain(world.context, askedOf(world, { target: '/%zz', headers: KEY }))
  assert.deepEqual([bad.answer.status, bad.answer.code], [400, 'bad-request'])
})

test('the route is named with what it was matched by', async (t) => {
  const world = await startExplained(t)
  const { told } = await agree(world, { headers: KEY })
  assert.equal(told.route.name, 'things')
  assert.equal(told.route.why, 'It is the first route that takes the request: the methods POST, PATCH, the path /*.')
})

// ---------------------------------------------------------------- keys

test('the key is shown by its hash, and as text only if that was asked for', async (t) => {
  const world = await startExplained(t)
  const { told, answer } = await agree(world, { headers: { ...KEY, ...CALLER } })
  const [record] = await world.records.list({ limit: 1 })
  assert.equal(answer.status, 201)
  assert.equal(told.key.hash, record?.about.keyHash.toString('base64url'))
  assert.deepEqual(told.ids, [record?.id.toString('base64url')])
  assert.doesNotMatch(JSON.stringify(told), /k-1|hunter2/)
  const shown = await explain(world.context, askedOf(world, { headers: KEY }), { showKey: true })
  assert.equal(shown.key.text, 'k-1')
})

test('a key that cannot be used, and one that is required', async (t) => {
  const world = await startExplained(t, { policy: { key: { ...keyPolicy(), required: true } } })
  for (const headers of [{ 'Idempotency-Key': 'a,b' }, {}]) {
    const { told } = await agree(world, { headers })
    assert.equal(told.answer.does, 'is-refused')
  }
})

function keyPolicy (): IdempotencyPolicy['key'] {
  return {
    sources: [{ kind: 'header', name: 'idempotency-key' }],
    header: 'idempotency-key',
    required: false,
    syntax: 'lenient',
    store: 'hash',
    windowMs: 86_400_000
  }
}

test('a key in the body', async (t) => {
  const policy = { key: { ...keyPolicy(), sources: [{ kind: 'json', pointer: ['id'], written: '/id' }] as const } }
  const world = await startExplained(t, { policy })
  const body = '{"id":"a"}'
  const { told } = await agree(world, { body })
  assert.equal(told.key.source, 'The key comes from json:/id.')
  assert.equal((await agree(world, { body })).told.answer.does, 'replays')
  assert.equal((await agree(world, { body: '{"id":"a","more":1}' })).told.answer.code, 'key-reused')
  await agree(world, { body: '{}' })
})

test('a body that is larger than the route takes', async (t) => {
  const world = await startExplained(t)
  const { told } = await agree(world, { headers: KEY, body: 'x'.repeat(1024 * 1024 + 1) })
  assert.equal(told.answer.code, 'request-too-large')
})

test('a key and a caller, without a request: the same record', async (t) => {
  const world = await startExplained(t, { policy: credential })
  for (const key of ['k-1', 'with "quotes", and \\']) {
    const headers = { ...CALLER, 'Idempotency-Key': `"${key.replace(/["\\]/g, '\\$&')}"` }
    await agree(world, { headers })
    const told = await explain(world.context, { route: 'things', key, callerHeaders: Object.entries(CALLER).flat() })
    assert.deepEqual([told.record?.state, told.answer.does, told.answer.status], ['completed', 'replays', 201])
    assert.equal(told.comparison.is, 'not-compared')
  }
  const stranger = await explain(world.context, { route: 'things', key: 'k-1', callerHeaders: [] })
  assert.equal(stranger.answer.code, 'scope-missing')
  const bad = await explain(world.context, { route: 'things', key: 'ü', callerHeaders: Object.entries(CALLER).flat() })
  assert.equal(bad.answer.code, 'key-invalid')
  const gone = await explain(world.context, { route: 'other', key: 'k-1', callerHeaders: [] })
  assert.deepEqual([gone.route.name, gone.answer.does], [null, 'is-not-known'])
})

test('a key and a caller cannot be asked about where the key is in the body', async (t) => {
  const policy = { key: { ...keyPolicy(), sources: [{ kind: 'json', pointer: ['id'], written: '/id' }] as const } }
  const { context } = await startExplained(t, { policy })
  const told = await explain(context, { route: 'things', key: 'a', callerHeaders: [] })
  assert.equal(told.answer.does, 'is-not-known')
  assert.match(told.answer.sentences.join(' '), /come from json:\/id, and not from a header alone\. Ask with a whole request\./)
})

test('a key and a caller of a preset whose key is one header', async (t) => {
  const github = PRESETS.get('github')
  assert.ok(github !== undefined)
  const policy = {
    key: { ...keyPolicy(), sources: [{ kind: 'preset', preset: github }] as const },
    scope: { kind: 'parts', parts: [{ kind: 'const', value: 'shared' }] } as const
  }
  const world = await startExplained(t, { policy })
  const headers = { 'X-GitHub-Delivery': 'd-1' }
  await agree(world, { headers })
  const told = await explain(world.context, { route: 'things', key: 'd-1', callerHeaders: [] })
  assert.deepEqual([told.answer.does, told.record?.state], ['replays', 'completed'])
})

// ---------------------------------------------------------------- callers

test('the caller in words, never with a value', async (t) => {
  const world = await startExplained(t)
  const words = async (headers: Record<string, string>): Promise<string | undefined> =>
    (await explain(world.context, askedOf(world, { headers: { ...KEY, ...headers } }))).caller?.scope
  assert.equal(await words(CALLER), 'the header authorization')
  assert.equal(await words({ ...CALLER, 'X-Tenant': 'hunter2' }), 'the header authorization and the header x-tenant')
  assert.match(await words({}) ?? '', /^no credential/)
})

test('a caller by a verified token: the claim, and an expired token explains nothing further', async (t) => {
  const issuer = await makeIssuer()
  const jwks = await inFile(t, issuer.jwks)
  const world = await startExplained(t, { policy: bySubject(jwks), world: { clock: SYSTEM_CLOCK } })
  const token = async (claims: object): Promise<Record<string, string>> =>
    ({ ...KEY, ...bearing(await tokenOf(issuer, { sub: 'hunter2', ...claims })).headers })
  const { told } = await agree(world, { headers: await token({}) })
  assert.deepEqual(told.caller, { scope: 'the claim sub of its verified token', verified: true })
  assert.equal((await agree(world, { headers: await token({}) })).told.answer.does, 'replays')
  const expired = await agree(world, { headers: await token({ exp: 1_000 }) })
  assert.equal(expired.told.answer.code, 'token-invalid')
  assert.match(expired.told.answer.sentences.join(' '), /The token has expired/)
  assert.deepEqual([expired.told.caller, expired.told.ids, expired.told.record], [null, [], null])
})

const VERIFY: VerifyPolicy = { scheme: 'stripe', secrets: ['hunter2'], toleranceMs: 60_000, hmac: null }

test('a signature: good, too old, and of another body', async (t) => {
  const world = await startExplained(t, { policy: { verify: VERIFY } })
  const signed = (agoMs: number, body = 'same'): Record<string, string> => {
    const at = Math.floor((world.clock.wallMs() - agoMs) / 1_000)
    return { ...KEY, 'Stripe-Signature': `t=${at},v1=${createHmac('sha256', 'hunter2').update(`${at}.${body}`).digest('hex')}` }
  }
  assert.equal((await agree(world, { headers: signed(0) })).told.caller?.verified, true)
  const old = await agree(world, { headers: signed(120_000) })
  assert.deepEqual([old.told.answer.code, old.told.caller?.verified, old.told.record?.state], ['signature-invalid', false, 'completed'])
  assert.match(old.told.answer.sentences.join(' '), /The signature is too old/)
  assert.equal((await agree(world, { headers: signed(0, 'other') })).told.answer.code, 'signature-invalid')
})

// ---------------------------------------------------------------- ids and comparisons

test('a record under the earlier scheme of ids is found by it', async (t) => {
  const secret = Buffer.from('a secret that nobody can guess')
  const world = await startExplained(t, { scheme: '1', world: { secrets: [secret] } })
  const { told: first } = await agree(world, { headers: { ...KEY, ...CALLER } })
  world.records.switchScheme(schemeName(2, secret))
  const { told } = await agree(world, { headers: { ...KEY, ...CALLER } })
  assert.deepEqual([told.answer.does, told.ids.length, told.ids[1]], ['replays', 2, first.ids[0]])
  assert.match(told.steps.join(' '), /of the earlier scheme of ids, because something is stored under it/)
  await agree(world, { headers: { ...KEY, ...CALLER }, body: 'other' })
  const fresh = await agree(world, { headers: { 'Idempotency-Key': 'k-2' } })
  assert.match(fresh.told.steps.join(' '), /Nothing is stored under its id of the earlier scheme/)
})

test('a scheme whose secret is not known here: nothing is looked for', async (t) => {
  const world = await startExplained(t, { scheme: schemeName(2, Buffer.from('another secret, as good as that')) })
  const { told } = await agree(world, { headers: KEY })
  assert.deepEqual([told.answer.code, told.ids], ['store-unavailable', []])
  assert.match(told.answer.sentences.join(' '), /which this gateway does not have/)
})

test('what differs is said where an operator may see it', async (t) => {
  const world = await startExplained(t)
  await agree(world, { headers: KEY })
  const { told } = await agree(world, { headers: KEY, method: 'PATCH', target: '/other?hunter2' })
  assert.deepEqual(told.comparison, {
    is: 'different',
    words: [
      'A compared part differs from the first request.', 'The method of the first request is POST.',
      'The path of the first request is /things.'
    ]
  })
  assert.match(told.steps.join(' '), /These parts are compared: method, target, mediaType, body \(auto\)\./)
  assert.doesNotMatch(JSON.stringify(told), /hunter2/)
})

// ---------------------------------------------------------------- modes

test('mode drop: a new event, a duplicate, a flagged one, and marks that cannot be seen', async (t) => {
  for (const onDuplicate of ['drop', 'flag'] as const) {
    const marks = faultyMarks()
    const world = await startExplained(t, { policy: { drop: { ...DROP, onDuplicate } }, world: { marks } })
    await agree(world, { headers: KEY })
    const { told } = await agree(world, { headers: KEY, body: 'other' })
    assert.deepEqual([told.answer.does, told.comparison.is], [onDuplicate === 'drop' ? 'is-dropped' : 'is-flagged', 'not-compared'])
    const unseen = await explain({ ...world.context, marksOf: () => null }, askedOf(world, { headers: KEY }))
    assert.equal(unseen.answer.does, 'is-not-known')
  }
})

test('a batch: the ids of its events, and how to ask about one', async (t) => {
  const policy = {
    key: { ...keyPolicy(), sources: [{ kind: 'json', pointer: ['id'], written: '/id' }] as const },
    inbox: inboxPolicy({ batch: 'split' }),
    inboxFor: 'all' as const
  }
  const world = await startExplained(t, { policy })
  const headers = { 'Content-Type': 'application/json' }
  const told = await explain(world.context, askedOf(world, { headers, body: '[{"id":"a"},{"id":"b"}]' }))
  assert.deepEqual([told.answer.does, told.ids.length], ['is-not-known', 2])
  const one = await agree(world, { headers, body: '{"id":"a"}' })
  assert.deepEqual([one.told.answer.does, one.told.ids], ['is-accepted', [told.ids[0]]])
  await agree(world, { headers, body: '{"id":"a","more":1}' })
})

test('an inbox without keys takes each request as a message of its own, unless its order cannot be read', async (t) => {
  const order = { kind: 'json', pointer: ['group'], written: '/group' } as const
  const world = await startExplained(t, { policy: { inbox: inboxPolicy({ order }), inboxFor: 'all' } })
  for (let time = 0; time < 2; time++) assert.equal((await agree(world, { body: '{"group":"a"}' })).told.answer.does, 'is-accepted')
  for (const headers of [{}, KEY]) assert.equal((await agree(world, { headers, body: '{"group":{}}' })).told.answer.code, 'bad-request')
})

// ---------------------------------------------------------------- one record

test('a record whose route is gone', async (t) => {
  const world = await startExplained(t)
  await agree(world, { headers: KEY })
  const [record = null] = await world.records.list({ limit: 1 })
  const answer = retryAnswer({ record, route: null })
  assert.equal(answer.does, 'is-not-known')
  assert.match(answer.sentences.join(' '), /status 201.*no guarded route things any more/)
})

test('one record, to the same request and to another', async (t) => {
  const world = await startExplained(t)
  await agree(world, { headers: KEY })
  const [record = null] = await world.records.list({ limit: 1 })
  const { route } = world
  assert.deepEqual([retryAnswer({ record, route }).does, retryAnswer({ record, route, comparison: 'different' }).status], ['replays', 422])
})

test('a record that is asked about at its upstream: how often, when again, and what frees it', async (t) => {
  const world = await startExplained(t, { policy: { unknown: 'probe' } })
  await agree(world, { headers: KEY })
  const [record] = await world.records.list({ limit: 1 })
  assert.ok(record !== undefined)
  const unknown = {
    ...record,
    state: 'indeterminate',
    reason: { stage: 'during', code: 'UPSTREAM_TIMEOUT' },
    headers: null,
    body: null,
    status: null
  } as const
  const words = (againAtMs: number | null): string => {
    const answer = retryAnswer({
      record: { ...unknown, probe: { tries: 3, againAtMs, absentSinceMs: Date.UTC(2026, 1, 2) } },
      route: world.route
    })
    assert.deepEqual([answer.does, answer.status, answer.code], ['is-refused', 504, 'outcome-unknown'])
    return answer.sentences.join(' ')
  }
  assert.match(words(Date.UTC(2026, 1, 3)), /asked 3 times, and is asked again at 2026-02-03.*at 2026-02-02.*does not know the request/)
  assert.match(words(null), /asked 3 times, and is not asked any more\. An operator decides\./)
})

// ---------------------------------------------------------------- what differs between processes

test('a secret of ids that is lost: a request that may be one of its records is not executed', async (t) => {
  const [lost, secret] = [Buffer.from('a secret that nobody can guess'), Buffer.from('another secret, as good as that')]
  const world = await startExplained(t, { scheme: schemeName(2, lost), world: { secrets: [secret, lost] } })
  await agree(world, { headers: KEY })
  world.records.switchScheme(schemeName(2, secret), { isLost: true })
  await world.gateway.ids.refresh()
  const { told } = await agree(world, { headers: KEY })
  assert.deepEqual([told.answer.code, told.record], ['outcome-unknown', null])
  assert.match(told.answer.sentences.join(' '), /secret of an earlier scheme of ids is lost/)
  assert.equal((await agree(world, { headers: KEY, body: 'other' })).told.answer.does, 'is-executed')
})

test('a field of a proxy names the caller only if the peer is trusted', async (t) => {
  const headers = { ...KEY, 'X-Forwarded-User': 'ann' }
  const stranger = await startExplained(t, { policy: credential })
  assert.equal((await agree(stranger, { headers })).told.answer.code, 'scope-missing')
  const behind = await startExplained(t, { policy: credential, trustProxies: ['127.0.0.1'] })
  const context = { ...behind.context, trusts: (address: string) => address === '127.0.0.1' }
  const asked = { ...askedOf(behind, { headers }), peerAddress: '127.0.0.1' }
  assert.equal((await explain(context, asked)).answer.does, 'is-executed')
  assert.equal((await call(behind.url, '/things', { headers, body: 'same' })).status, 201)
  const again = await explain(context, asked)
  assert.deepEqual([again.answer.does, again.caller?.scope], ['replays', 'the header x-forwarded-user'])
})
