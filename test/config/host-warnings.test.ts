/** A guard that names a host, where the same upstream can be asked by another one: said at the start and by `onceway check`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostWarnings } from '../../src/config/warnings.ts'
import { ConfigWorld } from './world.ts'

const GUARDED = '{ name: pay, match: { path: /pay, host: api.example }, upstream: app, idempotency: { scope: shared } }'
const CATCH_ALL = '{ name: rest, match: { path: "/*" }, upstream: app }'

test('it is told where another host leads to the same upstream, and nowhere else', (t) => {
  const world = new ConfigWorld(t)
  const warned = (routes: string, app = ''): string[] => hostWarnings(world.load(`
version: 1
upstreams: { app: { url: "http://app"${app} }, other: { url: "http://other" } }
routes: [${routes}]
`).config.routes)
  const [told, ...more] = warned(`${GUARDED}, ${CATCH_ALL}`)
  assert.deepEqual(more, [])
  assert.match(
    told ?? '',
    /^Route pay guards \/pay for the host api\.example only\. Route rest passes that path of every other host through/
  )
  for (const around of ['{ match: { path: /pay }, upstream: app }', '{ match: { path: /pay, methods: [PATCH] }, upstream: app }']) {
    assert.equal(warned(`${GUARDED}, ${around}`).length, 1, around)
  }
  for (const [routes, app] of [
    [GUARDED],
    [`${GUARDED}, ${CATCH_ALL}`, ', host: preserve'],
    [`${GUARDED}, { match: { path: "/*" }, upstream: other }`],
    [`${GUARDED}, { match: { path: "/*", methods: [GET] }, upstream: app }`],
    [`${GUARDED}, { match: { path: /else }, upstream: app }`],
    [`${GUARDED}, { match: { path: "/*", host: shop.example }, upstream: app }`],
    [`${GUARDED}, { name: any, match: { path: /pay }, upstream: app, idempotency: { scope: shared } }, ${CATCH_ALL}`],
    [`${GUARDED.replace(', host: api.example', '')}, ${CATCH_ALL}`]
  ] as const) assert.deepEqual(warned(routes, app), [], routes)
})
