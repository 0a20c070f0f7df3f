/** The configurations by which gateways differ: a gateway takes each of them, at its start and at a reload. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { restartOnly } from '../../src/config/compare/changes.ts'
import { loadConfig } from '../../src/config/load.ts'
import { makeDirectory } from '../harness/directory.ts'
import { DIFFERING_ROUTES, VARIANTS, variantOf } from './differ.ts'
import { DIFFERING } from './run.ts'

test('a gateway takes each of them, whichever it has', (t) => {
  const directory = makeDirectory('differ')
  t.after(() => { directory.remove() })
  const texts = DIFFERING.configsOf({
    database: 'postgres://127.0.0.1:1/db',
    redis: 'url: "redis://127.0.0.1:1/0"',
    upstream: 'http://127.0.0.1:1',
    connections: 6
  })
  const configs = texts.map((text, number) => {
    const file = join(directory.path, `${number}.yaml`)
    writeFileSync(file, text)
    return loadConfig(file, { env: {} })
  })
  assert.equal(configs.length, VARIANTS.length)
  for (const running of configs) {
    const shortestMs = Math.min(...running.routes.flatMap(({ idempotency }) => idempotency?.leaseMs ?? []))
    for (const next of configs) assert.deepEqual(restartOnly(running, next, shortestMs), [])
    assert.deepEqual(running.routes.map(({ name }) => name), DIFFERING_ROUTES.map(({ name }) => name))
  }
  assert.deepEqual(
    new Set(configs.map(({ routes }) => routes.find(({ name }) => name === 'switch')?.idempotency?.inboxFor === 'all')),
    new Set([true, false])
  )
})

test('every one of them comes', () => {
  assert.deepEqual([0, 0.3, 0.6, 0.9, 1].map(variantOf), [0, 1, 2, 3, 3])
})
