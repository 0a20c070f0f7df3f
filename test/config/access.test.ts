import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ACCESS_DEFAULTS } from '../../src/config/config.ts'
import { ConfigWorld } from './world.ts'

const file = (log: string): string => `
version: 1
upstreams: { api: { url: "http://127.0.0.1:1" } }
routes: [{ match: { path: "/*" }, upstream: api }]
${log}
`

test('lines of what passes through are off, and have the fields that say nothing of a person', (t) => {
  assert.deepEqual(new ConfigWorld(t).load(file('')).config.log, { level: 'info', access: { sample: 0, fields: [...ACCESS_DEFAULTS] } })
})

test('a sample and fields are taken as they are written', (t) => {
  const { config } = new ConfigWorld(t).load(file('log: { access: { sample: 0.25, fields: [path, peer] } }'))
  assert.deepEqual(config.log.access, { sample: 0.25, fields: ['path', 'peer'] })
})

for (const [access, wrong] of [
  ['{ sample: 1.5 }', /log\.access\.sample/],
  ['{ sample: -1 }', /log\.access\.sample/],
  ['{ fields: [] }', /log\.access\.fields/],
  ['{ fields: [authorization] }', /log\.access\.fields/],
  ['{ fields: [query] }', /log\.access\.fields/],
  ['{ rate: 1 }', /log\.access\.rate/]
] as const) {
  test(`log.access ${access} is refused by name`, (t) => {
    assert.throws(() => new ConfigWorld(t).load(file(`log: { access: ${access} }`)), wrong)
  })
}
