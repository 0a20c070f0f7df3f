import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ISSUED_KEYS_PATH } from '../../src/core/key/issued-keys.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { startWitness } from '../harness/witness.ts'
import { fileOf, startReloadable } from './reload-world.ts'

test('a secret is turned while the gateway runs: old keys are good until their secret goes, and no secret is in any log', async (t) => {
  const secrets = makeDirectory('secrets')
  t.after(() => { secrets.remove() })
  const secretFile = (id: string): string => join(secrets.path, id)
  const SECRETS = { old: 'the old secret of thirty-two bytes', new: 'the new secret of thirty-two bytes' }
  for (const [id, secret] of Object.entries(SECRETS)) writeFileSync(secretFile(id), secret)
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const file = (...ids: string[]): string => fileOf({
    upstream: witness.url,
    idempotency: ', key: { issued: required }',
    more: `issuedKeys: { scope: public, lifetime: 1h, secrets: [${ids.map((id) => `{ id: ${id}, secretFile: ${JSON.stringify(secretFile(id))} }`).join(', ')}] }`
  })
  const gateway = await startReloadable(t, file('old'))
  const authorization = { Authorization: 'Bearer alice' }
  const issue = async (): Promise<string> => (await call(gateway.url, ISSUED_KEYS_PATH, { headers: authorization })).json.key
  const use = async (key: string): Promise<Called> => call(gateway.url, '/things', {
    headers: { ...authorization, 'Idempotency-Key': key },
    body: 'same'
  })

  const [used, kept] = [await issue(), await issue()]
  const first = await use(used)
  assert.equal(first.headers['idempotency-status'], 'executed')

  assert.deepEqual((await gateway.reload(file('new', 'old'))).changed, ['issuedKeys.secrets'])
  const fresh = await issue()
  assert.deepEqual([used, fresh].map((key) => key.split('.')[1]), ['old', 'new'])
  assert.equal((await use(used)).text, first.text)
  assert.equal((await use(kept)).headers['idempotency-status'], 'executed')
  assert.equal((await use(fresh)).headers['idempotency-status'], 'executed')

  const last = await gateway.reload(file('new'))
  assert.equal(last.level, 'info')
  assert.equal((await use(used)).json.code, 'key-invalid')
  assert.equal((await use(fresh)).headers['idempotent-replayed'], 'true')
  await gateway.logged(({ msg }) => msg?.includes('keys that secret old has signed are refused now') === true)
  assert.equal(witness.seen.length, 3)

  // The request lines come a moment later than the answers.
  await gateway.logged(({ outcome, reason }) => outcome === 'key-invalid' && reason === 'KEY_FORGED')
  const line = await gateway.logged(({ route, outcome }) => route === ISSUED_KEYS_PATH && outcome === 'issued')
  assert.equal(line.status, 201)
  for (const secret of [...Object.values(SECRETS), used, kept, fresh]) assert.ok(!gateway.output().includes(secret))
  const metrics = (await call(gateway.adminUrl, '/metrics', { method: 'GET' })).text
  assert.match(metrics, /^onceway_requests_total\{route="\/\.well-known\/idempotency-keys",outcome="issued"\} 3$/m)
})
