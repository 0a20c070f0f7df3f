/** Key sets that verify tokens: their sources, and requests while a key set cannot be had. */
import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { JoseVerifier } from '../../../src/identity/jwt.ts'
import { recordingLog, startGuarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { bearing, bySubject, inFile, makeIssuer, serveKeys, serving, sign, tokenOf } from './jwt-world.ts'

/** The pause after a failed fetch. */
const FAILED_FOR_MS = 5_000
/** The timeout for a key server. */
const FETCH_TIMEOUT_MS = 2_000
const MANY = 20

function verifying (): { readonly clock: ManualClock, readonly log: ReturnType<typeof recordingLog>, readonly tokens: JoseVerifier } {
  const clock = new ManualClock()
  const log = recordingLog()
  return { clock, log, tokens: new JoseVerifier({ clock, log }) }
}

test('keys served at a URL verify tokens; while nobody serves them the answer is 503 and nothing is sent', async (t) => {
  const issuer = await makeIssuer()
  const keys = await serveKeys(t, issuer.jwks)
  await keys.stop()
  const { clock, tokens } = verifying()
  const { ask, witness } = await startGuarded(t, { policy: bySubject(keys.url), world: { tokens } })
  const refused = await ask('k', await sign(issuer, 'alice'))
  assert.deepEqual([refused.status, refused.json.code, refused.headers['retry-after']], [503, 'scope-unavailable', '1'])
  assert.equal(witness.seen.length, 0)
  await keys.start()
  clock.stall(FAILED_FOR_MS)
  assert.equal((await ask('k', await sign(issuer, 'alice'))).status, 201)
  assert.equal((await ask('k', await sign(issuer, 'alice'))).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
  assert.equal(keys.asked(), 1)
})

const FAILURES = [
  ['answers 500', /^HTTP_500$/, (response: ServerResponse) => { response.writeHead(500).end() }],
  ['answers a page', /^it is no JSON$/, serving('<html>')],
  ['answers what is no key set', /malformed/, serving('{"keys":1}')],
  ['redirects', /^HTTP_302$/, (response: ServerResponse) => { response.writeHead(302, { Location: '/elsewhere' }).end() }],
  ['breaks off', /./, (response: ServerResponse) => { response.socket?.destroy() }]
] as const

for (const [what, said, answer] of FAILURES) {
  test(`a key server that ${what} is asked once in five seconds, however many requests come, and the log says it once`, async (t) => {
    const issuer = await makeIssuer()
    const keys = await serveKeys(t, issuer.jwks)
    keys.answer = answer
    const { clock, log, tokens } = verifying()
    const { ask, witness } = await startGuarded(t, { policy: bySubject(keys.url), world: { tokens } })
    const asking = async (): Promise<void> => {
      const answers = await Promise.all(Array.from({ length: MANY }, async (_, index) => ask(`k${index}`, await sign(issuer, 'alice'))))
      assert.deepEqual(Array.from(new Set(answers.map(({ json }) => json.code as string))), ['scope-unavailable'])
      assert.deepEqual(Array.from(new Set(answers.map(({ headers }) => headers['retry-after']))), ['1'])
    }
    await asking()
    clock.stall(FAILED_FOR_MS - 1)
    await asking()
    assert.equal(keys.asked(), 1)
    clock.stall(1)
    await asking()
    assert.equal(keys.asked(), 2)
    assert.deepEqual(log.lines.map(({ level, url }) => [level, url]), [['warn', keys.url], ['warn', keys.url]])
    assert.match(String(log.lines[0]?.['error']), said)
    keys.answer = serving(issuer.jwks)
    clock.stall(FAILED_FOR_MS)
    assert.equal((await ask('k', await sign(issuer, 'alice'))).status, 201)
    assert.equal(witness.seen.length, 1)
  })
}

test('of the requests that come while a key server hangs, those of its first two seconds wait, and all others are told at once', async (t) => {
  const issuer = await makeIssuer()
  const keys = await serveKeys(t, issuer.jwks)
  keys.answer = () => {}
  const { tokens } = verifying()
  const { ask } = await startGuarded(t, { policy: bySubject(keys.url), world: { tokens } })
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: MANY }, async (_, index) => ask(`k${index}`, await sign(issuer, 'alice'))))
  const waitedMs = performance.now() - startedAt
  for (let index = 0; index < MANY; index++) assert.equal((await ask(`l${index}`, await sign(issuer, 'alice'))).status, 503)
  const toldMs = performance.now() - startedAt - waitedMs
  assert.ok(waitedMs >= FETCH_TIMEOUT_MS - 100, `${waitedMs} ms`)
  assert.ok(toldMs < FETCH_TIMEOUT_MS, `${toldMs} ms for ${MANY} requests, one after another`)
  assert.equal(keys.asked(), 1)
})

test('many requests that come before the first has the keys share one fetch', async (t) => {
  const issuer = await makeIssuer()
  const keys = await serveKeys(t, issuer.jwks)
  const { ask } = await startGuarded(t, { policy: bySubject(keys.url) })
  const answers = await Promise.all(Array.from({ length: MANY }, async (_, index) => ask(`k${index}`, await sign(issuer, 'alice'))))
  assert.deepEqual(answers.map(({ status }) => status), Array.from(answers, () => 201))
  assert.equal(keys.asked(), 1)
})

test('while keys are fetched anew in vain, for a key that is not known, tokens under known keys go on being taken', async (t) => {
  const [issuer, rotated] = await Promise.all([makeIssuer('one'), makeIssuer('two')])
  const keys = await serveKeys(t, issuer.jwks)
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const { clock, tokens } = verifying()
  const policy = { jwks: keys.url, issuer: null, audience: null }
  const verdict = async (by: typeof issuer): Promise<unknown> => {
    const result = await tokens.verify(policy, await tokenOf(by, { sub: 'alice' }))
    return result.kind === 'invalid' ? result.fault : result.kind
  }
  assert.equal(await verdict(issuer), 'claims')
  // Within jose's cool-down an unknown key is not fetched again.
  assert.deepEqual([await verdict(rotated), keys.asked()], ['unknown-key', 1])
  const outMs = 31_000
  t.mock.timers.tick(outMs)
  clock.stall(outMs)
  keys.answer = (response) => { response.writeHead(503).end() }
  for (let index = 0; index < MANY; index++) assert.deepEqual([await verdict(rotated), await verdict(issuer)], ['unavailable', 'claims'])
  assert.equal(keys.asked(), 2)
  // The server is back, with the new and the old key.
  keys.answer = serving(JSON.stringify({ keys: [issuer, rotated].flatMap(({ jwks }) => (JSON.parse(jwks) as { keys: unknown[] }).keys) }))
  clock.stall(FAILED_FOR_MS)
  assert.deepEqual([await verdict(rotated), await verdict(issuer), keys.asked()], ['claims', 'claims', 3])
})

test('a key file that is not there yet is read once it is; what was not there is not looked for by every request', async (t) => {
  const issuer = await makeIssuer()
  const path = await inFile(t, issuer.jwks)
  await rm(path)
  const { clock, log, tokens } = verifying()
  const { ask } = await startGuarded(t, { policy: bySubject(path), world: { tokens } })
  const code = async (): Promise<unknown> => (await ask('k', await sign(issuer, 'alice'))).json.code
  assert.equal(await code(), 'scope-unavailable')
  await writeFile(path, 'no JSON, and a secret')
  assert.equal(await code(), 'scope-unavailable')
  assert.deepEqual(log.lines.map(({ level, file }) => [level, file]), [['warn', path]])
  assert.match(String(log.lines[0]?.['error']), /^ENOENT/)
  clock.stall(FAILED_FOR_MS)
  assert.equal(await code(), 'scope-unavailable')
  assert.deepEqual(log.lines.slice(1).map(({ error }) => error), ['it is no JSON'])
  await writeFile(path, issuer.jwks)
  clock.stall(FAILED_FOR_MS)
  assert.equal((await ask('k', await sign(issuer, 'alice'))).status, 201)
})

test('a reload reads a key file again at once, also one that has just failed', async (t) => {
  const issuer = await makeIssuer()
  const path = await inFile(t, '{}')
  const { tokens } = verifying()
  const { ask } = await startGuarded(t, { policy: bySubject(path), world: { tokens } })
  assert.equal((await ask('k', await sign(issuer, 'alice'))).status, 503)
  await writeFile(path, issuer.jwks)
  tokens.forgetFiles()
  assert.equal((await ask('k', await sign(issuer, 'alice'))).status, 201)
})

test('what is no token is refused without asking for keys', async (t) => {
  const issuer = await makeIssuer()
  const keys = await serveKeys(t, issuer.jwks)
  await keys.stop()
  const { ask } = await startGuarded(t, { policy: bySubject(keys.url) })
  assert.deepEqual([(await ask('k', bearing('rubbish'))).status, keys.asked()], [401, 0])
})

test('a URL with credentials, which fetch refuses, is not in the log with them', async () => {
  const { log, tokens } = verifying()
  const issuer = await makeIssuer()
  const jwks = 'http://somebody:hunter2@127.0.0.1:9/keys'
  assert.equal((await tokens.verify({ jwks, issuer: null, audience: null }, await tokenOf(issuer, {}))).kind, 'unavailable')
  assert.doesNotMatch(String(log.lines[0]?.['error']), /hunter2/)
})
