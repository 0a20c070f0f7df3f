import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printConfig } from '../../src/config/print.ts'
import { ConfigWorld, fileWith } from './world.ts'

const SECRETS = `admin: { token: hunter2-hunter2-hunter2 }
stores:
  postgres: { url: "postgres://u:hunter2@h/db?sslpassword=hunter2" }
  redis: { url: "rediss://:hunter2@h:6380/0" }`
const HEADERS = '3000", requestHeaders: { Authorization: hunter2, X-Api-Key: hunter2, X-Gateway: hunter2 } }'

test('no secret is printed, and everything else is', (t) => {
  const { effective } = new ConfigWorld(t).load(fileWith({ rest: SECRETS }).replace('3000" }', HEADERS))
  const text = printConfig(effective)
  assert.ok(!text.includes('hunter2'), text)
  for (const shown of ['postgres://u:***@h/db', 'rediss://:***@h:6380/0', 'X-Gateway: "***"', 'retention: 24h', 'mediaType']) {
    assert.ok(text.includes(shown), shown)
  }
})

test('what is printed is a configuration that means the same', (t) => {
  const world = new ConfigWorld(t)
  for (const policy of [
    '{ profile: relay, keep: { statuses: { 409: keep } } }',
    '{ fingerprint: none }',
    '{ fingerprint: { ignore: [/a, /b], headers: [X-A], query: unordered } }',
    '{ profile: relay, fingerprint: { headers: [X-A] } }',
    '{ fingerprint: { of: [body], only: [/a] } }'
  ]) {
    const first = world.load(fileWith({ policy }))
    const second = world.load(printConfig(first.effective))
    assert.deepEqual(second.config, first.config)
  }
})

test('overrides of the environment are in it', (t) => {
  const { effective } = new ConfigWorld(t).load(fileWith(), { ONCEWAY_LISTEN_PORT: '9999' })
  assert.match(printConfig(effective), /^listen:\n {2}host: 0\.0\.0\.0\n {2}port: 9999$/m)
})
