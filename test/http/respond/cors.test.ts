/** Other origins' pages: what they may read of each kind of answer, where preflights go, and that nothing is said without `cors`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { readKeySources } from '../../../src/config/routes/key-source.ts'
import type { CorsPolicy } from '../../../src/core/headers/cors.ts'
import { inboxPolicy } from '../../gateway/inbox/inbox-world.ts'
import { call } from '../../harness/call.ts'
import type { Called, CallOptions } from '../../harness/call.ts'
import { apiPolicy, guardedRoute, startGateway, upstreamPolicy } from '../../harness/gateway.ts'
import { freePort } from '../../harness/ports.ts'
import { CREATED, startWitness } from '../../harness/witness.ts'
import type { Behaviour, Witness } from '../../harness/witness.ts'

const [A, B, C] = ['https://a.example', 'https://b.example', 'https://c.example']
const POLICY: CorsPolicy = { origins: new Set([A, B]), credentials: true, maxAgeSeconds: 600 }
const ISSUED = {
  scope: { kind: 'credential', anonymous: true, cookies: 'refuse' },
  jwt: null,
  secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
  lifetimeMs: 3_600_000
} as const

/** An application that allows A and B, and answers their preflights itself. */
const REFLECTS: Behaviour = (seen, response, socket, count) => {
  const { origin = '', 'access-control-request-headers': asked } = seen.headers
  if ([A, B].includes(origin)) {
    response.setHeader('Access-Control-Allow-Origin', origin)
    response.setHeader('Access-Control-Allow-Credentials', 'true')
    response.setHeader('Vary', 'Origin')
  }
  if (seen.method !== 'OPTIONS') return CREATED(seen, response, socket, count)
  response.writeHead(204, { 'Access-Control-Allow-Methods': 'POST', 'Access-Control-Allow-Headers': asked ?? '' })
  response.end()
}

interface World { readonly url: string, readonly witness: Witness, readonly ask: (path: string, options?: CallOptions) => Promise<Called> }

async function start (t: TestContext, cors?: CorsPolicy): Promise<World> {
  const witness = await startWitness(REFLECTS)
  t.after(() => witness.close())
  const nowhere = upstreamPolicy(`http://127.0.0.1:${await freePort()}`, { name: 'nowhere' })
  const at = (path: string, methods = ['POST']) => ({ path, methods, host: null, exact: false })
  const route = guardedRoute(witness.url)
  const { url } = await startGateway(t, {
    routes: [
      { ...route, match: at('/things') },
      { ...route, name: 'strict', match: at('/strict'), idempotency: apiPolicy({ key: { ...apiPolicy().key, required: true } }) },
      { ...route, name: 'bare', match: at('/bare'), idempotency: apiPolicy({ keep: { ...apiPolicy().keep, body: false } }) },
      { ...route, name: 'later', match: at('/later'), idempotency: apiPolicy({ inbox: inboxPolicy(), inboxFor: 'all' }) },
      { ...route, name: 'gone', match: at('/gone'), upstream: nowhere },
      { name: 'away', match: at('/away', []), upstream: nowhere, idempotency: null },
      { name: 'open', match: at('/open', []), upstream: route.upstream, idempotency: null }
    ],
    issuedKeys: ISSUED,
    ...(cors !== undefined && { cors })
  })
  return { url, witness, ask: async (path, options = {}) => call(url, path, options) }
}

const from = (origin: string, key: string | null = null): CallOptions => ({
  headers: { Origin: origin, ...(key !== null && { 'Idempotency-Key': key }) }
})

/** Each of the gateway's own answers, by its problem's code or its name. */
const OWN: ReadonlyArray<readonly [what: string, status: number, ask: (world: World, origin: string) => Promise<Called>]> = [
  ['key-missing', 400, async ({ ask }, origin) => ask('/strict', from(origin))],
  ['key-reused', 422, async ({ ask }, origin) => {
    await ask('/things', { headers: { 'Idempotency-Key': 'reused' }, body: 'one' })
    return ask('/things', { ...from(origin, 'reused'), body: 'two' })
  }],
  ['answer-not-kept', 409, async ({ ask }, origin) => {
    await ask('/bare', from(origin, 'bare'))
    return ask('/bare', from(origin, 'bare'))
  }],
  ['upstream-unreachable', 502, async ({ ask }, origin) => ask('/gone', from(origin, 'gone'))],
  ['upstream-unreachable', 502, async ({ ask }, origin) => ask('/away', from(origin, 'away'))],
  ['no-route', 404, async ({ ask }, origin) => ask('/none', from(origin))],
  ['no-route', 404, async ({ ask }, origin) => ask('/things', { method: 'PUT', ...from(origin) })],
  ['bad-request', 400, async ({ ask }, origin) => ask('/%', from(origin))],
  ['bad-request', 405, async ({ ask }, origin) => ask('/.well-known/idempotency-keys', { method: 'PUT', ...from(origin) })],
  ['no-message', 404, async ({ ask }, origin) => ask('/.well-known/onceway/messages/none', { method: 'GET', ...from(origin) })],
  ['an issued key', 201, async ({ ask }, origin) => ask('/.well-known/idempotency-keys', from(origin))],
  ['a message that was accepted', 202, async ({ ask }, origin) => ask('/later', from(origin, 'later'))],
  [
    'how it stands',
    200,
    async ({ ask }, origin) => ask((await ask('/later', from(origin, 'later'))).headers.location ?? '', { method: 'GET', ...from(origin) })
  ]
]

test('a page of an allowed origin reads every answer of the gateway\'s own, and the fields in it; no other page does', async (t) => {
  const world = await start(t, POLICY)
  for (const [what, status, ask] of OWN) {
    const allowed = await ask(world, A)
    assert.equal(allowed.status, status, what)
    if (status >= 400) assert.equal(allowed.json.code, what)
    assert.deepEqual(
      [allowed.headers['access-control-allow-origin'], allowed.headers['access-control-allow-credentials'], allowed.headers.vary],
      [A, 'true', 'Origin'],
      what
    )
    const exposed = String(allowed.headers['access-control-expose-headers']).toLowerCase().split(', ')
    // But for those that every script may read (Fetch, CORS-safelisted response-header names), and what is the protocol's.
    const unreadable = Object.keys(allowed.headers).filter((name) =>
      !/^(access-control-.*|cache-control|content-(language|length|type)|expires|last-modified|pragma|vary|date|connection|keep-alive)$/.test(name) && !exposed.includes(name))
    assert.deepEqual(unreadable, [], what)
    for (const origin of [C, 'null', `${A}.example`]) {
      const refused = await ask(world, origin)
      assert.deepEqual(
        [refused.headers['access-control-allow-origin'], refused.headers['access-control-allow-credentials'], refused.headers.vary],
        [undefined, undefined, 'Origin'],
        `${what} ${origin}`
      )
    }
  }
})

test('without cors the gateway adds nothing: a proxy in front may say it', async (t) => {
  const world = await start(t)
  for (const [what, status, ask] of OWN) {
    const { headers, ...told } = await ask(world, A)
    assert.equal(told.status, status, what)
    assert.deepEqual(Object.keys(headers).filter((name) => name.startsWith('access-control-') || name === 'vary'), [], what)
  }
  const { headers } = await world.ask('/things', from(A, 'k'))
  assert.deepEqual([headers['access-control-allow-origin'], headers['access-control-expose-headers']], [A, undefined])
})

const preflight = (origin: string, method: string, headers = 'content-type,idempotency-key'): CallOptions => ({
  method: 'OPTIONS',
  headers: { Origin: origin, 'Access-Control-Request-Method': method, 'Access-Control-Request-Headers': headers }
})

test('a preflight goes to the upstream that gets what it announces, also past a guarded route; it is neither guarded nor recorded', async (t) => {
  for (const cors of [undefined, POLICY]) {
    const { ask, witness, url } = await start(t, cors)
    for (const path of ['/things', '/strict', '/later', '/open']) {
      const { status, headers } = await ask(path, preflight(B, 'POST'))
      assert.deepEqual(
        [status, headers['access-control-allow-origin'], headers['access-control-allow-headers'], headers['idempotency-status']],
        [204, B, 'content-type,idempotency-key', undefined],
        path
      )
    }
    // It says no in its own way.
    assert.deepEqual([(await ask('/things', preflight(C, 'POST'))).headers['access-control-allow-origin']], [undefined])
    assert.deepEqual(
      witness.seen.map(({ method, target }) => `${method} ${target}`),
      ['/things', '/strict', '/later', '/open', '/things'].map((path) => `OPTIONS ${path}`)
    )
    // What could be taken for more than a question stays guarded, and its key makes a record.
    const overridden = {
      ...preflight(A, 'POST'),
      headers: { ...preflight(A, 'POST').headers, 'X-HTTP-Method-Override': 'POST', 'Idempotency-Key': 'over' }
    }
    assert.deepEqual(
      [
        (await call(url, '/things', overridden)).headers['idempotency-status'],
        (await call(url, '/things', overridden)).headers['idempotency-status']
      ],
      ['executed', 'replayed']
    )
    // No page asks: it is an OPTIONS like any other, and no route takes it.
    assert.equal((await ask('/things', { method: 'OPTIONS', headers: { Origin: A } })).status, 404)
  }
})

test('a preflight of what no upstream answers is answered here, for allowed origins alone', async (t) => {
  const { ask, witness } = await start(t, POLICY)
  for (const [path, method, methods] of [
    ['/.well-known/idempotency-keys', 'POST', 'POST'],
    ['/.well-known/onceway/messages/x', 'GET', 'GET, HEAD'],
    ['/none', 'POST', 'GET, HEAD, POST, PUT, PATCH, DELETE'],
    ['/things', 'PUT', 'GET, HEAD, POST, PUT, PATCH, DELETE']
  ] as const) {
    const { status, headers, text } = await ask(path, preflight(A, method))
    assert.deepEqual(
      [
        status,
        text,
        headers['access-control-allow-origin'],
        headers['access-control-allow-methods'],
        headers['access-control-allow-headers'],
        headers['access-control-max-age']
      ],
      [204, '', A, methods, 'content-type,idempotency-key', '600'],
      path
    )
    assert.equal((await ask(path, preflight(C, method))).headers['access-control-allow-methods'], undefined)
  }
  assert.equal(witness.seen.length, 0)
})

test('a replay names the origin that asks, where the upstream has allowed it by a preflight, and nobody else', async (t) => {
  const { ask, witness } = await start(t)
  const seen = async (options: CallOptions) => {
    const { headers } = await ask('/things', options)
    return [
      headers['idempotency-status'],
      headers['access-control-allow-origin'],
      headers['access-control-allow-credentials'],
      headers.vary
    ]
  }
  assert.deepEqual(await seen(from(A, 'k')), ['executed', A, 'true', 'Origin'])
  for (const origin of [A, B]) assert.deepEqual(await seen(from(origin, 'k')), ['replayed', origin, 'true', 'Origin'])
  assert.deepEqual(await seen({ headers: { 'Idempotency-Key': 'k' } }), ['replayed', undefined, undefined, 'Origin'])
  assert.deepEqual(await seen({ headers: { 'Idempotency-Key': 'server' } }), ['executed', undefined, undefined, undefined])
  assert.deepEqual(await seen(from(A, 'server')), ['replayed', undefined, undefined, undefined])
  assert.equal(witness.seen.length, 2)
})

test('a request that a page sends without asking gets a replay to read only if the operator lists its origin', async (t) => {
  const witness = await startWitness(REFLECTS)
  t.after(() => witness.close())
  const read = readKeySources('json:/id')
  const sources = 'value' in read ? read.value : []
  const route = guardedRoute(witness.url, { key: { ...apiPolicy().key, sources } })
  for (const [cors, expected] of [
    [undefined, [undefined, undefined]],
    [{ ...POLICY, origins: new Set([C]) }, [C, 'true']],
    [{ ...POLICY, origins: new Set([B]) }, [undefined, undefined]]
  ] as const) {
    const { url } = await startGateway(t, { routes: [route], ...(cors !== undefined && { cors }) })
    const simple = async (origin: string) => call(url, '/things', {
      headers: { Origin: origin, 'Content-Type': 'text/plain' },
      body: '{"id":"k"}'
    })
    assert.equal((await simple(A)).headers['access-control-allow-origin'], A)
    const { headers } = await simple(C)
    assert.deepEqual(
      [headers['idempotency-status'], headers['access-control-allow-origin'], headers['access-control-allow-credentials']],
      ['replayed', ...expected]
    )
  }
})

test('what the gateway writes on an upstream\'s answer is exposed to its script, beside what the upstream exposes', async (t) => {
  const { ask, witness } = await start(t, POLICY)
  const reflects = witness.answer
  witness.answer = (seen, response, ...rest) => {
    response.setHeader('Access-Control-Expose-Headers', 'X-Custom')
    return reflects(seen, response, ...rest)
  }
  for (const mark of ['executed', 'replayed']) {
    const { headers } = await ask('/things', from(A, 'k'))
    assert.equal(headers['idempotency-status'], mark)
    assert.match(
      String(headers['access-control-expose-headers']),
      /^X-Custom, Idempotency-Status, Idempotent-Replayed, Idempotency-Expires, Idempotency-Stored, /
    )
  }
  assert.match(String((await ask('/open', from(A, 'k'))).headers['access-control-expose-headers']), /^X-Custom, Idempotency-Status/)
  assert.equal((await ask('/open', from(A))).headers['access-control-expose-headers'], 'X-Custom')
  assert.equal((await ask('/things', { headers: { 'Idempotency-Key': 'k' } })).headers['access-control-allow-origin'], undefined)
})
