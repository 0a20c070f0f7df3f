/** The operator API: who may what, and what each operation answers. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { keyHash } from '../../../src/core/record/record-id.ts'
import { may, ROLES } from '../../../src/core/operator/roles.ts'
import { OPERATIONS, type Operation } from '../../../src/operator/operations.ts'
import { openapiText } from '../../../scripts/openapi.ts'
import { DEAD, DELIVERED, messageOf, takeFrom, workerOf } from '../../conformance/inbox-world.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { DOCUMENT, World } from './world.ts'
import type { Claim, Settlement } from '../../../src/core/record/record.ts'

const REASON = 'found in the ledger'

async function unknown ({ store }: World, over: Partial<Claim> = {}, settled: Partial<Settlement> = {}): Promise<{
  id: string,
  token: { owner: string, attempt: number },
  claim: Claim
}> {
  const claim = claimOf(over)
  await store.insert(claim)
  await store.settle(settlementOf(tokenOf(claim), 'indeterminate', settled))
  return { id: claim.id.toString('base64url'), token: { owner: claim.owner.toString('hex'), attempt: 1 }, claim }
}

test('the document is what the table of operations says', async () => {
  assert.equal(await openapiText(), `${JSON.stringify(DOCUMENT, null, 2)}\n`, 'run npm run generate')
})

test('the gateway serves the document to everybody', async (t) => {
  const world = await World.open(t)
  const { status, body } = await world.get('/openapi.json', { role: null })
  assert.deepEqual([status, body], [200, DOCUMENT])
})

test('each operation is for its role and those above it, and for nobody who has not signed in', async (t) => {
  const world = await World.open(t)
  for (const [name, { method, path, role }] of Object.entries(OPERATIONS) as unknown as Array<[string, Operation]>) {
    const url = path.replace('{id}', randomBytes(32).toString('base64url')).replace('{route}', 'hooks')
    const nobody = await world.ask(method, url, { role: null, ...(method === 'POST' && { body: {} }) })
    assert.deepEqual([nobody.status, nobody.headers.get('www-authenticate')], [401, 'Bearer realm="onceway operators"'], name)
    for (const each of ROLES) {
      const { status } = await world.ask(method, url, { role: each, ...(method === 'POST' && { body: {} }) })
      assert.equal(status === 403, !may(each, role), `${name} as ${each}: ${status}`)
      assert.notEqual(status, 401)
    }
  }
})

test('without a way to sign in there is a read-only view on loopback', async (t) => {
  const world = await World.open(t, { admin: 'readiness: lenient' })
  assert.deepEqual((await world.get('/me', { role: null })).body, { name: 'loopback', via: 'loopback', role: 'viewer', csrfToken: null })
  assert.equal((await world.get('/records', { role: null })).status, 200)
  const { id, token } = await unknown(world)
  assert.equal((await world.get(`/records/${id}/answer`, { role: null })).status, 403)
  assert.equal((await world.post(`/records/${id}/release`, { ...token, reason: REASON }, { role: null })).status, 403)
  assert.equal((await world.get('/records', { role: null, headers: { 'x-forwarded-for': '192.0.2.1' } })).status, 401)
})

test('without a way to sign in there is nothing on other addresses', async (t) => {
  const world = await World.open(t, { admin: 'host: 0.0.0.0' })
  for (const path of ['/me', '/records', '/audit.jsonl', '/events']) {
    const { status, body } = await world.get(path, { role: null })
    assert.deepEqual([status, body.detail], [404, 'There is no operator API here: set admin.auth or admin.token.'], path)
  }
})

test('a record shows its history, what may be done with it, and what a retry would be told', async (t) => {
  const world = await World.open(t)
  const { id, claim } = await unknown(world, { quarantineMs: 60_000 })
  const { body } = await world.get(`/records/${id}`)
  assert.deepEqual([body.state, body.changes, (body.retry as { code: string }).code], ['indeterminate', ['resolve'], 'outcome-unknown'])
  assert.deepEqual((body.history as Array<{ what: string }>).map(({ what }) => what), ['claimed', 'settled', 'releasable', 'expires'])
  world.clock.nowMs += 60_001
  assert.deepEqual((await world.get(`/records/${id}`)).body.changes, ['resolve', 'release'])
  assert.equal((await world.get(`/records/${claim.id.toString('hex')}`)).body.id, id)
  assert.equal((await world.get(`/records/${randomBytes(32).toString('hex')}`)).status, 404)
})

test('the stored answer is for readers, with credentials masked, and as base64 if it is no text', async (t) => {
  const world = await World.open(t)
  const { id, token } = await unknown(world)
  const headers = [['Content-Type', 'application/json'], ['Set-Cookie', 'session=hunter2']]
  const resolved = await world.post(`/records/${id}/resolve`, { ...token, status: 201, headers, body: '{"id":1}', reason: REASON })
  assert.equal(resolved.body.done, 'Resolved: retries get this answer, status 201.')
  assert.deepEqual((await world.get(`/records/${id}/answer`, { role: 'reader' })).body, {
    status: 201, headers: [['Content-Type', 'application/json'], ['Set-Cookie', '***']], body: '{"id":1}', encoding: 'utf-8'
  })
  assert.ok(!(await world.get(`/records/${id}`, { role: 'viewer' })).text.includes('"id":1'))
  const other = await unknown(world)
  const bytes = Buffer.from([0xff, 0, 1]).toString('base64')
  await world.post(`/records/${other.id}/resolve`, { ...other.token, status: 200, body: bytes, encoding: 'base64', reason: REASON })
  const { body } = await world.get(`/records/${other.id}/answer`)
  assert.deepEqual([body.body, body.encoding], [bytes, 'base64'])
  const third = await unknown(world)
  assert.equal((await world.get(`/records/${third.id}/answer`)).status, 404)
})

test('who resolves an outcome does not shorten its protection, unless they say so', async (t) => {
  const world = await World.open(t)
  const DAYS_MS = 86_400_000
  for (const [keepMs, more, keptMs] of [
    [30 * DAYS_MS, {}, 30 * DAYS_MS],
    [60_000, {}, DAYS_MS],
    [30 * DAYS_MS, { retention: '2d' }, 2 * DAYS_MS]
  ] as const) {
    const { id, token } = await unknown(world, {}, { keepMs })
    const { body } = await world.post(`/records/${id}/resolve`, { ...token, status: 201, body: 'x', reason: REASON, ...more })
    const { expiresAt, settledAt } = body.record as { expiresAt: string, settledAt: string }
    assert.equal(Date.parse(expiresAt) - Date.parse(settledAt), keptMs)
  }
})

test('an answer that the route would not keep is refused, unless the operator insists', async (t) => {
  const world = await World.open(t)
  const { id, token } = await unknown(world)
  for (const [answer, status, why] of [
    [{ status: 429 }, 422, /frees the key/],
    [{ status: 504 }, 422, /unknown outcome/],
    [{ status: 200, body: 'x'.repeat(2 * 1024 * 1024) }, 422, /bytes at most/],
    [{ status: 204, body: 'x' }, 400, /has no body/],
    [{ status: 200, headers: [['Transfer-Encoding', 'chunked']] }, 400, /cannot be stored/],
    [{ status: 200, headers: [['X-A', 'a\r\nX-B: b']] }, 400, /no header field/],
    [{ status: 200, body: '%%%', encoding: 'base64' }, 400, /not base64/],
    [{ status: 200, statusOnly: true, body: 'x' }, 400, /leave headers and body out/],
    [{ status: 200, retention: '1s' }, 400, /at least two leases/],
    [{ status: 200, retention: 'soon' }, 400, /is a duration/]
  ] as const) {
    const refused = await world.post(`/records/${id}/resolve`, { ...token, ...answer, reason: REASON })
    assert.equal(refused.status, status, JSON.stringify(answer).slice(0, 80))
    assert.match(String(refused.body.detail), why)
  }
  assert.equal((await world.get(`/records/${id}`)).body.state, 'indeterminate')
  assert.equal((await world.post(`/records/${id}/resolve`, { ...token, status: 429, unusual: true, reason: REASON })).status, 200)
})

test('of two operators at one record the first wins, and the second is told how it is now', async (t) => {
  const world = await World.open(t)
  const { id, token, claim } = await unknown(world)
  assert.equal((await world.post(`/records/${id}/resolve`, { ...token, status: 200, reason: REASON }, { role: 'operator' })).status, 200)
  const late = await world.post(`/records/${id}/release`, { ...token, reason: 'not in the ledger' })
  assert.deepEqual([late.status, late.body.code, late.body.now], [409, 'refused', { state: 'completed', ...token }])
  const stale = await world.post(`/records/${id}/delete`, { ...token, attempt: 2, reason: REASON })
  assert.deepEqual([stale.status, stale.body.code], [409, 'changed'])
  const { body } = await world.get(`/audit?id=${id}`)
  assert.deepEqual(
    (body.entries as Array<Record<string, unknown>>).map(({ who, via, why, action }) => ({ who, via, why, action })),
    [{ who: 'operator@example.com', via: 'token', why: REASON, action: 'resolve' }]
  )
  const early = await unknown(world, { quarantineMs: 5_000 })
  const refused = await world.post(`/records/${early.id}/release`, { ...early.token, reason: REASON })
  assert.deepEqual([refused.status, refused.body.code, refused.body.releasableInMs], [409, 'too-early', 5_000])
  assert.equal((await world.post(`/records/${id}/probe`, { ...token, reason: REASON })).body.code, 'refused')
  assert.equal((await world.post(`/records/${claim.id.toString('hex')}/delete`, { ...token, reason: REASON })).status, 200)
})

test('many records: a count and a sample first, then step by step, and what has come since is left alone', async (t) => {
  const world = await World.open(t)
  const before = await Promise.all(Array.from({ length: 60 }, () => unknown(world)))
  await unknown(world, { about: { ...claimOf().about, route: 'other' } })
  world.clock.nowMs += 10
  const selected = await world.post('/records/selections', { state: 'indeterminate', route: 'charges' }, { role: 'operator' })
  assert.deepEqual([selected.body.count, (selected.body.sample as unknown[]).length], [60, 10])
  world.clock.nowMs += 10
  const later = await unknown(world)
  const done = (cursor?: string) => world.post('/records/changes', {
    token: selected.body.token, action: 'resolve', status: 201, statusOnly: true, reason: REASON, ...(cursor !== undefined && { cursor })
  }, { role: 'operator' })
  const first = await done()
  assert.deepEqual([first.body.counted, first.body.changed, first.body.refused], [60, 25, []])
  // Stopped, and gone on with later. Meanwhile somebody else has resolved one.
  const left = (
    await world.get('/records?state=indeterminate&route=charges&order=oldest&limit=500')
  ).body.records as Array<{ id: string, owner: string }>
  assert.equal(left.length, 36)
  await world.post(`/records/${left[3]?.id}/resolve`, { owner: left[3]?.owner, attempt: 1, status: 200, reason: 'mine' })
  const second = await done(String(first.body.next))
  const third = await done(String(second.body.next))
  assert.deepEqual([second.body.changed, third.body.changed, third.body.next], [25, 9, null])
  assert.deepEqual(
    ((await world.get('/records?state=indeterminate')).body.records as Array<{ id: string }>).map(({ id }) => id).includes(later.id), true)
  assert.equal((await world.get('/records?state=indeterminate')).body.records instanceof Array, true)
  assert.equal(((await world.get('/records?state=consumed&limit=500')).body.records as unknown[]).length, before.length - 1)
  // The first step again changes nothing more.
  assert.deepEqual((await done()).body, { counted: 60, changed: 0, refused: [], next: null })
})

test('a selection is refused if it was changed, is too old, or of another kind', async (t) => {
  const world = await World.open(t)
  await unknown(world)
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const change = (name: string, given: string) => world.post(`/${name}/changes`, {
    token: given, action: name === 'records' ? 'release' : 'retry', reason: REASON
  })
  const [text = '', signature = ''] = String(token).split('.')
  const wider = Buffer.from(Buffer.from(text, 'base64url').toString().replace('"state":"indeterminate",', '')).toString('base64url')
  for (const [name, given] of [
    ['records', `${wider}.${signature}`], ['records', text], ['records', ''], ['records', `${text}.`], ['records', 'a.b.c'],
    ['messages', String(token)]
  ] as const) assert.deepEqual([(await change(name, given)).status, given.length < 9999], [422, true], given.slice(0, 20))
  world.clock.nowMs += 3_600_001
  assert.equal((await change('records', String(token))).body.code, 'token-invalid')
  assert.equal((await world.post('/records/selections', {})).status, 400)
  assert.equal((await world.post('/records/selections', { state: 'claimed' })).status, 400)
})

test('deleting many records is for admins', async (t) => {
  const world = await World.open(t)
  const claim = claimOf()
  await world.store.insert(claim)
  await world.store.settle(settlementOf(tokenOf(claim), 'completed'))
  world.clock.nowMs++
  const { body: { token } } = await world.post('/records/selections', { state: 'completed' })
  const order = { token, action: 'delete', reason: REASON }
  assert.equal((await world.post('/records/changes', order, { role: 'operator' })).status, 403)
  assert.equal((await world.post('/records/changes', order, { role: 'admin' })).body.changed, 1)
})

test('an inbox is paused, resumed, retried and discarded', async (t) => {
  const world = await World.open(t)
  const { inbox } = world.store
  const owner = await workerOf(inbox)
  const [dead, other] = [messageOf({ route: 'hooks' }), messageOf({ route: 'hooks' })]
  for (const message of [dead, other]) await inbox.accept(message)
  for (const { token } of await takeFrom(inbox, owner, 10, 'hooks')) await inbox.settle(token, DEAD)
  const [id, otherId] = [dead, other].map((message) => message.id.toString('base64url'))
  const routes = (await world.get('/inbox')).body.routes as Array<Record<string, unknown>>
  assert.deepEqual(
    routes.map(({ route, dead: count, configured, paused }) => [route, count, configured, paused]),
    [['hooks', 2, true, null]]
  )
  assert.match(String((await world.post('/inbox/routes/hooks/pause', { reason: 'their server is down' })).body.done), /^Paused/)
  assert.equal((await world.post('/inbox/routes/hooks/pause', { reason: 'again' })).status, 409)
  assert.equal((await world.post('/inbox/routes/none/pause', { reason: 'again' })).status, 404)
  assert.match(String((await world.post('/inbox/routes/hooks/resume', { reason: 'it is up' })).body.done), /^Resumed/)
  const shown = { state: 'dead', attempt: 1, reason: REASON }
  assert.equal((await world.post(`/messages/${id}/retry`, { ...shown, attempt: 2 })).body.code, 'changed')
  assert.equal((await world.post(`/messages/${id}/retry`, { reason: REASON })).status, 400)
  assert.equal((await world.post(`/messages/${id}/retry`, shown)).status, 200)
  // Whoever looked before the retry is told, and it goes on.
  const late = await world.post(`/messages/${id}/discard`, shown)
  assert.deepEqual([late.body.code, late.body.now], ['changed', { state: 'waiting', attempt: 1 }])
  const gone = await world.post(`/messages/${id}/discard`, { ...shown, state: 'waiting' })
  assert.equal((gone.body.message as { state: string }).state, 'discarded')
  const refused = await world.post(`/messages/${id}/retry`, { ...shown, state: 'discarded' })
  assert.deepEqual([refused.body.code, refused.body.now], ['refused', { state: 'discarded', attempt: 1 }])
  world.clock.nowMs++
  const { body: selection } = await world.post('/messages/selections', { state: 'dead' })
  assert.equal(selection.count, 1)
  const bulk = { token: selection.token, action: 'discard', reason: REASON }
  assert.equal((await world.post('/messages/changes', bulk, { role: 'operator' })).status, 403)
  assert.deepEqual((await world.post('/messages/changes', bulk)).body, { counted: 1, changed: 1, refused: [], next: null })
  assert.equal((await world.get(`/messages/${otherId}`)).body.state, 'discarded')
  const found = (await world.get('/messages?state=discarded&route=hooks')).body.messages as unknown[]
  assert.equal(found.length, 2)
  assert.equal((await world.post('/messages/selections', { state: 'discarded' })).status, 400)
})

test('delivered messages are replayed, one or those of a time range, as long as their requests are kept', async (t) => {
  const world = await World.open(t)
  const { inbox } = world.store
  const owner = await workerOf(inbox)
  const ids: string[] = []
  for (const requestMs of [0, 60_000, 60_000, 60_000]) {
    const message = messageOf({ route: 'hooks' })
    ids.push(message.id.toString('base64url'))
    world.clock.nowMs += 1_000
    await inbox.accept(message)
    for (const { token } of await takeFrom(inbox, owner, 10, 'hooks')) await inbox.settle(token, { ...DELIVERED, requestMs })
  }
  const times = await Promise.all(ids.map(async (id) => (await world.get(`/messages/${id}`)).body.receivedAt as string))
  const [unkept, first, second] = ids
  const shown = { state: 'delivered', attempt: 1, reason: REASON }
  const replay = async (id: string | undefined, asked = {}) => world.post(`/messages/${id}/replay`, shown, asked)
  assert.equal((await replay(first, { role: 'reader' })).status, 403)
  const { status, body } = await replay(first)
  const { state, attempt, tries, requestKeptUntil, replayedAt, settledAt } = body.message as Record<string, unknown>
  assert.deepEqual([status, state, attempt, tries, requestKeptUntil, settledAt], [200, 'waiting', 1, 0, null, null])
  assert.equal(typeof replayedAt, 'string')
  const gone = await replay(unkept)
  assert.deepEqual([gone.status, gone.body.now], [409, { state: 'delivered', attempt: 1 }])
  assert.match(String(gone.body.detail), /^The request of this message is gone, so it cannot be replayed/)
  assert.match(String((await replay(first)).body.detail), /^It has changed since .* It is waiting, and delivery 1 was its last\./)

  world.clock.nowMs++
  const { body: none } = await world.post('/messages/selections', { state: 'delivered', route: 'hooks', from: times[2], to: times[2] })
  assert.equal(none.count, 0)
  const as = { role: 'operator' } as const
  const { body: selection } = await world.post('/messages/selections', { state: 'delivered', route: 'hooks', to: times[3] }, as)
  assert.equal(selection.count, 2, 'the one that waits again is not delivered, and the last one is later')
  const order = { token: selection.token, action: 'replay', reason: REASON }
  assert.equal((await world.post('/messages/changes', { ...order, action: 'retry' }, as)).status, 400)
  const { body: step } = await world.post('/messages/changes', order, as)
  assert.deepEqual([step.counted, step.changed, step.next], [2, 1, null])
  assert.deepEqual((step.refused as Array<{ id: string }>).map(({ id }) => id), [unkept])
  assert.deepEqual((await takeFrom(inbox, owner, 10, 'hooks')).map(({ token, isReplay }) => [token.id.toString('base64url'), isReplay]), [
    [first, true], [second, true]
  ])
  const { entries } = (await world.get('/audit?action=replay')).body as { entries: Array<Record<string, unknown>> }
  assert.deepEqual(
    entries.map(({ who, why, before, after }) => [who, why, before, after]),
    Array.from(['operator', 'admin'], (who) => [
      `${who}@example.com`, REASON, { state: 'delivered', attempt: 1 }, { state: 'waiting' }
    ])
  )
})

test('a step of replays waits while the inbox of the route is half full', async (t) => {
  const world = await World.open(t)
  const { inbox } = world.store
  const owner = await workerOf(inbox)
  const delivered = messageOf({ route: 'hooks' })
  await inbox.accept(delivered)
  for (const { token } of await takeFrom(inbox, owner, 1, 'hooks')) await inbox.settle(token, { ...DELIVERED, requestMs: 60_000 })
  world.clock.nowMs++
  const { body: { token } } = await world.post('/messages/selections', { state: 'delivered' })
  const large = messageOf({ route: 'hooks', body: 'x'.repeat(600) })
  // The file says 1 GiB.
  const bounds = world.config.routes.find(({ name }) => name === 'hooks')?.idempotency?.inbox as { bytesMax: number }
  bounds.bytesMax = 1_000
  await inbox.accept(large)
  const order = { token, action: 'replay', reason: REASON }
  const { status, body } = await world.post('/messages/changes', order)
  assert.equal(status, 409)
  assert.match(String(body.detail), /^The inbox of hooks is half full: 1 messages wait\./)
  await inbox.discard({ id: large.id, limit: 1 }, { who: 'ops', why: 'for room' })
  assert.equal((await world.post('/messages/changes', order)).body.changed, 1)
})

test('hostile text finds nothing and breaks nothing, wherever it is searched', async (t) => {
  const world = await World.open(t)
  const hostile = [
    '\'; drop table records; --',
    '" or 1=1',
    '%',
    '_',
    '\\',
    '*',
    '\u0000',
    '\u202e<script>',
    '$' + '{7*7}',
    '$1',
    '؛'.repeat(100)
  ]
  const claim = claimOf({ about: { ...claimOf().about, path: '/%_\\\'";--', requestId: '\'; --' } })
  await world.store.insert(claim)
  for (const text of hostile) {
    for (const [path, names] of Object.entries({
      '/records': ['route', 'key', 'requestId', 'path', 'from', 'to', 'cursor', 'state', 'stage', 'id', 'order', 'limit'],
      '/messages': ['route', 'group', 'key', 'requestId', 'path', 'cursor', 'state', 'id'],
      '/audit': ['route', 'who', 'action', 'id', 'cursor']
    })) {
      for (const name of names) {
        const { status, body } = await world.get(`${path}?${new URLSearchParams({ [name]: text }).toString()}`)
        assert.ok(status === 200 || status === 400, `${path} ${name}=${text}: ${status} ${JSON.stringify(body)}`)
        const rows = (body.records ?? body.messages ?? body.entries ?? []) as unknown[]
        const isAll = name === 'path' && text === '*'
        assert.equal(rows.length, isAll && path === '/records' ? 1 : 0, `${path} ${name}=${text}`)
      }
    }
  }
  assert.equal(
    ((await world.get(`/records?${new URLSearchParams({ path: '/%_\\\'";--' }).toString()}`)).body.records as unknown[]).length,
    1
  )
})

test('mistakes are told by name, and lose nothing', async (t) => {
  const world = await World.open(t)
  const { id, token } = await unknown(world)
  for (const [path, body, why] of [
    [`/records/${id}/release`, { ...token }, /reason/],
    [`/records/${id}/release`, { ...token, reason: ' ' }, /reason/],
    [`/records/${id}/release`, { ...token, reason: 'x'.repeat(513) }, /reason/],
    [`/records/${id}/release`, { ...token, reason: REASON, who: 'me' }, /who/],
    [`/records/${id}/release`, { ...token, owner: 'xyz', reason: REASON }, /owner/],
    [`/records/${id}/release`, '{"owner":', /JSON/],
    [`/records/${id}/release`, '{"__proto__":{"a":1}}', /JSON/],
    [`/records/${id}/resolve`, { ...token, reason: REASON }, /status/],
    [`/records/${id}/resolve`, { ...token, reason: REASON, status: 201, body: null }, /body must be string/],
    [`/records/${id}/resolve`, { ...token, reason: REASON, status: 201, body: ['x'] }, /body must be string/],
    [`/records/${id}/resolve`, { ...token, reason: REASON, status: '201' }, /status must be integer/],
    [`/records/${id}/resolve`, { ...token, reason: REASON, status: 201, headers: [['X-N', null]] }, /headers/],
    [`/records/${id}/resolve`, { ...token, reason: REASON, status: 201, retention: '99999999d' }, /at most 36500d/],
    ['/records/selections', { state: 'indeterminate', from: null }, /from must be string/],
    ['/records/x/release', { ...token, reason: REASON }, /id/],
    ['/explain', {}, /one of the three/],
    ['/explain', { pasted: 'GARBAGE' }, /./]
  ] as const) {
    const answer = await world.post(path, body)
    assert.equal(answer.status, 400, `${path} ${JSON.stringify(body)} ${answer.text}`)
    assert.match(String(answer.body.detail), why)
  }
  assert.equal((await world.ask('POST', `/records/${id}/release`, { headers: { 'content-type': 'text/plain' }, body: 'x' })).status, 415)
  assert.equal((await world.get('/records?cursor=abc')).status, 400)
  assert.equal((await world.get('/records?limit=501')).status, 400)
  assert.equal((await world.get('/records?from=yesterday')).status, 400)
  assert.match(String((await world.get('/records?from=1m&to=5m')).body.detail), /from is later than to/)
  assert.equal((await world.get('/records?unknown=1')).status, 400)
  assert.equal((await world.get('/nothing')).status, 404)
  assert.equal((await world.get(`/records/${id}`)).body.state, 'indeterminate')
})

test('a search that could read nothing in time says so, and is not taken for an empty one', async (t) => {
  const world = await World.open(t)
  const { id } = await unknown(world)
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const { operator } = world.store
  const nothing = async () => ({ rows: [], next: null, isWhole: false })
  Object.assign(operator, { searchRecords: nothing, searchMessages: nothing, searchAudit: nothing })
  for (const path of ['/records', '/messages', '/audit', '/records.jsonl', '/messages.jsonl', '/audit.jsonl']) {
    const { status, body } = await world.get(path)
    assert.deepEqual([status, body.detail], [503, 'Nothing could be read within 2000 ms. Ask again.'], path)
  }
  const step = await world.post('/records/changes', { token, action: 'resolve', status: 201, reason: REASON })
  assert.equal(step.status, 503)
  assert.equal((await world.get(`/records/${id}`)).body.state, 'indeterminate')
})

test('a change of many that names what belongs to another action changes nothing', async (t) => {
  const world = await World.open(t)
  const { id } = await unknown(world)
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const { status, body } = await world.post('/records/changes', { token, action: 'release', status: 201, reason: REASON })
  assert.deepEqual([status, body.detail], [400, 'status is of the action resolve, and this is release. Nothing was changed.'])
  assert.equal((await world.get(`/records/${id}`)).body.state, 'indeterminate')
})

test('a record whose end lies beyond the last year that can be written is listed all the same', async (t) => {
  const world = await World.open(t)
  const claim = claimOf()
  await world.store.insert(claim)
  await world.store.settle({ ...settlementOf(tokenOf(claim), 'indeterminate'), keepMs: 99_999_999 * 86_400_000 })
  const { status, body } = await world.get('/records')
  assert.deepEqual([status, (body.records as Array<{ expiresAt: string }>)[0]?.expiresAt], [200, '9999-12-31T23:59:59.999Z'])
})

test('a probe of a record without a question says what is missing', async (t) => {
  const world = await World.open(t)
  const { id, token } = await unknown(world)
  const { status, body } = await world.post(`/records/${id}/probe`, { ...token, reason: REASON })
  assert.deepEqual([status, body.code], [409, 'refused'])
  assert.match(String(body.detail), /had no probe/)
})

test('whoever is not signed in explains on loopback, and needs no token against forged requests for that', async (t) => {
  const world = await World.open(t, { admin: 'readiness: lenient' })
  const { status, body } = await world.post('/explain', { key: { route: 'charges', key: 'order-1' } }, { role: null })
  assert.deepEqual([status, (body.answer as { does: string }).does], [200, 'is-executed'])
})

test('an explanation says what a request would get, from a pasted command or a key, and changes nothing', async (t) => {
  const world = await World.open(t)
  const command = 'curl -X POST http://gateway/v1/charges -H \'Idempotency-Key: order-1\' -d \'{"a":1}\''
  const fresh = await world.post('/explain', { pasted: command }, { role: 'viewer' })
  assert.deepEqual([(fresh.body.answer as { does: string }).does, fresh.body.record], ['is-executed', null])
  const [id = ''] = fresh.body.ids as string[]
  await unknown(world, { id: Buffer.from(id, 'base64url') })
  const again = await world.post('/explain', { pasted: command })
  assert.deepEqual([(again.body.answer as { code: string }).code, (again.body.record as { id: string }).id], ['outcome-unknown', id])
  const byKey = await world.post('/explain', { key: { route: 'charges', key: 'order-1' } })
  assert.deepEqual([(byKey.body.answer as { code: string }).code, byKey.body.ids], ['outcome-unknown', [id]])
  const copied = await world.post('/explain', { key: { route: 'charges', key: '"order-1"' } })
  assert.deepEqual(copied.body.ids, [id], 'a header value may be quoted')
  assert.equal((await world.get(`/records/${id}`)).body.state, 'indeterminate')
})

test('a key is found as it is and as a header has it', async (t) => {
  const world = await World.open(t)
  const { id } = await unknown(world, { about: { ...claimOf().about, keyHash: keyHash('order 1') } })
  for (const key of ['order 1', '"order 1"', '"order 1";a=1']) {
    const { body } = await world.get(`/records?key=${encodeURIComponent(key)}`)
    assert.deepEqual((body.records as Array<{ id: string }>).map((record) => record.id), [id], key)
  }
})

test('the overview and the configuration say how the gateway is, and show no secret', async (t) => {
  const world = await World.open(
    t,
    { admin: 'token: "a secret of the test"\nauth: { tokensFile: tokens, sessionKey: "another secret of this very test" }' }
  )
  await unknown(world)
  const { body } = await world.get('/overview', { role: 'viewer' })
  const { unknown: waiting, recent, promise } = body as Record<string, Record<string, unknown>>
  assert.deepEqual([waiting?.count, recent?.requests, recent?.executionsAvoided, promise?.promise], [1, 5, 3, 'strict'])
  const configuration = await world.get('/configuration', { role: 'viewer' })
  assert.match(String(configuration.body.text), /name: charges/)
  assert.deepEqual((configuration.body.lastReload as { details: string[] }).details, ['a mistake'])
  assert.doesNotMatch(configuration.text, /secret of/)
})

test('an export has every row, however many pages that are', async (t) => {
  const world = await World.open(t)
  const ids = await Promise.all(Array.from({ length: 620 }, () => unknown(world).then(({ id }) => id)))
  const { status, type, text, headers } = await world.get('/records.jsonl?state=indeterminate', { role: 'viewer' })
  const rows = text.trimEnd().split('\n').map((line) => (JSON.parse(line) as { id: string }).id)
  assert.deepEqual([status, type, rows.length, new Set(rows).size], [200, 'application/jsonl', 620, 620])
  assert.deepEqual(rows.toSorted(), ids.toSorted())
  assert.equal(headers.get('content-disposition'), 'attachment; filename="records.jsonl"')
  assert.equal((await world.get('/records.jsonl?limit=x')).status, 400)
  assert.equal((await world.get('/audit.jsonl', { role: null })).status, 401)
})
