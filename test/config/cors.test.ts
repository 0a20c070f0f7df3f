/** The `cors` block: what an origin is, and what is a mistake. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changes } from '../../src/config/compare/changes.ts'
import { ConfigWorld, fileWith } from './world.ts'

test('origins are taken as browsers write them, and without the block there are none', (t) => {
  const world = new ConfigWorld(t)
  const cors = (block: string) => world.load(fileWith({ rest: block })).config.cors
  assert.equal(cors(''), null)
  assert.deepEqual(cors('cors: { origins: ["*"] }'), { origins: '*', credentials: false, maxAgeSeconds: 600 })
  assert.deepEqual(cors('cors: { origins: ["https://APP.example:443", "http://localhost:3000", "http://[::1]:80", "https://bücher.example", "Capacitor://localhost"], credentials: true, maxAge: 1h }'), {
    origins: new Set([
      'https://app.example', 'http://localhost:3000', 'http://[::1]', 'https://xn--bcher-kva.example',
      'capacitor://localhost'
    ]),
    credentials: true,
    maxAgeSeconds: 3600
  })
  assert.deepEqual(
    changes(world.load(fileWith()).config, world.load(fileWith({ rest: 'cors: { origins: ["*"] }' })).config).filter((name) =>
      name === 'cors'),
    ['cors']
  )
  assert.deepEqual(
    changes(
      world.load(fileWith({ rest: 'cors: { origins: ["https://a"] }' })).config,
      world.load(fileWith({ rest: 'cors: { origins: ["https://b"] }' })).config
    ),
    ['cors.origins']
  )
})

test('what is no origin is refused with what to write instead, and * with credentials', (t) => {
  const world = new ConfigWorld(t)
  const wrong = (origins: string, more = '') => world.complaints(fileWith({ rest: `cors: { origins: [${origins}]${more} }` }))
  for (const [origin, said] of [
    ['app.example', 'has no scheme; write https://app.example'],
    ['https://app.example/', 'has something after the host; write https://app.example'],
    ['https://app.example/app', 'has something after the host; write https://app.example'],
    ['https://app.example?x', 'has something after the host; write https://app.example'],
    ['https://*.example', 'has a wildcard, which browsers do not support; write each origin, or * alone'],
    ['https://user@app.example', 'has credentials in it; an origin is scheme, host and port'],
    ['null', 'cannot be null: every sandboxed page and every file has that origin'],
    ['https://', 'is no origin; write https://app.example or http://localhost:3000'],
    ['https://app.example:99999', 'is no origin; write https://app.example or http://localhost:3000'],
    ['https://a.example, https://b.example', 'has a space or a comma in it; write each origin as its own item']
  ] as const) assert.deepEqual(wrong(`"${origin}"`), [`cors.origins[0]: ${said}`])
  assert.match(wrong('"*"', ', credentials: true').join(), /^cors\.credentials: cannot be true with origins \["\*"\]/)
  assert.match(wrong('"*", "https://a.example"').join(), /^cors\.origins: has \* and others/)
  assert.equal(wrong('').length, 1)
  assert.equal(wrong('"https://a.example"', ', maxAge: 2d').length, 1)
})
