/** Methods of a guarded path that lead nowhere: said at the start and by `onceway check`, once for each route. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { methodWarnings } from '../../src/config/warnings.ts'
import { orphans } from '../../src/config/compare/orphaned-records.ts'
import { ConfigWorld } from './world.ts'

const GUARDED = '{ name: pay, match: { path: /pay/*, methods: [POST, PATCH] }, upstream: app, idempotency: { scope: shared } }'

test('what leads nowhere is named with what to write, and not where another route takes it', (t) => {
  const world = new ConfigWorld(t)
  const load = (routes: string) => world.load(`
version: 1
upstreams: { app: { url: "http://app" } }
routes: [${routes}]
`).config
  const lost = (routes: string): string[] => methodWarnings(load(routes).routes).map((sentence) =>
    /; (.*) of that path get 404/.exec(sentence)?.[1] ?? sentence)
  assert.deepEqual(lost(GUARDED), ['GET, HEAD, OPTIONS, PUT, DELETE'])
  assert.deepEqual(lost(`${GUARDED}, { match: { path: "/pay/*", methods: [GET, HEAD] }, upstream: app }`), ['OPTIONS, PUT, DELETE'])
  // Takes a part of the path only.
  assert.deepEqual(lost(`${GUARDED}, { match: { path: "/pay/health" }, upstream: app }`), ['GET, HEAD, OPTIONS, PUT, DELETE'])
  for (const more of [
    '{ match: { path: "/*" }, upstream: app }',
    '{ name: rest, match: { path: "/*" }, upstream: app, idempotency: { scope: shared } }'
  ]) {
    assert.deepEqual(lost(`${GUARDED}, ${more}`), [], more)
  }
  assert.deepEqual(lost(GUARDED.replace(', methods: [POST, PATCH]', '')), [])
  assert.match(
    methodWarnings(load(GUARDED).routes).join('\n'),
    /^Route pay takes POST, PATCH of \/pay\/\*; .*omit match\.methods, or add the route \{ match: \{ path: "\/pay\/\*" \}, upstream: app \} after it\.$/
  )
  // Whether the others pass is nothing that a record knows.
  for (const [old, now] of [
    [GUARDED, GUARDED.replace(', methods: [POST, PATCH]', '')],
    [GUARDED.replace(', methods: [POST, PATCH]', ''), GUARDED]
  ] as const) {
    assert.deepEqual(orphans(load(old), load(now)), [])
  }
})
