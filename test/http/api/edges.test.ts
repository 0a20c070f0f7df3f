/** The edges of the operator API: what a client may get wrong, what it may not see, and what each refusal says. */
import assert from 'node:assert/strict'
import { request as send } from 'node:http'
import { test } from 'node:test'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import type { Fate } from '../../../src/core/inbox/message.ts'
import type { Role } from '../../../src/core/operator/roles.ts'
import { OPERATIONS, type Operation } from '../../../src/operator/operations.ts'
import { OperatorProblem } from '../../../src/operator/shared/problem.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { DEAD, messageOf, takeFrom, workerOf } from '../../conformance/inbox-world.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { DOCUMENT, TOKENS, World } from './world.ts'

const REASON = 'found in the ledger'

async function unknown ({ store }: World, count = 1): Promise<{ id: string, owner: string, attempt: number }> {
  const claims = Array.from({ length: count }, () => claimOf())
  for (const claim of claims) {
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
  }
  const [{ id, owner, attempt }] = claims.map((claim) => tokenOf(claim)) as [ReturnType<typeof tokenOf>]
  return { id: id.toString('base64url'), owner: owner.toString('hex'), attempt }
}

test('a cursor of another search, filter or order is refused', async (t) => {
  const world = await World.open(t)
  await unknown(world, 3)
  const first = await world.get('/records?state=indeterminate&limit=1')
  const next = String(first.body.next)
  assert.equal((await world.get(`/records?limit=2&cursor=${next}&state=indeterminate`)).status, 200, 'the size of a page may change')
  assert.equal((await world.get(`/records.jsonl?state=indeterminate&cursor=${next}`)).text.trimEnd().split('\n').length, 2)
  for (const [path, why] of [
    ['/records?', /of another search/], ['/records?state=completed&', /of another search/], ['/messages?', /of another search/],
    ['/records?state=indeterminate&route=charges&', /of another search/], ['/audit?', /of another search/],
    ['/records?state=indeterminate&order=oldest&', /of a search with order=newest/], ['/records.jsonl?state=released&', /of another search/]
  ] as const) {
    const { status, body } = await world.get(`${path}cursor=${next}`)
    assert.equal(status, 400, path)
    assert.match(String(body.detail), why, path)
  }
})

test('a cursor with a place that its store cannot have is refused, and reaches no store', async (t) => {
  const world = await World.open(t)
  await unknown(world, 30)
  for (let at = 0; at < 30; at++) await world.store.inbox.accept(messageOf({ route: 'hooks' }))
  for (const { token } of await takeFrom(world.store.inbox, await workerOf(world.store.inbox), 30, 'hooks')) {
    await world.store.inbox.settle(token, DEAD)
  }
  world.clock.nowMs++
  await world.post('/inbox/routes/hooks/pause', { reason: REASON })
  await world.post('/inbox/routes/hooks/resume', { reason: REASON })
  const stepOf = async (kind: string, filter: object, change: object) => {
    const { body: { token } } = await world.post(`/${kind}/selections`, filter)
    return async (cursor?: string) =>
      world.post(`/${kind}/changes`, { token, ...change, reason: REASON, ...(cursor !== undefined && { cursor }) })
  }
  const pageOf = (kind: string) => async (cursor = '') => world.get(`/${kind}?limit=1&cursor=${cursor}`)
  const [id, number, entry, beyond] = [Buffer.alloc(32, 1), Buffer.alloc(8, 1), Buffer.alloc(9, 1), Buffer.alloc(8, 0xff)]
  const wrong: ReadonlyArray<readonly [(cursor?: string) => ReturnType<World['get']>, readonly Buffer[]]> = [
    [pageOf('records'), [number, entry, id.subarray(1)]],
    [pageOf('messages'), [id, entry, beyond]],
    [pageOf('audit'), [id, number, Buffer.alloc(9, 2), Buffer.concat([Buffer.alloc(1), beyond])]],
    [await stepOf('records', { state: 'indeterminate' }, { action: 'resolve', status: 201, statusOnly: true }), [number, entry]],
    [await stepOf('messages', { state: 'dead' }, { action: 'retry' }), [id, entry, beyond]]
  ]
  for (const [ask, places] of wrong) {
    const [order, at, place, mark] = JSON.parse(Buffer.from(String((await ask()).body.next), 'base64url').toString()) as string[]
    const forged = (time: unknown, bytes: Buffer) =>
      Buffer.from(JSON.stringify([order, time, bytes.toString('base64url'), mark])).toString('base64url')
    for (const bytes of places) {
      const { status, body } = await ask(forged(at, bytes))
      assert.deepEqual([status, body.code], [400, 'bad-request'], bytes.toString('hex'))
      assert.match(String(body.detail), /The cursor is not one of this API/)
    }
    const right = Buffer.from(String(place), 'base64url')
    assert.equal((await ask(forged('9'.repeat(19), right))).status, 400)
    assert.equal((await ask(forged(at, right))).status, 200)
  }
})

test('the cursor of a selection is of no use for another one', async (t) => {
  const world = await World.open(t)
  await unknown(world, 30)
  world.clock.nowMs++
  const select = async () => String((await world.post('/records/selections', { state: 'indeterminate' })).body.token)
  const token = await select()
  world.clock.nowMs++
  const change = (given: string, cursor?: string) => world.post('/records/changes', {
    token: given, action: 'resolve', status: 201, statusOnly: true, reason: REASON, ...(cursor !== undefined && { cursor })
  })
  const { body: { next } } = await change(token)
  const other = await change(await select(), String(next))
  assert.deepEqual([other.status, /of another search/.test(String(other.body.detail))], [400, true])
  assert.equal((await change(token, String(next))).body.changed, 5)
})

test('a selection is of whoever counted it', async (t) => {
  const world = await World.open(t)
  const { id } = await unknown(world)
  world.clock.nowMs++
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' }, { role: 'operator' })
  const order = { token, action: 'resolve', status: 201, statusOnly: true, reason: REASON }
  const other = await world.post('/records/changes', order, { role: 'admin' })
  assert.deepEqual([other.status, other.body.code], [422, 'token-invalid'])
  assert.match(String(other.body.detail), /Another operator counted/)
  assert.equal((await world.get(`/records/${id}`)).body.state, 'indeterminate')
  assert.equal((await world.post('/records/changes', order, { role: 'operator' })).body.changed, 1)
})

test('a selection and a cursor are of the database that they were read from, also where another one has the same key', async (t) => {
  const [world, other] = [await World.open(t), await World.open(t)]
  for (const each of [world, other]) {
    await unknown(each, 2)
    each.clock.nowMs++
  }
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const order = { token, action: 'resolve', status: 201, statusOnly: true, reason: REASON }
  const { status, body } = await other.post('/records/changes', order)
  assert.deepEqual([status, body.code], [422, 'token-invalid'])
  const { body: { next } } = await world.get('/records?limit=1')
  assert.equal((await world.get(`/records?limit=1&cursor=${String(next)}`)).status, 200)
  assert.equal((await other.get(`/records?limit=1&cursor=${String(next)}`)).status, 400)
  assert.equal((await world.post('/records/changes', order)).body.changed, 2)
})

test('a viewer sees no header field of a consumer\'s answer, in no operation', async (t) => {
  const world = await World.open(t)
  const { inbox } = world.store
  const message = messageOf({ route: 'hooks' })
  await inbox.accept(message)
  const answer = { status: 410, headers: ['Location', '/accounts/of-a-customer'], body: Buffer.from('gone') }
  for (const { token } of await takeFrom(inbox, await workerOf(inbox), 1, 'hooks')) await inbox.settle(token, { ...DEAD, answer })
  const id = message.id.toString('base64url')
  for (const path of ['/messages', `/messages/${id}`, '/messages.jsonl']) {
    const [viewer, reader] = [await world.get(path, { role: 'viewer' }), await world.get(path, { role: 'reader' })]
    assert.deepEqual([viewer.status, /of-a-customer/.test(viewer.text), /"status":410/.test(viewer.text)], [200, false, true], path)
    assert.match(reader.text, /\["Location","\/accounts\/of-a-customer"\]/, path)
  }
  // Whoever adds an operation that shows messages comes by here.
  const showing = (Object.entries(OPERATIONS) as unknown as Array<[string, Operation]>)
    .filter(([, { role, answer: shape }]) => role === 'viewer' && JSON.stringify(shape).includes('lastStatus')).map(([name]) => name)
  assert.deepEqual(showing, ['explain', 'searchMessages', 'showMessage'])
})

test('what each delivery came to is shown, and the beginning of its answer to readers alone', async (t) => {
  const world = await World.open(t)
  const { inbox } = world.store
  const message = messageOf({ route: 'hooks' })
  await inbox.accept(message)
  const owner = await workerOf(inbox)
  const settle = async (fate: Fate): Promise<void> => {
    for (const { token } of await takeFrom(inbox, owner, 1, 'hooks')) assert.ok(await inbox.settle(token, fate))
  }
  const text = { ms: 12, status: 503, contentType: 'text/html', body: Buffer.from('<h1>ausgelastet: ü').subarray(0, -1), isCut: true }
  const bytes = { ms: 4, status: 500, contentType: null, body: Buffer.from([0xff, 0x00]), isCut: false }
  await settle({ kind: 'again', inMs: 0, status: 503, error: 'HTTP_503', reply: text })
  await settle({ kind: 'again', inMs: 0, status: 500, error: 'HTTP_500', reply: bytes })
  await settle({ kind: 'again', inMs: 0, status: null, error: 'DRAIN', counts: false })
  const path = `/messages/${message.id.toString('base64url')}`
  const seenBy = async (role: Role) => {
    const { deliveries } = (await world.get(path, { role })).body as { deliveries: Array<Record<string, unknown>> }
    return deliveries.map(({ at, ...delivery }) => {
      assert.ok(Date.parse(String(at)) > 0)
      return delivery
    })
  }
  const none = { contentType: null, body: null, encoding: 'utf-8', truncated: false }
  const bare = [
    { attempt: 1, ms: 12, status: 503, error: 'HTTP_503', ...none },
    { attempt: 2, ms: 4, status: 500, error: 'HTTP_500', ...none },
    { attempt: 3, ms: null, status: null, error: 'DRAIN', ...none }
  ]
  assert.deepEqual(await seenBy('viewer'), bare)
  assert.deepEqual(await seenBy('reader'), [
    { ...bare[0], contentType: 'text/html', body: '<h1>ausgelastet: ', truncated: true },
    { ...bare[1], body: '/wA=', encoding: 'base64' },
    bare[2]
  ])
})

test('a session reads its CSRF token, and a change without one says where it is; a bearer token needs none', async (t) => {
  const world = await World.open(t)
  const record = await unknown(world)
  const signedIn = await fetch(`${world.url}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: world.url, 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token: TOKENS.admin })
  })
  const cookie = String(signedIn.headers.get('set-cookie')).split(';')[0] ?? ''
  const { body: { csrfToken } } = await world.get('/me', { role: null, headers: { cookie } })
  assert.match(String(csrfToken), /\./)
  assert.equal((await world.get('/me')).body.csrfToken, null)
  const { id, ...token } = record
  const order = { ...token, status: 201, reason: REASON, statusOnly: true }
  const resolve = (headers: Readonly<Record<string, string>>) =>
    world.post(`/records/${id}/resolve`, order, { role: null, headers: { cookie, ...headers } })
  const refused = await resolve({})
  assert.deepEqual([refused.status, refused.body.code], [403, 'csrf-token'])
  assert.match(String(refused.body.detail), /csrfToken.* of GET \/api\/v1\/me/)
  assert.doesNotMatch(String(refused.body.title), /role/)
  const done = await resolve({ 'x-csrf-token': String(csrfToken) })
  assert.equal(done.status, 200, done.text)
})

test('a method in lower case is none: the explanation says so, as the gateway would refuse it', async (t) => {
  const world = await World.open(t)
  const request = { target: '/v1/charges', headers: [['Idempotency-Key', '"k"']], body: '{}' }
  for (const body of [
    { request: { ...request, method: 'post' } },
    { request: { ...request, method: 'Post' } },
    { pasted: 'post /v1/charges HTTP/1.1\r\nIdempotency-Key: "k"\r\n\r\n{}' },
    { pasted: 'curl -X post http://x/v1/charges -H \'Idempotency-Key: "k"\' -d {}' }
  ]) {
    const { status, body: { detail } } = await world.post('/explain', body)
    assert.equal(status, 400, JSON.stringify(body))
    assert.match(String(detail), /which is not POST\. Methods are case-sensitive/)
  }
  assert.equal((await world.post('/explain', { request: { ...request, method: 'P(ST' } })).status, 400)
  assert.equal((await world.post('/explain', { request: { ...request, method: 'POST' } })).status, 200)
})

test('another method than a path has gets 405 and is told which it has, before anything else is looked at', async (t) => {
  const world = await World.open(t)
  const ask = async (method: string, path: string) => fetch(`${world.url}/api/v1${path}`, {
    method, ...(method === 'PUT' && { headers: { 'content-type': 'text/plain' }, body: 'x' })
  })
  for (const [method, path, allow] of [
    ['DELETE', '/records?limit=1', 'GET, HEAD'], ['PUT', `/records/${'x'.repeat(43)}`, 'GET, HEAD'], ['OPTIONS', '/events', 'GET, HEAD'],
    ['POST', '/audit.jsonl', 'GET, HEAD'], ['PATCH', '/openapi.json', 'GET, HEAD'], ['GET', '/records/changes', 'POST'],
    ['DELETE', `/records/${'x'.repeat(43)}/resolve`, 'POST']
  ] as const) {
    const answer = await ask(method, path)
    assert.deepEqual([answer.status, answer.headers.get('allow')], [405, allow], `${method} ${path}`)
    assert.equal(answer.headers.get('content-type')?.split(';')[0], 'application/problem+json')
    assert.equal((await answer.json() as { code: string }).code, 'method-not-allowed')
  }
  assert.deepEqual([(await ask('HEAD', '/explain')).status, (await ask('DELETE', '/nothing')).status], [405, 404])
})

test('a problem instead of an export is no file to save', async (t) => {
  const world = await World.open(t)
  const answered = async (query: string): Promise<readonly unknown[]> => {
    const { status, headers } = await world.get(`/records.jsonl?${query}`)
    return [status, headers.get('content-disposition')]
  }
  assert.deepEqual(await answered(''), [200, 'attachment; filename="records.jsonl"'])
  assert.deepEqual(await answered('from=yesterday'), [400, null])
  const away = () => Promise.reject(new StoreUnavailable('sqlite', 'search', false, new Error('it is away')))
  Object.assign(world.store.operator, { searchRecords: away })
  assert.deepEqual(await answered(''), [503, null])
})

test('a path that cannot be read, or has too long a name, is a problem as every other mistake', async (t) => {
  const world = await World.open(t)
  const groupsOf = (route: string): string => `/inbox/routes/${route}/groups`
  for (const path of [groupsOf('%ff'), groupsOf('x'.repeat(2_000)), '/records/%', `/records/${'x'.repeat(9_000)}`]) {
    const { status, type, body, headers } = await world.get(path)
    assert.deepEqual([status, type, body.code], [400, 'application/problem+json', 'bad-request'], path)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
  }
  assert.equal((await world.get(groupsOf('x'.repeat(1_024)))).status, 200, 'as long as the name of a route may be')
  const beside = await fetch(`${world.url}/%ff`)
  assert.deepEqual([beside.status, await beside.json()], [400, { error: 'bad request' }])
})

test('HEAD of a stream or of an export has a head and an end', async (t) => {
  const world = await World.open(t)
  await unknown(world)
  let searched = 0
  const { searchRecords } = world.store.operator
  Object.assign(world.store.operator, {
    searchRecords: async (...order: Parameters<typeof searchRecords>) => {
      searched++
      return searchRecords(...order)
    }
  })
  for (const [path, type] of [
    ['/events', 'text/event-stream'], ['/records.jsonl', 'application/jsonl'], ['/records', 'application/json; charset=utf-8']
  ] as const) {
    const asked = await fetch(`${world.url}/api/v1${path}`, {
      method: 'HEAD', headers: { authorization: `Bearer ${TOKENS.viewer}` }, signal: AbortSignal.timeout(5_000)
    })
    assert.deepEqual([asked.status, asked.headers.get('content-type'), await asked.text()], [200, type, ''], path)
    assert.equal(asked.headers.get('content-length') === null, path !== '/records', 'that of a GET, or none')
  }
  assert.equal(searched, 1, 'an export of which nobody wants the rows reads none')
})

test('an export honours its limit, and says that more matches', async (t) => {
  const world = await World.open(t)
  await unknown(world, 5)
  const linesOf = async (query: string) => {
    const { text } = await world.get(`/records.jsonl?${query}`)
    return text.trimEnd().split('\n').map((line) => JSON.parse(line) as { id?: string, incomplete?: string, next?: string })
  }
  const first = await linesOf('limit=2')
  assert.deepEqual(first.map(({ id }) => typeof id), ['string', 'string', 'undefined'])
  assert.match(String(first[2]?.incomplete), /2 rows at most/)
  const rest = await linesOf(`limit=3&cursor=${first[2]?.next}`)
  assert.deepEqual([rest.length, new Set([...first.slice(0, 2), ...rest].map(({ id }) => id)).size], [3, 5])
  for (const limit of ['0', '100001', 'x']) assert.equal((await world.get(`/records.jsonl?limit=${limit}`)).status, 400, limit)
})

test('a time is RFC 3339 with a zone, and a day that there is', async (t) => {
  const world = await World.open(t)
  for (const text of [
    '2026-02-31T00:00:00Z', '2025-02-29T12:00:00Z', '2026-13-01T00:00:00Z', '2026-00-01T00:00:00Z', '2026-11-26', '2026-11-26T18:00:00',
    '2026-11-26T24:30:00Z', '2026-11-26T18:60:00Z', '2026-11-26T18:00:00+25:00', '2026-11-26T18:00:00 01:00',
    '0000-00-00T00:00:00Z'
  ]) {
    for (const path of ['/records', '/messages', '/audit', '/records.jsonl']) {
      const { status, body } = await world.get(`${path}?from=${encodeURIComponent(text)}`)
      assert.equal(status, 400, `${path} ${text}`)
      assert.match(String(body.detail), /RFC 3339 with a zone/)
    }
  }
  for (const text of [
    '2024-02-29T23:59:59.999999Z', '2026-11-26T18:00:00+05:30', '2026-11-26t18:00z', '2026-11-26 18:00:00-08:00', '15m'
  ]) {
    assert.equal((await world.get(`/records?to=${encodeURIComponent(text)}`)).status, 200, text)
  }
})

test('a time before the first year or after the last that can be written is a mistake, at every store', async (t) => {
  const world = await World.open(t)
  for (const [text, status] of [
    ['10000000d', 400], ['0000-12-31T23:59:59Z', 400], ['9999-12-31T23:59:59-01:00', 400],
    ['36500d', 200], ['0001-01-01T00:00:00Z', 200], ['9999-12-31T23:59:59Z', 200]
  ] as const) {
    const answer = await world.get(`/records?from=${encodeURIComponent(text)}`)
    assert.equal(answer.status, status, text)
    if (status === 400) assert.match(String(answer.body.detail), /between the years 1 and 9999/)
  }
})

test('a body that is too large gets 413, and one of another type 415', async (t) => {
  const world = await World.open(t)
  const { id, ...token } = await unknown(world)
  const large = await world.post(`/records/${id}/release`, { ...token, reason: 'x'.repeat(65 * 1024) })
  assert.deepEqual([large.status, large.body.code], [413, 'content-too-large'])
  const other = await world.ask('POST', `/records/${id}/release`, { headers: { 'content-type': 'text/plain' }, body: 'x' })
  assert.deepEqual([other.status, other.body.code], [415, 'unsupported-media-type'])
})

test('each entry of the audit has an id of its own', async (t) => {
  const world = await World.open(t)
  const { id, ...token } = await unknown(world)
  await world.post(`/records/${id}/resolve`, { ...token, status: 201, statusOnly: true, reason: REASON })
  await world.post('/inbox/routes/hooks/pause', { reason: REASON })
  await world.post('/inbox/routes/hooks/resume', { reason: REASON })
  const entries = (await world.get('/audit')).body.entries as Array<{ readonly entryId: string, readonly number: string }>
  assert.deepEqual(entries.map(({ number }) => number).toSorted(), ['1', '1', '2'])
  assert.deepEqual(entries.map(({ entryId }) => entryId).toSorted(), ['messages/1', 'messages/2', 'records/1'])
})

test('who listens too late is told about streams, not about failed tries', async (t) => {
  const world = await World.open(t)
  const streams = await Promise.all(Array.from({ length: 50 }, () => new Promise<{ destroy: () => void }>((resolve, reject) => {
    const asked = send(`${world.url}/api/v1/events`, { agent: false, headers: { authorization: `Bearer ${TOKENS.viewer}` } })
    asked.on('error', reject).on('response', (response) => { resolve(response.resume()) }).end()
  })))
  t.after(() => { for (const stream of streams) stream.destroy() })
  const { status, text, body } = await world.get('/events')
  assert.deepEqual([status, body.code], [429, 'too-many-requests'])
  assert.match(String(body.detail), /50 streams of events are open/)
  assert.doesNotMatch(text, /tries|failed/)
})

test('no browser guesses the type of an answer, and the document knows what a bug answers', async (t) => {
  const world = await World.open(t)
  for (const path of ['/records', '/records/x', '/openapi.json', '/audit.jsonl', '/nothing']) {
    assert.equal((await world.get(path)).headers.get('x-content-type-options'), 'nosniff', path)
  }
  const events = await fetch(`${world.url}/api/v1/events`, { headers: { authorization: `Bearer ${TOKENS.viewer}` } })
  assert.equal(events.headers.get('x-content-type-options'), 'nosniff')
  await events.body?.cancel()
  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    for (const [method, { responses }] of Object.entries(methods)) assert.ok('500' in responses, `${method} ${path}`)
  }
  Object.assign(world.store.operator, { searchRecords: () => { throw new TypeError('a bug') } })
  assert.equal((await world.get('/records')).status, 500)
})

test('a search that finds nothing says if no route has the name, and what such a route left is found', async (t) => {
  const world = await World.open(t)
  await world.store.insert(claimOf({ about: { ...claimOf().about, route: 'retired' } }))
  const unknown = ['No route of the configuration has this name.']
  for (const [path, notes] of [
    ['/records?route=retired', []], ['/records?route=charges', []], ['/records?route=charged', unknown],
    ['/messages?route=hooks', []], ['/messages?route=hook', unknown], ['/audit?route=hook', unknown]
  ] as const) assert.deepEqual((await world.get(path)).body.notes, notes, path)
  assert.equal(((await world.get('/records?route=retired')).body.records as unknown[]).length, 1)
  assert.deepEqual((await world.post('/messages/selections', { state: 'dead', route: 'hook' })).body.notes, unknown)
})

test('a reason that not every store could keep is a mistake', async (t) => {
  const world = await World.open(t)
  for (const reason of ['a\u0000b', ' ', '\u0000']) {
    assert.equal((await world.post('/inbox/routes/hooks/pause', { reason })).status, 400, JSON.stringify(reason))
  }
  assert.deepEqual(await world.store.operator.paused(), [])
})

test('a store that does not answer is a 503 in time, and a change says that it may have been done', async (t) => {
  const world = await World.open(t)
  const { id, ...token } = await unknown(world)
  const waiting: string[] = []
  const never = () => {
    waiting.push('a question')
    return new Promise<never>(() => {})
  }
  t.mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => { t.mock.timers.reset() })
  const answered = async (asking: Promise<Awaited<ReturnType<World['get']>>>, ms: number) => {
    // The store has to be asked first.
    while (waiting.pop() === undefined) await new Promise((resolve) => { setImmediate(resolve) })
    t.mock.timers.tick(ms)
    return asking
  }
  const { records, inbox, operator } = { records: world.store, inbox: world.store.inbox, operator: world.store.operator }
  const { resolve } = records
  Object.assign(records, { resolve: never })
  const change = await answered(world.post(`/records/${id}/resolve`, { ...token, status: 201, statusOnly: true, reason: REASON }), 10_000)
  assert.deepEqual([change.status, change.body.code], [503, 'store-unavailable'])
  assert.match(String(change.body.detail), /has not answered within 10000 ms.*may have been done/)
  Object.assign(records, { resolve, list: never })
  Object.assign(inbox, { list: never, depths: never })
  Object.assign(operator, { searchAudit: never, groups: never })
  for (const path of [`/records/${id}`, `/records/${id}/answer`, `/messages/${id}`, '/inbox', '/inbox/routes/hooks/groups', '/audit']) {
    const { status, body } = await answered(world.get(path), 5_000)
    assert.equal(status, 503, path)
    assert.match(String(body.detail), /has not answered within 5000 ms/, path)
    assert.doesNotMatch(String(body.detail), /may have been done/, path)
  }
})

test('the overview has what the process knows while the database is away', async (t) => {
  const world = await World.open(t)
  const whole = await world.get('/overview', { role: 'viewer' })
  assert.deepEqual([whole.body.notRead, whole.body.inbox instanceof Array], [[], true])
  assert.deepEqual(whole.body.contact, { stores: [{ store: 'sqlite', usable: true }], gateways: [] })
  assert.deepEqual((whole.body.lastReload as { details: string[] }).details, ['a mistake'])
  world.readiness = { ...world.readiness, status: 'degraded', degraded: ['sqlite'] }
  const away = () => Promise.reject(new StoreUnavailable('sqlite', 'read', false, new Error('it is away')))
  Object.assign(world.store.operator, { unknownByRoute: away, paused: away, gateways: away })
  const { status, body } = await world.get('/overview', { role: 'viewer' })
  assert.deepEqual([status, body.unknown, body.inbox], [200, null, null])
  assert.deepEqual((body.status as { status: string }).status, 'degraded')
  assert.deepEqual((body.recent as { requests: number }).requests, 5)
  assert.deepEqual(body.contact, { stores: [{ store: 'sqlite', usable: false }], gateways: null })
  assert.deepEqual(body.notRead, ['contact.gateways', 'inbox', 'unknown'].map((part) => ({ part, why: 'it is away' })))
})

test('the history of a record says which operator settled it, asked for it and deleted it', async (t) => {
  const world = await World.open(t)
  const { id, ...token } = await unknown(world)
  type Moment = { readonly what: string, readonly by: string | null, readonly text: string }
  const history = async () => (await world.get(`/records/${id}`, { role: 'viewer' })).body.history as readonly Moment[]
  assert.equal((await history()).find(({ what }) => what === 'settled')?.by, 'owner')
  await world.post(`/records/${id}/resolve`, { ...token, status: 201, statusOnly: true, reason: REASON }, { role: 'operator' })
  world.clock.nowMs++
  await world.post(`/records/${id}/delete`, { ...token, reason: 'too soon' }, { role: 'admin' })
  const [settled, changed] = ['settled', 'changed'].map(async (wanted) => (await history()).find(({ what }) => what === wanted))
  assert.equal((await settled)?.by, 'operator@example.com')
  assert.match(String((await settled)?.text), /by an operator, operator@example\.com: found in the ledger$/)
  assert.deepEqual([(await changed)?.by, (await changed)?.text], ['admin@example.com', 'Deleted by admin@example.com: too soon'])
})

test('an answer is resolved with the coding that its header says, or not at all', async (t) => {
  const world = await World.open(t)
  const { id, ...token } = await unknown(world)
  const text = '{"id":1}'
  const resolve = async (coding: string, body: Buffer) => world.post(`/records/${id}/resolve`, {
    ...token, status: 201, headers: [['Content-Encoding', coding]], body: body.toString('base64'), encoding: 'base64', reason: REASON
  })
  for (const [coding, body] of [
    ['gzip', Buffer.from(text)], ['GZIP', gzipSync(text).subarray(0, 20)], ['br', gzipSync(text)], ['zstd', Buffer.from(text)],
    ['deflate', Buffer.from(text)], ['gzip, br', gzipSync(text)], ['br, gzip', gzipSync(text)]
  ] as const) {
    const { status, body: { detail } } = await resolve(coding, body)
    assert.equal(status, 400, coding)
    assert.match(String(detail), /the body is not (gzip|br|zstd|deflate)\./, coding)
  }
  const { readAnswer } = await import('../../../src/operator/records/answer-check.ts')
  for (const [coding, body] of [
    ['gzip', gzipSync(text)], ['deflate', deflateSync(text)], ['deflate', deflateRawSync(text)], ['br', brotliCompressSync(text)],
    ['zstd', zstdCompressSync(text)], ['gzip, br', brotliCompressSync(gzipSync(text))], ['identity', Buffer.from(text)],
    ['of-tomorrow', Buffer.from(text)], ['gzip', Buffer.alloc(0)], ['gzip', gzipSync(Buffer.alloc(64 * 1024 * 1024))]
  ] as const) {
    const given = { status: 201, headers: [['Content-Encoding', coding]] as Array<[string, string]>, body: body.toString('base64') }
    const read = readAnswer({ ...given, encoding: 'base64' }, null)
    assert.ok(!(read instanceof OperatorProblem), `${coding}: ${JSON.stringify(read)}`)
  }
  assert.equal((await resolve('gzip', gzipSync(text))).status, 200)
})
