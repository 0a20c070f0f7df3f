/** What the primary sends to its workers is cloned on its way. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PRESETS } from '../../src/core/key/presets.ts'
import { receivedConfig, sentConfig } from '../../src/process/cluster/worker-protocol.ts'
import { ConfigWorld } from '../config/world.ts'

test('a configuration with any preset arrives as it was sent; it ended the primary, at the start and at a reload', (t) => {
  const world = new ConfigWorld(t)
  for (const preset of PRESETS.keys()) {
    const { config } = world.load(`
version: 1
upstreams: { it: { url: "http://127.0.0.1:1" } }
routes:
  - { name: hooks, match: { path: /hooks }, upstream: it, idempotency: { profile: relay, key: { from: ${preset} } } }
  - { match: { path: "/*" }, upstream: it }
`)
    assert.deepEqual(receivedConfig(structuredClone(sentConfig(config))), config, preset)
  }
})
