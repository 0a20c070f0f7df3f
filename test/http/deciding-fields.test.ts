/**
 * Whatever decided on a request reaches the upstream as it was read: unchanged, in one spelling, whether the request is
 * guarded, keyless on a guarded route, or passes through, in HTTP/1.0 and 1.1. Spellings and places are drawn from one seed.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../src/config/routes/key-source.ts'
import { plainName } from '../../src/core/headers/fields.ts'
import type { IdempotencyPolicy } from '../../src/core/policy/policy.ts'
import { callRaw } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { Chance } from '../simulation/chance.ts'

const SEED = 20_260
type Field = readonly [name: string, value: string]

/** Named by the configuration of the guarded route, the second with an underscore, which there is the right spelling. */
const OF_THE_ROUTE = ['x-user', 'x_tenant_code'] as const
/** Refused where Connection lists them. */
const NEVER_LISTED = ['idempotency-key', 'authorization', 'x-api-key', 'cookie', 'content-type'] as const
/** `x-plan`: compared by the route's configuration. */
const COMPARED = ['if-match', 'soapaction', 'x-plan'] as const
const NAMES = [
  ...OF_THE_ROUTE, ...NEVER_LISTED, ...COMPARED, 'proxy-authorization', 'api-key', 'x-auth-token',
  'x-shopify-access-token', 'stripe-account', 'x-tenant-id', 'content-encoding', 'x-http-method-override'
] as const

const OF_ROUTE: Partial<IdempotencyPolicy> = {
  scope: { kind: 'parts', parts: OF_THE_ROUTE.map((name) => ({ kind: 'header', name })) },
  fingerprint: { of: ['method', 'target', 'host', 'mediaType', 'semantics', 'body'], body: 'bytes', headers: ['x-plan'] }
}

const WAYS = [
  { way: 'guarded', line: 'POST /things', keyed: true },
  { way: 'keyless on a guarded route', line: 'POST /things', keyed: false },
  { way: 'passed through', line: 'POST /open', keyed: false }
] as const
type Way = typeof WAYS[number]

interface World { readonly witness: Witness, readonly url: string, readonly chance: Chance }

async function start (t: TestContext, seed: number): Promise<World> {
  const witness = await startWitness()
  const guarded = guardedRoute(witness.url, OF_ROUTE)
  const open = { ...guarded, name: 'open', match: { ...guarded.match, methods: [] }, idempotency: null }
  const { url, close } = await startGateway(t, { routes: [{ ...guarded, match: { ...guarded.match, path: '/things' } }, open] })
  t.after(async () => { await close(); await witness.close() })
  return { witness, url, chance: new Chance(seed) }
}

let keys = 0

/** What every request of this way has, less the field that is looked at. */
function usual ({ keyed }: Way, without: string): Field[] {
  const fields: Field[] = [
    ...(keyed ? [['Idempotency-Key', `k-${++keys}`] as const] : []),
    ...OF_THE_ROUTE.map((name) => [name, `of ${name}`] as const),
    ['X-Custom', 'kept']
  ]
  return fields.filter(([name]) => name.toLowerCase() !== without)
}

/** Sends it; what the upstream got, or null: it was refused, and nothing was sent. */
async function sent (
  { witness, url, chance }: World,
  { line }: Way,
  version: string,
  fields: readonly Field[],
  listed: readonly string[] = []
): Promise<Field[] | null> {
  const before = witness.seen.length
  const connection: Field = [randomCase(chance, 'connection'), chance.one([['close', ...listed], [...listed, 'close']]).join(', ')]
  const all = [...fields]
  all.splice(chance.whole(0, all.length), 0, connection)
  const answer = await callRaw(url, `${line} HTTP/${version}\r\nHost: shop.example\r\n${all.map(([name, value]) => `${name}: ${value}\r\n`).join('')}Content-Length: 4\r\n\r\nsame`)
  if (witness.seen.length === before) {
    assert.match(answer, /^HTTP\/1\.1 400 /)
    assert.match(answer, /"code":"(bad-request|scope-missing|key-invalid)"/)
    return null
  }
  assert.match(answer, /^HTTP\/1\.1 201 /)
  assert.equal(witness.seen.length, before + 1)
  const { rawHeaders, body } = witness.seen.at(-1) ?? assert.fail()
  assert.equal(body.toString(), 'same')
  return Array.from({ length: rawHeaders.length / 2 }, (_, at) => [rawHeaders[2 * at] ?? '', rawHeaders[2 * at + 1] ?? ''] as const)
}

/** All that a server could take for this field. */
function readAs (fields: readonly Field[], name: string): Field[] {
  return fields.filter(([other]) => plainName(other) === plainName(name)).map(([other, value]) => [other.toLowerCase(), value])
}

function randomCase (chance: Chance, name: string): string {
  return Array.from(name, (letter) => chance.hit(0.5) ? letter.toUpperCase() : letter).join('')
}

/** Another name that folds to the same, in any case. */
function lookAlike (chance: Chance, name: string): string {
  const odd = chance.one(['_', '_', '.', '~'])
  const written = name.includes('_') ? name.replaceAll('_', '-') : name.replace('-', odd)
  return randomCase(chance, written)
}

for (const way of WAYS) {
  for (const version of ['1.0', '1.1']) {
    for (const name of NAMES) {
      // Without the key it would be no guarded request.
      if (name === 'idempotency-key' && way.way === 'keyless on a guarded route') continue
      test(`${name} arrives as it was read: ${way.way}, HTTP/${version}`, async (t) => {
        const world = await start(t, SEED + NAMES.indexOf(name) + 100 * WAYS.indexOf(way))
        const { chance } = world
        const own = (value = `value of ${++keys}`): Field => [
          randomCase(chance, name),
          name === 'idempotency-key' ? value.replaceAll(' ', '-') : name === 'content-type' ? 'text/plain' : value
        ]
        const spelt = ([written, value]: Field): Field => [written.toLowerCase(), value]
        const mixed = (...fields: readonly Field[]): Field[] => chance.hit(0.5)
          ? [...fields, ...usual(way, name)]
          : [...usual(way, name), ...fields]

        const plain = own()
        assert.deepEqual(readAs(await sent(world, way, version, mixed(plain)) ?? assert.fail(), name), [spelt(plain)], 'in any case')

        const inConnection = own()
        const listed = await sent(world, way, version, mixed(inConnection), [randomCase(chance, name)])
        if ((NEVER_LISTED as readonly string[]).includes(name)) assert.equal(listed, null, 'listed in Connection')
        else assert.deepEqual(readAs(listed ?? assert.fail(), name), [spelt(inConnection)], 'listed in Connection')

        if (!/[-_]/.test(name)) return
        const right = own()
        const beside = await sent(world, way, version, mixed(...chance.one([
          [right, [lookAlike(chance, name), 'forged']],
          [[lookAlike(chance, name), 'forged'], right]
        ] as const)))
        assert.deepEqual(readAs(beside ?? assert.fail(), name), [spelt(right)], 'beside a look-alike')

        const alone = await sent(world, way, version, mixed([lookAlike(chance, name), 'forged']))
        if (way.keyed && (OF_THE_ROUTE as readonly string[]).includes(name)) assert.equal(alone, null, 'a look-alike alone is no caller')
        else assert.deepEqual(readAs(alone ?? assert.fail(), name), [], 'a look-alike alone')
      })

      if (!way.keyed) continue
      test(`${name} twice is refused, or forwarded as it came: HTTP/${version}`, async (t) => {
        const world = await start(t, SEED + NAMES.indexOf(name))
        const value = (index: number): string => name === 'idempotency-key' ? `k-${++keys}` : `value ${index}`
        const twice: Field[] = [[name, value(1)], [randomCase(world.chance, name), value(2)]]
        const through = await sent(world, way, version, [...usual(way, name), ...twice])
        if ([
          ...OF_THE_ROUTE, 'idempotency-key', 'authorization', 'content-type', 'content-encoding',
          'x-http-method-override'
        ].includes(name)) {
          assert.equal(through, null)
        } else {
          assert.deepEqual(readAs(through ?? assert.fail(), name), twice.map(([written, text]) => [written.toLowerCase(), text]))
        }
      })
    }
  }
}

for (const name of [
  'content_length', 'Content_Length', 'transfer_encoding', 'Transfer.Encoding', 'HOST_', 'proxy_connection',
  'Onceway_Key', 'onceway.verified', 'Idempotency_Attempt', 'X_Forwarded_For', 'x_forwarded_host'
]) {
  test(`${name} goes no further, whichever way`, async (t) => {
    const world = await start(t, SEED)
    for (const way of WAYS) {
      const fields = await sent(world, way, '1.1', [...usual(way, ''), [name, 'forged']]) ?? assert.fail()
      assert.equal(fields.some(([, value]) => value.includes('forged')), name === 'HOST_', way.way)
    }
  })
}

test('a field that resembles nothing decisive is left as it is, odd as its name may be', async (t) => {
  const world = await start(t, SEED)
  for (const way of WAYS) {
    const fields = await sent(world, way, '1.1', [...usual(way, ''), ['My_Field', 'a'], ['My-Field', 'b'], ['x.y~z', 'c']]) ?? assert.fail()
    assert.deepEqual(
      ['My_Field', 'My-Field', 'x.y~z'].map((name) => fields.find(([other]) => other.toLowerCase() === name.toLowerCase())?.[1]),
      ['a', 'b', 'c'],
      way.way
    )
  }
})

test('a look-alike of the operator\'s own field does not stand beside it', async (t) => {
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const guarded = guardedRoute(witness.url, {}, { requestHeaders: [['X-Internal', 'token']] })
  const { url } = await startGateway(t, { routes: [guarded] })
  for (const key of ['Idempotency-Key: k\r\n', '']) {
    await callRaw(url, `POST /things HTTP/1.1\r\nHost: x\r\n${key}X_Internal: forged\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  }
  assert.deepEqual(
    witness.seen.map(({ rawHeaders }) => rawHeaders.filter((_, at) => /^x.internal$/i.test(rawHeaders[at - 1] ?? ''))),
    [['token'], ['token']]
  )
})

test('a key that comes as X-Request-Id is passed on as it came, though no log would take it', async (t) => {
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const read = readKeySources('header:X-Request-Id')
  const sources = 'value' in read ? read.value : assert.fail()
  const key: IdempotencyPolicy['key'] = { ...guardedRoute('').idempotency.key, sources, header: keyHeaderOf(sources) }
  const { url } = await startGateway(t, { routes: [guardedRoute(witness.url, { key })] })
  for (const id of ['plain-1', '"quoted, 2"']) {
    await callRaw(url, `POST /things HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${id}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  }
  assert.deepEqual(
    witness.seen.map(({ rawHeaders }) => rawHeaders.filter((_, at) => rawHeaders[at - 1]?.toLowerCase() === 'x-request-id')),
    [['plain-1'], ['"quoted, 2"']]
  )
})

test('what is believed from trusted proxies alone decides for nobody else', async (t) => {
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const route = guardedRoute(witness.url, { scope: { kind: 'parts', parts: [{ kind: 'header', name: 'x-forwarded-user' }] } })
  const [stranger, trusting] = [
    await startGateway(t, { routes: [route] }),
    await startGateway(t, { routes: [route], trustProxies: ['127.0.0.0/8'] })
  ]
  const ask = async (url: string): Promise<string> => callRaw(
    url,
    'POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nX-Forwarded-User: alice\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
  )
  assert.match(
    await ask(stranger.url),
    /^HTTP\/1\.1 400 [\s\S]*x-forwarded-user header decides on this route, and is believed from trusted proxies alone/
  )
  assert.equal(witness.seen.length, 0)
  assert.match(await ask(trusting.url), /^HTTP\/1\.1 201 /)
  assert.equal(witness.seen[0]?.headers['x-forwarded-user'], 'alice')
})

test('two lines that say whether a request is guarded at all are refused', async (t) => {
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const read = readKeySources('sns')
  const sources = 'value' in read ? read.value : assert.fail()
  const { url } = await startGateway(t, { routes: [guardedRoute(witness.url, { key: { ...guardedRoute('').idempotency.key, sources } })] })
  const type = 'x-amz-sns-message-type: '
  const answer = await callRaw(url, `POST /things HTTP/1.1\r\nHost: x\r\nx-amz-sns-message-id: 1\r\n${type}Notification\r\n${type}UnsubscribeConfirmation\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  assert.match(answer, /^HTTP\/1\.1 400 [\s\S]*more than one x-amz-sns-message-type header line/)
  assert.equal(witness.seen.length, 0)
})

test('a WebSocket\'s handshake has what decides, and no look-alike of it', async (t) => {
  const heads: string[][] = []
  const server = createServer()
  server.on('upgrade', (request, socket) => { heads.push(request.rawHeaders); socket.destroy() })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => { server.close(); await once(server, 'close') })
  const upstream = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const guarded = guardedRoute(upstream, OF_ROUTE)
  const { url } = await startGateway(t, {
    routes: [
      { ...guarded, match: { ...guarded.match, path: '/things' } },
      { ...guarded, name: 'open', match: { ...guarded.match, methods: [] }, idempotency: null }
    ]
  })
  const chance = new Chance(SEED)
  for (const path of ['/things', '/open']) {
    for (const name of NAMES) {
      if ((NEVER_LISTED as readonly string[]).includes(name)) continue
      const before = heads.length
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.on('error', () => {})
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, ${randomCase(chance, name)}, X-Hop\r\nX-Hop: mine\r\n${randomCase(chance, name)}: value\r\n${/[-_]/.test(name) ? `${lookAlike(chance, name)}: forged\r\n` : ''}Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`)
      await eventually(() => heads.length > before, 'the upstream is asked')
      socket.destroy()
      const head = heads.at(-1) ?? []
      const fields = Array.from({ length: head.length / 2 }, (_, at) => [head[2 * at] ?? '', head[2 * at + 1] ?? ''] as const)
      assert.deepEqual(readAs(fields, name), [[name, 'value']], `${path} ${name}`)
      assert.deepEqual(readAs(fields, 'x-hop'), [])
    }
  }
})
