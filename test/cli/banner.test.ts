import assert from 'node:assert/strict'
import { test } from 'node:test'
import { banner } from '../../src/banner.ts'
import { ConfigWorld, fileWith } from '../config/world.ts'

test('the start says of every route which way its requests go', (t) => {
  const world = new ConfigWorld(t)
  for (const [policy, said] of [
    ['{}', 'guarded, profile api, scope credential, unknown: hold'],
    ['{ mode: inbox, profile: relay, key: { required: true } }', 'inbox, profile relay, scope credential, unknown: retry, key required'],
    ['{ mode: drop, profile: relay }', 'drop, profile relay, scope credential'],
    ['{ async: allowed }', 'guarded, inbox for those who ask, profile api, scope credential, unknown: hold']
  ] as const) {
    const lines = banner(world.load(fileWith({ policy })).config, ['sqlite'], 'http://a', 'http://b')
    assert.equal(lines.at(-1), `routes    charges: POST,PATCH /v1/charges -> http://127.0.0.1:3000, ${said}`)
  }
})
