/* eslint no-template-curly-in-string: "off" -- the configuration has variables of its own in its strings */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { load } from 'js-yaml'
import { presetsPage } from '../../scripts/presets.ts'
import { problemDocs } from '../../scripts/problem-docs.ts'
import { referenceText, schemaText } from '../../src/config/reference.ts'
import { say } from '../cli/world.ts'
import { ConfigWorld, fileWith } from './world.ts'

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const ENV = { DATABASE_URL: 'postgres://u:p@h/db', REDIS_URL: 'redis://h' }

test('docs/reference/configuration.md and the JSON Schema are what the schema says; else run npm run generate', () => {
  assert.equal(
    read('docs/reference/configuration.md'),
    referenceText(read('scripts/configuration-head.md'), read('scripts/configuration-example.yaml'))
  )
  assert.equal(read('schema/onceway.schema.json'), schemaText())
})

test('the pages of problems say what docs/reference/http.md says; else run npm run generate', () => {
  assert.equal(read('src/core/protocol/problem-docs.ts'), problemDocs(read('docs/reference/http.md')))
})

test('docs/reference/presets.md has the presets of the sources; else run npm run generate', () => {
  assert.equal(read('docs/reference/presets.md'), presetsPage())
})

test('the example of the documentation is right', (t) => {
  const { config } = new ConfigWorld(t).load(read('scripts/configuration-example.yaml'), ENV)
  assert.deepEqual(config.routes.map(({ name, idempotency }) => [name, idempotency?.profile]), [
    ['charges', 'api'],
    ['webhooks', 'relay'],
    ['/*', undefined]
  ])
})

/** Every block of YAML in the documents that is a whole configuration. */
function wholeFiles (): Array<[page: string, text: string]> {
  const pages = [
    'README.md',
    ...readdirSync(new URL('../../docs', import.meta.url), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`)
  ]
  return pages.flatMap((page) => Array.from(read(page).matchAll(/```yaml\n([\s\S]*?)```/g), ([, text]): [string, string] => [
    page,
    text ?? ''
  ]))
    .filter(([, text]) => /^version: 1$/m.test(text) && /^routes:\n/m.test(text) && /^ {2}- /m.test(text))
}

test('every whole configuration in the documents is YAML for any program, and right by the JSON Schema', () => {
  const validate = new Ajv2020({ strict: true, allErrors: true }).compile(JSON.parse(schemaText()) as object)
  assert.ok(wholeFiles().length > 5)
  for (const [page, text] of wholeFiles()) assert.ok(validate(load(text)), `${page}: ${JSON.stringify(validate.errors)}`)
})

test('the JSON Schema takes a reference to the environment wherever one is replaced, and in the place of no map or list', () => {
  const validate = new Ajv2020({ strict: true }).compile(JSON.parse(schemaText()) as object)
  const reference = (more: string): string => fileWith({
    policy: '{ profile: "${P:-api}", lease: "${L}s", retryHints: "${H}", keep: { statuses: { 409: "${S}" } }, fingerprint: { of: ["${F}"] }, key: { from: ["${K}"] }, verify: { scheme: "${V}", secret: "${T}" } }',
    rest: `listen: { port: "\${PORT}" }\nworkers: "\${W:-auto}"\nlimits: { share: "\${SHARE}" }\nadmin: { token: "\${T}" }\n${more}`
  }).replace('version: 1', 'version: "${VERSION:-1}"')
  assert.ok(validate(load(reference(''))), JSON.stringify(validate.errors))
  for (const wrong of [
    'drain: "${D}"', 'trustProxies: "${D}"', 'log: { level: loud }', 'dataDir: ""', 'log: { level: "$LEVEL" }',
    'log: { level: "${9}" }'
  ]) {
    assert.ok(!validate(load(reference(wrong))), wrong)
  }
})

test('the JSON Schema has a name of its own and no address, and `onceway schema` prints it', async () => {
  assert.equal((JSON.parse(schemaText()) as { $id: string }).$id, 'urn:onceway:configuration:1')
  assert.deepEqual(await say(['schema']), { exitCode: 0, out: schemaText().trimEnd(), err: '' })
})

test('an editor with the JSON Schema accepts what check accepts and refuses an unknown key', () => {
  const { $schema: _, ...schema } = JSON.parse(schemaText()) as { $schema: string }
  const validate = new Ajv({ strict: false }).compile(schema)
  const file = {
    version: 1,
    upstreams: { a: { url: 'http://h' } },
    routes: [{ match: { path: '/*' }, upstream: 'a', idempotency: { fingerprint: 'none', scope: ['header:X'] } }]
  }
  assert.ok(validate(file))
  assert.ok(!validate({ ...file, lisen: {} }))
})

test('every setting has a description', () => {
  const rows = read('docs/reference/configuration.md').split('\n').filter((line) => line.startsWith('| `'))
  assert.ok(rows.length > 60)
  for (const row of rows) assert.ok((row.split(' | ').at(-1) ?? '').length > 5, row)
})
