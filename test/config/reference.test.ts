import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Ajv } from 'ajv'
import { problemDocs } from '../../scripts/problem-docs.ts'
import { referenceText, schemaText } from '../../src/config/reference.ts'
import { ConfigWorld } from './world.ts'

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const ENV = { DATABASE_URL: 'postgres://u:p@h/db', REDIS_URL: 'redis://h' }

test('docs/configuration.md and the JSON Schema are what the schema says; else run npm run generate', () => {
  assert.equal(read('docs/configuration.md'), referenceText(read('scripts/configuration-head.md'), read('scripts/configuration-example.yaml')))
  assert.equal(read('schema/onceway.schema.json'), schemaText())
})

test('the pages of problems say what docs/http.md says; else run npm run generate', () => {
  assert.equal(read('src/core/problem-docs.ts'), problemDocs(read('docs/http.md')))
})

test('the example of the documentation is right', (t) => {
  const { config } = new ConfigWorld(t).load(read('scripts/configuration-example.yaml'), ENV)
  assert.deepEqual(config.routes.map(({ name, idempotency }) => [name, idempotency?.profile]), [['charges', 'api'], ['webhooks', 'relay'], ['/*', undefined]])
})

test('an editor with the JSON Schema accepts what check accepts and refuses an unknown key', () => {
  const { $schema: _, ...schema } = JSON.parse(schemaText()) as { $schema: string }
  const validate = new Ajv({ strict: false }).compile(schema)
  const file = { version: 1, upstreams: { a: { url: 'http://h' } }, routes: [{ match: { path: '/*' }, upstream: 'a', idempotency: { fingerprint: 'none', scope: ['header:X'] } }] }
  assert.ok(validate(file))
  assert.ok(!validate({ ...file, lisen: {} }))
})

test('every setting has a description', () => {
  const rows = read('docs/configuration.md').split('\n').filter((line) => line.startsWith('| `'))
  assert.ok(rows.length > 60)
  for (const row of rows) assert.ok((row.split(' | ').at(-1) ?? '').length > 5, row)
})
