/** A client that a public generator makes of the OpenAPI document goes the way of an operator: search, look, resolve, next, audit. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createClient } from '@hey-api/openapi-ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { TOKENS, World } from './world.ts'

type Call = (options: {
  readonly client: unknown
  readonly path?: object
  readonly query?: object
  readonly body?: object
}) => Promise<{ readonly data?: Record<string, unknown>, readonly error?: Record<string, unknown>, readonly response: Response }>

type Operations = 'searchRecords' | 'showRecord' | 'probeRecord' | 'resolveRecord' | 'selectRecords' | 'changeRecords' | 'searchAudit'
type Generated = Readonly<Record<Operations, Call>>

const DOCUMENT = fileURLToPath(new URL('../../../schema/openapi.json', import.meta.url))

test('a generated client goes the guided way', async (t) => {
  const directory = makeDirectory('generated')
  t.after(() => { directory.remove() })
  const output = { path: join(directory.path, 'client'), module: { extension: '.ts' } }
  await createClient(
    { input: DOCUMENT, output, plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'], logs: { level: 'silent' } }
  )
  const load = async (name: string): Promise<unknown> => import(pathToFileURL(join(output.path, name)).href)
  const sdk = await load('sdk.gen.ts') as Generated
  const clients = await load('client/index.ts') as { createClient: (config: object) => unknown, createConfig: (config: object) => object }
  const world = await World.open(t)
  const client = clients.createClient(clients.createConfig({ baseUrl: `${world.url}/api/v1`, auth: () => TOKENS.operator }))
  for (let index = 0; index < 4; index++) {
    const claim = claimOf()
    await world.store.insert(claim)
    await world.store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
  }
  world.clock.nowMs++
  const { data: page } = await sdk.searchRecords({ client, query: { state: 'indeterminate', order: 'oldest', limit: 1 } })
  const [row] = page?.records as Array<{ id: string, owner: string, attempt: number }>
  assert.ok(row !== undefined && typeof page?.next === 'string')
  const { id, owner, attempt } = row
  const { data: record } = await sdk.showRecord({ client, path: { id } })
  assert.deepEqual([record?.changes, (record?.retry as { code: string }).code], [['resolve', 'release'], 'outcome-unknown'])
  const token = { owner, attempt, reason: 'in the ledger' }
  const { error: notAsked, response } = await sdk.probeRecord({ client, path: { id }, body: token })
  assert.deepEqual([response.status, notAsked?.code], [409, 'refused'])
  const { data: resolved } = await sdk.resolveRecord(
    { client, path: { id }, body: { ...token, status: 201, body: '{}', headers: [['Content-Type', 'application/json']] } }
  )
  assert.equal((resolved?.record as { state: string }).state, 'completed')
  const { data: selection } = await sdk.selectRecords({ client, body: { state: 'indeterminate' } })
  assert.equal(selection?.count, 3)
  const { data: step } = await sdk.changeRecords(
    { client, body: { token: selection?.token, action: 'release', reason: 'not in the ledger' } }
  )
  assert.deepEqual([step?.changed, step?.next], [3, null])
  const { data: audit } = await sdk.searchAudit({ client, query: { who: 'operator@example.com' } })
  assert.deepEqual((audit?.entries as Array<{ action: string }>).map(({ action }) => action), ['release', 'release', 'release', 'resolve'])
})
