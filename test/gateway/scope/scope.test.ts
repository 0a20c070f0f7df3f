import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { call } from '../../harness/call.ts'
import { countingMeter, startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'

/** The default of a configuration file, which has no anonymous scope. */
const AS_IN_A_FILE = { scope: { kind: 'credential', anonymous: false, cookies: 'refuse' } } as const

async function executions ({ ask, witness }: Guarded, callers: ReadonlyArray<Record<string, string>>): Promise<number> {
  for (const headers of callers) assert.equal((await ask('same-key', { headers })).status, 201)
  return witness.seen.length
}

test('the same key of two bearer tokens is two keys', async (t) => {
  const world = await startGuarded(t)
  assert.equal(await executions(world, [{ Authorization: 'Bearer alice' }, { Authorization: 'Bearer bob' }]), 2)
  const again = await world.ask('same-key', { headers: { Authorization: 'Bearer alice' } })
  assert.equal(again.json.id, 1)
})

test('two callers that share a connection, as behind a proxy, are two callers', async (t) => {
  const world = await startGuarded(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => { agent.destroy() })
  const ids: unknown[] = []
  for (const token of ['alice', 'bob', 'bob', 'alice', 'carol']) {
    const answer = await call(world.url, '/things', {
      agent,
      headers: { 'Idempotency-Key': 'same-key', Authorization: `Bearer ${token}` },
      body: 'one'
    })
    ids.push(answer.json.id)
  }
  assert.deepEqual(ids, [1, 2, 2, 1, 3])
  const keyless = await call(world.url, '/things', { agent, headers: { 'Idempotency-Key': 'same-key' }, body: 'one' })
  assert.equal(keyless.json.id, 4, 'nor does who shows no credential inherit the last one')
})

test('rules 1: one AWS access key is one caller, however the signature differs', async (t) => {
  const world = await startGuarded(t, { rules: 1 })
  const signed = (date: string, signature: string) => ({
    Authorization:
      `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/${date}/eu-west-1/execute-api/aws4_request, SignedHeaders=host, Signature=${signature}`
  })
  assert.equal(await executions(world, [signed('20260101', 'aaaa'), signed('20260102', 'bbbb')]), 1)
  assert.equal(
    await executions(world, [{
      Authorization: 'AWS4-HMAC-SHA256 Credential=OTHER/20260101/eu-west-1/execute-api/aws4_request, SignedHeaders=host, Signature=aaaa'
    }]),
    2
  )
})

test('an API key is a caller, and not the same as a bearer token with its text', async (t) => {
  const world = await startGuarded(t)
  assert.equal(await executions(world, [{ 'X-Api-Key': 'k' }, { 'X-Api-Key': 'k' }, { Authorization: 'Bearer k' }, {}]), 3)
})

test('a request with nothing but a cookie gets 400 and is told what to configure', async (t) => {
  const { ask, witness } = await startGuarded(t)
  const answer = await ask('k', { headers: { Cookie: 'session=SECRET' } })
  assert.equal(answer.status, 400)
  assert.equal(answer.json.code, 'scope-missing')
  assert.match(answer.json.detail, /configure the scope/i)
  assert.ok(!answer.text.includes('SECRET'))
  assert.equal(witness.seen.length, 0)
})

test('a request without any credential is refused where nobody asked for an anonymous scope', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: AS_IN_A_FILE })
  const answer = await ask('k')
  assert.equal(answer.status, 400)
  assert.equal(answer.json.code, 'scope-missing')
  assert.equal(witness.seen.length, 0)
  assert.equal((await ask('k', { headers: { Authorization: 'Bearer alice' } })).status, 201)
})

test('a scope of header and cookie parts needs all of them', async (t) => {
  const parts = [{ kind: 'header', name: 'X-Tenant' }, { kind: 'cookie', name: 'user' }] as const
  const world = await startGuarded(t, { policy: { scope: { kind: 'parts', parts } } })
  assert.equal((await world.ask('k', { headers: { 'X-Tenant': 'a' } })).json.code, 'scope-missing')
  const callers = [
    { 'X-Tenant': 'a', Cookie: 'user=1' },
    { 'X-Tenant': 'a', Cookie: 'other=9; user=1' },
    { 'X-Tenant': 'a', Cookie: 'user=2' },
    { 'X-Tenant': 'b', Cookie: 'user=1' }
  ]
  assert.equal(await executions(world, callers), 3)
})

test('the same key and payload under another credential is counted as a split scope', async (t) => {
  const meter = countingMeter()
  const world = await startGuarded(t, { world: { meter } })
  await executions(world, [{ Authorization: 'Bearer a' }, { Authorization: 'Bearer a' }])
  assert.equal(meter.counts.get('scopeSplit'), undefined)
  await executions(world, [{ Authorization: 'Bearer rotated' }])
  assert.equal(meter.counts.get('scopeSplit'), 1)
})
