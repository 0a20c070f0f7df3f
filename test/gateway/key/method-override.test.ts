/** Method overrides: a request is guarded under either reading. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../../harness/call.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Witness } from '../../harness/witness.ts'

/** PATCH is guarded, and everything else passes. */
async function start (t: TestContext): Promise<{ readonly url: string, readonly witness: Witness }> {
  const witness = await startWitness((_seen, response) => { response.writeHead(201).end('made') })
  t.after(async () => { await witness.close() })
  const route = guardedRoute(witness.url)
  const { url } = await startGateway(t, {
    routes: [
      { ...route, match: { ...route.match, methods: ['PATCH'] } },
      { ...route, name: 'rest', match: { ...route.match, methods: [] }, idempotency: null }
    ]
  })
  return { url, witness }
}

const headers = (more: Record<string, string>) => ({ 'Idempotency-Key': 'k', 'Content-Type': 'application/json', ...more })

test('a route that guards PATCH guards a request that is one by an override, whatever it comes as', async (t) => {
  const OVERRIDES: ReadonlyArray<readonly [method: string, path: string, more: Record<string, string>]> = [
    ['POST', '/things', { 'X-HTTP-Method-Override': 'patch' }], ['POST', '/things?_method=PATCH', {}],
    ['GET', '/things', { 'X-HTTP-Method': 'PATCH' }], ['PUT', '/things', { 'X-Method-Override': 'garbage, PATCH' }]
  ]
  for (const [method, path, more] of OVERRIDES) {
    const { url, witness } = await start(t)
    const ask = async () => call(url, path, { method, headers: headers(more), ...(method === 'GET' ? {} : { body: '{}' }) })
    assert.equal((await ask()).headers['idempotency-status'], 'executed', path)
    assert.equal((await ask()).headers['idempotent-replayed'], 'true', path)
    assert.deepEqual(witness.seen.map((seen) => seen.method), [method])
  }
})

test('without an override, or with one that leads nowhere, the request goes as its method says', async (t) => {
  const { url, witness } = await start(t)
  for (const more of [{}, { 'X-HTTP-Method-Override': 'DELETE' }, { 'X-HTTP-Method-Override': '' }]) {
    assert.equal((await call(url, '/things', { body: '{}', headers: headers(more) })).headers['idempotency-status'], 'ignored')
  }
  assert.equal(witness.seen.length, 3)
})
