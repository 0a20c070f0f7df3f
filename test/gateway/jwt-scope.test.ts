import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { CryptoKey } from 'jose'
import type { IdempotencyPolicy } from '../../src/core/policy.ts'
import { startGuarded } from '../harness/gateway.ts'

async function makeIssuer (): Promise<{ readonly jwks: string, readonly privateKey: CryptoKey }> {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  return { jwks: JSON.stringify({ keys: [{ ...await exportJWK(publicKey), kid: 'one', alg: 'ES256' }] }), privateKey }
}

/** A token of its own with every call, as a rotating credential is. */
async function sign (key: CryptoKey, subject: string): Promise<{ headers: { Authorization: string } }> {
  const token = await new SignJWT({ jti: crypto.randomUUID() }).setProtectedHeader({ alg: 'ES256', kid: 'one' }).setSubject(subject).setExpirationTime('5m').sign(key)
  return { headers: { Authorization: `Bearer ${token}` } }
}

async function inFile (t: TestContext, jwks: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'onceway-jwks-'))
  t.after(async () => { await rm(directory, { recursive: true }) })
  const path = join(directory, 'jwks.json')
  await writeFile(path, jwks)
  return path
}

function bySubject (jwks: string): Partial<IdempotencyPolicy> {
  return { scope: { kind: 'parts', parts: [{ kind: 'jwt', claim: 'sub' }] }, jwt: { jwks, issuer: null, audience: null } }
}

test('a rotated token of the same subject is the same caller', async t => {
  const issuer = await makeIssuer()
  const { ask, witness } = await startGuarded(t, { policy: bySubject(await inFile(t, issuer.jwks)) })
  assert.equal((await ask('k', await sign(issuer.privateKey, 'alice'))).status, 201)
  assert.equal((await ask('k', await sign(issuer.privateKey, 'alice'))).headers['idempotent-replayed'], 'true')
  assert.equal((await ask('k', await sign(issuer.privateKey, 'bob'))).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 2)
})

test('a forged token, an unsigned one or none gets 400 and nothing is sent', async t => {
  const [issuer, forger] = await Promise.all([makeIssuer(), makeIssuer()])
  const { ask, witness } = await startGuarded(t, { policy: bySubject(await inFile(t, issuer.jwks)) })
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const unsigned = `Bearer ${part({ alg: 'none' })}.${part({ sub: 'alice' })}.`
  for (const options of [await sign(forger.privateKey, 'alice'), { headers: { Authorization: unsigned } }, { headers: { Authorization: 'Bearer rubbish' } }, {}]) {
    const answer = await ask('k', options)
    assert.equal(answer.status, 400)
    assert.equal(answer.json.code, 'scope-missing')
  }
  assert.equal(witness.seen.length, 0)
})

test('keys served at a URL verify tokens; while nobody serves them the answer is 503 and nothing is sent', async t => {
  const issuer = await makeIssuer()
  const server = createServer((_request, response) => { response.setHeader('Content-Type', 'application/json').end(issuer.jwks) })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const stop = async (): Promise<void> => { server.closeAllConnections(); server.close(); await once(server, 'close') }
  await stop()
  const { ask, witness } = await startGuarded(t, { policy: bySubject(`http://127.0.0.1:${port}/keys`) })
  const refused = await ask('k', await sign(issuer.privateKey, 'alice'))
  assert.equal(refused.status, 503)
  assert.equal(refused.json.code, 'scope-unavailable')
  assert.equal(refused.headers['retry-after'], '1')
  assert.equal(witness.seen.length, 0)
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.after(stop)
  assert.equal((await ask('k', await sign(issuer.privateKey, 'alice'))).status, 201)
  assert.equal((await ask('k', await sign(issuer.privateKey, 'alice'))).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('a key file that is not there yet is read once it is', async t => {
  const issuer = await makeIssuer()
  const path = await inFile(t, issuer.jwks)
  await rm(path)
  const { ask } = await startGuarded(t, { policy: bySubject(path) })
  assert.equal((await ask('k', await sign(issuer.privateKey, 'alice'))).json.code, 'scope-unavailable')
  await writeFile(path, issuer.jwks)
  assert.equal((await ask('k', await sign(issuer.privateKey, 'alice'))).status, 201)
})
