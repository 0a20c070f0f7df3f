/** Routes whose callers sign, on a gateway as it is started: each mode, each way of writing it, and what is said of by-key-id. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import Stripe from 'stripe'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'

const SECRET = 'only for this test'
const BEFORE = 'the one before it'
const BODY = '{"amount":100}'
const stripe = new Stripe('sk_test_nobody')

const hex = (secret: string, body: string): string => createHmac('sha256', secret).update(body).digest('hex')
const stripes = (secret = SECRET, agoSeconds = 0): Record<string, string> => ({
  'Stripe-Signature': stripe.webhooks.generateTestHeaderString({
    payload: BODY,
    secret,
    timestamp: Math.floor(Date.now() / 1_000) - agoSeconds
  })
})
const githubs = (secret = SECRET): Record<string, string> => ({ 'X-Hub-Signature-256': `sha256=${hex(secret, BODY)}` })
const own = (secret = SECRET): Record<string, string> => ({ 'X-Sum': hex(secret, BODY) })

const SECRETS = `secret: "${SECRET}", previousSecret: "${BEFORE}"`
const ROUTES: ReadonlyArray<readonly [name: string, policy: string]> = [
  ['stripe', `verify: { scheme: stripe, ${SECRETS}, tolerance: 1m }`],
  ['github', `verify: { scheme: github, ${SECRETS} }`],
  ['own', `verify: { scheme: hmac, ${SECRETS}, hmac: { header: X-Sum } }`],
  ['drop', `profile: relay, mode: drop, verify: { scheme: stripe, ${SECRETS} }`],
  ['old-name', `mode: inbox, inbox: { verify: { scheme: stripe, ${SECRETS} } }`],
  ['async', `async: allowed, verify: { scheme: stripe, ${SECRETS} }`],
  ['open', 'verify: by-key-id']
]

interface World {
  readonly gateway: ProcessGateway
  readonly witness: Witness
  readonly send: (route: string, key: string, headers?: Record<string, string>) => Promise<Called>
}

async function start (t: TestContext): Promise<World> {
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const routes = ROUTES.map(([name, policy]) =>
    `  - { name: ${name}, match: { path: /${name} }, upstream: witness, idempotency: { scope: public, ${policy} } }`)
  const config = `version: 1\nlisten: { host: 127.0.0.1, port: 0 }\nadmin: { host: 127.0.0.1, port: 0 }\nupstreams: { witness: { url: "${witness.url}" } }\nroutes:\n${routes.join('\n')}\n`
  const gateway = await startProcess(t, { config })
  return {
    gateway,
    witness,
    send: async (route, key, headers = {}) => call(gateway.url, `/${route}`, {
      body: BODY,
      headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json', ...headers }
    })
  }
}

test('whoever signs is served in every mode, whoever does not is told nothing, and by-key-id is called what it is', async (t) => {
  const { gateway, witness, send } = await start(t)
  const status = ({ status, headers }: Called): unknown => [status, headers['idempotency-status']]
  const refused = async (route: string, key: string, headers: Record<string, string>, said = /Nothing was executed\.$/): Promise<void> => {
    const seen = witness.seen.length
    const answer = await send(route, key, headers)
    assert.deepEqual([answer.status, answer.json.code, witness.seen.length], [401, 'signature-invalid', seen], route)
    assert.match(answer.json.detail, said)
  }

  await t.test('enforce', async () => {
    for (const [route, sign] of [['stripe', stripes], ['github', githubs], ['own', own]] as const) {
      await refused(route, 'k', {})
      const first = await send(route, 'k', sign())
      assert.deepEqual(status(first), [201, 'executed'], route)
      const again = await send(route, 'k', sign(BEFORE))
      assert.deepEqual([status(again), again.text], [[201, 'replayed'], first.text], route)
      for (const bad of [{}, sign('of somebody else')]) await refused(route, 'k', bad)
    }
    await refused('stripe', 'k', stripes(SECRET, 120))
    assert.deepEqual(witness.seen.map(({ headers }) => headers['onceway-verified']), ['stripe', 'github', 'hmac'])
  })

  await t.test('drop', async () => {
    await refused('drop', 'k', {})
    assert.deepEqual(status(await send('drop', 'k', stripes())), [201, 'executed'])
    await refused('drop', 'k', stripes('of somebody else'))
    assert.deepEqual(status(await send('drop', 'k', stripes(BEFORE))), [200, 'duplicate'])
  })

  await t.test('inbox, by the old name', async () => {
    await refused('old-name', 'k', {}, /Nothing was accepted\.$/)
    const seen = witness.seen.length
    for (let time = 0; time < 2; time++) assert.deepEqual(status(await send('old-name', 'k', stripes())), [202, 'accepted'])
    await eventually(() => witness.seen.length === seen + 1, 'it is delivered')
    await refused('old-name', 'k', stripes('of somebody else'), /Nothing was accepted\.$/)
    assert.equal(witness.seen.at(-1)?.headers['onceway-verified'], 'stripe')
  })

  await t.test('async: allowed, whether the inbox is asked for or not', async () => {
    const asking = { Prefer: 'respond-async' }
    await refused('async', 'k', {})
    await refused('async', 'k', asking, /Nothing was accepted\.$/)
    assert.deepEqual(status(await send('async', 'k', stripes())), [201, 'executed'])
    await refused('async', 'k', {})
    assert.deepEqual(status(await send('async', 'k', { ...stripes(), ...asking })), [201, 'replayed'])
    assert.deepEqual(status(await send('async', 'l', { ...stripes(), ...asking })), [202, 'accepted'])
  })

  await t.test('by-key-id', async () => {
    const [signed, again] = ['of the first request', 'of its retry'].map((signature) => ({
      Authorization: `Signature keyId="a", signature="${hex(SECRET, signature)}"`
    }))
    assert.deepEqual(
      [status(await send('open', 'k', signed)), status(await send('open', 'k', again))],
      [[201, 'executed'], [201, 'replayed']]
    )
    const nameless = await send('open', 'l', stripes())
    assert.deepEqual([nameless.status, nameless.json.code], [400, 'scope-missing'])
    assert.match(nameless.json.detail, /only by Stripe-Signature \(signature\), in which the gateway can read no key id\. /)
    const told = await gateway.logged(({ msg }) => /by-key-id on route open: anyone who knows/.test(msg ?? ''))
    assert.match(
      String(told.msg),
      /anyone who knows a caller's key id and an Idempotency-Key gets the stored answer\. Signatures are not verified here/
    )
    assert.ok(gateway.logLines().some(({ msg }) => /inbox\.verify on route old-name is now verify/.test(msg ?? '')))
    assert.match(gateway.output(), /own: .*, signatures verified/)
  })

  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  assert.match(metrics, /onceway_inbox_signatures_total\{route="stripe",result="untimely"\} 1/)
  assert.ok(!gateway.output().includes(SECRET) && !metrics.includes(SECRET))
})

test('a secret that is turned counts from the reload on', async (t) => {
  const directory = makeDirectory('secret')
  t.after(() => { directory.remove() })
  const file = join(directory.path, 'secret')
  writeFileSync(file, SECRET)
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const gateway = await startProcess(t, {
    config: `version: 1\nlisten: { host: 127.0.0.1, port: 0 }\nadmin: { host: 127.0.0.1, port: 0 }\nupstreams: { witness: { url: "${witness.url}" } }\nroutes:\n  - { name: hooks, match: { path: /hooks }, upstream: witness, idempotency: { scope: public, verify: { scheme: github, secretFile: "${file}" } } }\n`
  })
  const send = async (key: string, secret: string): Promise<number> =>
    (await call(gateway.url, '/hooks', { body: BODY, headers: { 'Idempotency-Key': key, ...githubs(secret) } })).status
  assert.deepEqual([await send('a', SECRET), await send('b', BEFORE)], [201, 401])
  writeFileSync(file, BEFORE)
  gateway.signal('SIGHUP')
  await gateway.logged(({ msg }) => msg === 'configuration reloaded')
  assert.deepEqual([await send('c', SECRET), await send('b', BEFORE)], [401, 201])
})
