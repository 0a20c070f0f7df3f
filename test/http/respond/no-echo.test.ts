/** A problem repeats nothing that its client sent, but the id of the request: not the target, no field, nothing of the body. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PROBLEMS } from '../../../src/core/protocol/problems.ts'
import { callRaw } from '../../harness/call.ts'
import { guardedRoute, startGateway, startGuarded } from '../../harness/gateway.ts'
import { Draw, problemOf, requestText } from '../canaries.ts'
import { ECHO, PROVOCATIONS } from '../provocations.ts'

/** A failure names its seed; the same seed makes the same requests. */
const SEED = 20_261_121
const ROUNDS = 3

for (const [index, { code, what, apart = false, start }] of PROVOCATIONS.entries()) {
  test(`${code} repeats nothing of its request: ${what}`, async (t) => {
    const round = await start(t)
    const play = async (number: number): Promise<void> => {
      const draw = new Draw(SEED + number, index)
      for (const answer of await round(draw)) assert.equal(problemOf(answer, draw)?.code, code, `seed ${SEED + number}: ${answer}`)
    }
    const numbers = Array.from({ length: ROUNDS }, (_, number) => number)
    if (apart) await Promise.all(numbers.map(play))
    else for (const number of numbers) await play(number)
  })
}

test('every problem of the table is among them: there is none that cannot be provoked', () => {
  const provoked = new Set<string>(PROVOCATIONS.map(({ code }) => code))
  assert.deepEqual(Object.keys(PROBLEMS).filter((code) => !provoked.has(code)), [])
})

test('a word that is repeated would be found: in the status line, in a field, in the detail', () => {
  const draw = new Draw(SEED, PROVOCATIONS.length)
  const word = draw.canary('the path')
  const answer = (reason: string, field: string, detail: string): string =>
    `HTTP/1.1 400 ${reason}\r\nContent-Type: application/problem+json\r\nX-Other: ${field}\r\n\r\n${JSON.stringify({ code: 'bad-request', status: 400, detail, instance: 'none' })}`
  assert.equal(problemOf(answer('Bad Request', 'other', 'The request is odd.'), draw)?.code, 'bad-request')
  for (const told of [answer(word, '', ''), answer('', `a ${word}`, ''), answer('', '', `${word.toUpperCase()} is odd.`)]) {
    assert.throws(() => problemOf(told, draw), /what came in the path is repeated/)
  }
  assert.ok(requestText(draw, {}).includes('cnry'))
})

/** Put together at random; a star is a word. What each of them comes to is not asked. */
const METHODS = ['POST', 'POST', 'POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'OPTIONS', 'PROPFIND', '*']
const TARGETS = [
  '/*?*=*', '/*', '/*/*', '/*?id=*', '/*/../*', '/*/%2e%2e/*', '/%ff*', '/%zz*', '/*%00', '//*/*', '/\\*', '/*;*=*',
  '/*#*', '*', 'http://*.example/*', 'http://*@*/', 'ftp://*/', '/.well-known/idempotency-keys?*',
  '/.well-known/idempotency-keys/*', '/open/*?*'
]
const DECISIVE = [
  'Idempotency-Key: *', 'Idempotency-Key: "*', 'Idempotency-Key: * *', 'Host: *', 'Connection: close, *',
  'Connection: close, authorization, *', 'Transfer-Encoding: *', 'Content-Length: *', 'Content-Type: *',
  'Content-Type: */*; *=*',
  'Expect: *', 'Upgrade: *', 'Authorization: *', 'Authorization: * *', 'Authorization: Bearer *',
  'Authorization: Digest *="*', 'X-Api-Key: *', '*', ': *', 'X-*: *', 'X-Odd: *\x01'
]
const BODIES = ['', '*', '{"id":"*"}', '{"id":{"*":1}}', '{"id":"*","id":"*"}', '[{"id":"*"}]', 'id=*']
const WILD = 400
/** Of one draw: enough of them refused, in enough ways, for the search to have been one. */
const REFUSED_MIN = WILD / 2
const CODES_MIN = 5

test('no problem repeats anything of requests that are put together at random', async (t) => {
  const { witness } = await startGuarded(t, { answer: ECHO })
  const guarded = guardedRoute(witness.url, {
    key: {
      sources: [{ kind: 'header', name: 'idempotency-key' }, { kind: 'json', pointer: ['id'], written: '/id' }],
      header: 'idempotency-key',
      required: true,
      syntax: 'lenient',
      store: 'text',
      windowMs: 86_400_000
    }
  })
  const open = { ...guarded, name: 'open', match: { ...guarded.match, path: '/open/*', methods: [] }, idempotency: null }
  const issuedKeys = {
    scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
    jwt: null,
    secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
    lifetimeMs: 3_600_000
  } as const
  const { url } = await startGateway(t, { routes: [open, guarded], issuedKeys, server: { requestBodyMs: 100 } })
  const codes = await Promise.all(Array.from({ length: WILD }, async (_, number) => {
    const draw = new Draw(SEED + number, PROVOCATIONS.length + 1)
    const drawn = (of: readonly string[]): string => draw.chance.one(of).replaceAll('*', () => draw.canary('something'))
    const fields = Array.from({ length: draw.chance.whole(0, 2) }, () => drawn(DECISIVE))
    const request = requestText(draw, {
      method: drawn(METHODS),
      target: drawn(TARGETS),
      fields,
      body: drawn(BODIES),
      ...draw.chance.hit(1 / 2) ? {} : { caller: null }
    })
    return problemOf(await callRaw(url, request), draw)?.code
  }))
  const refused = codes.filter((code) => code !== undefined)
  assert.ok(
    refused.length >= REFUSED_MIN && new Set(refused).size >= CODES_MIN,
    `${refused.length} refused: ${Array.from(new Set(refused)).join(', ')}`
  )
})
