import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { RequestLine } from '../src/ports/telemetry.ts'

const SRC = fileURLToPath(new URL('../src/', import.meta.url))
const TESTS = fileURLToPath(new URL('./', import.meta.url))

/** A layer's files that are in none of its rooms. */
const TOP = ''

/** Which layers a layer may import from, beside itself. Imports go down only. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  'version.ts': [],
  'regular-file.ts': [],
  'unordered-list.ts': [],
  ports: ['core'],
  routing: ['core'],
  gateway: ['unordered-list.ts', 'core', 'ports'],
  upstream: ['core', 'ports'],
  identity: ['config', 'core', 'ports'],
  store: ['regular-file.ts', 'unordered-list.ts', 'core', 'ports'],
  background: ['core', 'gateway', 'ports'],
  telemetry: ['config', 'ports', 'version.ts'],
  config: ['regular-file.ts', 'core', 'routing', 'ports'],
  operator: ['config', 'core', 'gateway', 'ports', 'routing'],
  http: ['unordered-list.ts', 'config', 'core', 'gateway', 'identity', 'operator', 'ports', 'routing'],
  demo: [],
  process: [
    'background', 'config', 'core', 'gateway', 'http', 'identity', 'operator', 'ports', 'routing', 'store', 'telemetry',
    'unordered-list.ts', 'upstream', 'version.ts'
  ],
  cli: ['config', 'core', 'demo', 'http', 'operator', 'ports', 'process', 'store', 'version.ts'],
  'main.ts': ['cli']
}

/** The rooms of a layer from the bottom up: a room imports from those before it alone. Files beside the rooms are on top. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  core: [
    'json', 'record', 'policy', 'limits', 'headers', 'key', 'fingerprint', 'forward', 'scope', 'probe', 'protocol', 'inbox', 'drop',
    'operator', 'cells'
  ],
  gateway: [
    'shared', 'limits', 'scope', 'body', 'key', 'issued-keys', 'fingerprint', 'authorise', 'execution', 'claim', 'forward', 'settle',
    'inbox', 'drop', 'probe'
  ],
  store: ['shared', 'memory', 'sqlite', 'postgres', 'redis'],
  config: ['read', 'routes', TOP, 'compare'],
  operator: ['shared', 'explain', 'records', 'inbox', 'audit', 'overview', TOP],
  http: [
    'shared', 'respond', 'connection', 'endpoints', 'pass', 'sign-in', 'api',
    'console/shell', 'console/audit', 'console/records', 'console/inbox', 'console/gateway', 'console'
  ],
  process: [TOP, 'cluster']
}

/**
 * The phases of a guarded request, in their order. Each is a file or a room, a field of the request's line in the log, a folder of tests
 * and a heading of ARCHITECTURE.md.
 */
const PHASES: ReadonlyArray<{ phase: string, at: string, field: keyof RequestLine, tests: string }> = [
  { phase: 'match', at: 'routing/match.ts', field: 'route', tests: 'routing' },
  { phase: 'key', at: 'gateway/key', field: 'keyFrom', tests: 'gateway/key' },
  { phase: 'scope', at: 'gateway/scope', field: 'scopeMs', tests: 'gateway/scope' },
  { phase: 'body', at: 'gateway/body', field: 'bodyMs', tests: 'gateway/body' },
  { phase: 'fingerprint', at: 'gateway/fingerprint', field: 'fingerprintMs', tests: 'gateway/fingerprint' },
  { phase: 'claim', at: 'gateway/claim', field: 'claimMs', tests: 'gateway/claim' },
  { phase: 'forward', at: 'gateway/forward', field: 'upstreamMs', tests: 'gateway/forward' },
  { phase: 'settle', at: 'gateway/settle', field: 'settleMs', tests: 'gateway/settle' },
  { phase: 'respond', at: 'http/respond', field: 'status', tests: 'http/respond' }
]

/** Libraries that only one layer knows. */
const ONLY_IN: Readonly<Record<string, readonly string[]>> = {
  fastify: ['http', 'process'],
  undici: ['upstream', 'identity'],
  'openid-client': ['identity'],
  '@fastify/cookie': ['http'],
  '@fastify/rate-limit': ['http'],
  preact: ['http'],
  'preact-render-to-string': ['http'],
  pg: ['store'],
  ioredis: ['store'],
  'node:sqlite': ['store'],
  jose: ['identity'],
  pino: ['telemetry'],
  'sonic-boom': ['telemetry'],
  'prom-client': ['telemetry'],
  'node:cluster': ['process'],
  yaml: ['config', 'cli']
}

/** What the pure layer may ask of Node: a hash is a function, a clock is not. */
const PURE_MAY = ['node:crypto', 'node:buffer']

interface Import { readonly file: string, readonly layer: string, readonly from: string }

function imports (): Import[] {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  return files.flatMap((file) => {
    const text = readFileSync(join(SRC, file), 'utf8')
    const found = text.matchAll(/^(?:import|export)[^'"]*?from '([^']+)'|^import '([^']+)'|import\('([^']+)'\)/gm)
    return Array.from(found, ([, a, b, c]) => ({ file, layer: layerOf(file), from: (a ?? b ?? c) as string }))
  })
}

/** Those of files in src, types included. */
function own (): Array<Import & { readonly to: string }> {
  return imports().filter(({ from }) => from.startsWith('.'))
    .map((found) => ({ ...found, to: relative(SRC, join(SRC, found.file, '..', found.from)) }))
    .filter(({ to }) => !to.startsWith('..'))
}

function layerOf (file: string): string {
  return file.split('/')[0] as string
}

function roomOf (file: string): string {
  return file.split('/').slice(1, -1).join('/')
}

/** What leads back to itself, as one list for each circle that was met. */
function circles (edges: Iterable<readonly [string, string]>): string[][] {
  const next = new Map<string, Set<string>>()
  for (const [from, to] of edges) {
    if (from !== to) next.set(from, (next.get(from) ?? new Set()).add(to))
  }
  const found: string[][] = []
  const done = new Set<string>()
  const walk = (at: string, way: readonly string[]): void => {
    const begun = way.indexOf(at)
    if (begun !== -1) found.push([...way.slice(begun), at])
    if (begun !== -1 || done.has(at)) return
    for (const to of next.get(at) ?? []) walk(to, [...way, at])
    done.add(at)
  }
  for (const from of next.keys()) walk(from, [])
  return found
}

test('imports go down only, as ARCHITECTURE.md says', () => {
  const wrong = own().filter(({ layer, to }) => layerOf(to) !== layer && !(MAY_IMPORT[layer] ?? []).includes(layerOf(to)))
  assert.deepEqual(wrong.map(({ file, to }) => `${file} -> ${to}`), [])
})

test('inside a layer they go down too: a room imports from those before it', () => {
  const wrong = own().filter(({ layer, file, to }) => {
    if (layerOf(to) !== layer || roomOf(file) === roomOf(to)) return false
    const rooms = roomsOf(layer)
    return rooms.indexOf(roomOf(to)) > rooms.indexOf(roomOf(file))
  })
  assert.deepEqual(wrong.map(({ file, to }) => `${file} -> ${to}`), [])
})

test('every layer and every room has its place', () => {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  const missing = files.filter((file) => !(layerOf(file) in MAY_IMPORT) || !roomsOf(layerOf(file)).includes(roomOf(file)))
  assert.deepEqual(missing, [])
  const rooms = Object.entries(ROOMS).flatMap(([layer, names]) => names.map((room) => join(layer, room)))
  assert.deepEqual(rooms.filter((at) => !existsSync(join(SRC, at))), [])
})

function roomsOf (layer: string): readonly string[] {
  const rooms = ROOMS[layer] ?? []
  return rooms.includes(TOP) ? rooms : [...rooms, TOP]
}

test('nothing leads back to where it came from: no file and no room, types included', () => {
  assert.deepEqual(circles([['a', 'b'], ['b', 'c'], ['c', 'a'], ['a', 'd']]), [['a', 'b', 'c', 'a']])
  assert.deepEqual(circles(own().map(({ file, to }) => [file, to] as const)), [])
  const room = (file: string): string => `${layerOf(file)}/${roomOf(file)}`
  assert.deepEqual(circles(own().map(({ file, to }) => [room(file), room(to)] as const)), [])
})

test('each phase of a request has its place, its field in the log, its tests and its heading, under one name', () => {
  for (const { at, tests } of PHASES) {
    assert.ok(existsSync(join(SRC, at)), at)
    assert.ok(readdirSync(join(TESTS, tests)).some((file) => file.endsWith('.test.ts')), tests)
  }
  const line = readFileSync(join(SRC, 'telemetry/log.ts'), 'utf8')
  for (const { field } of PHASES) assert.match(line, new RegExp(`\\bline\\.${field}\\b`), field)
  const page = readFileSync(join(TESTS, '../ARCHITECTURE.md'), 'utf8')
  const headings = Array.from(page.matchAll(/^### `(\w+)`/gm), ([, name]) => name)
  assert.deepEqual(headings, PHASES.map(({ phase }) => phase))
})

test('the core is pure: it asks Node for nothing but hashes, and no library at all', () => {
  const impure = imports().filter(({ layer, from }) => layer === 'core' && !from.startsWith('.') && !PURE_MAY.includes(from))
  assert.deepEqual(impure.map(({ file, from }) => `${file} -> ${from}`), [])
  for (const file of readdirSync(join(SRC, 'core'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))) {
    const code = readFileSync(join(SRC, 'core', file), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
    assert.doesNotMatch(
      code,
      /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bprocess\.|\bsetTimeout\b|\bperformance\.|randomBytes|randomUUID/,
      file
    )
  }
})

test('only its own layer knows a library', () => {
  const wrong = imports().filter(({ layer, from }) => from in ONLY_IN && !(ONLY_IN[from] as readonly string[]).includes(layer))
  assert.deepEqual(wrong.map(({ file, from }) => `${file} -> ${from}`), [])
})

test('drivers do not know each other', () => {
  const drivers = new Set(['memory', 'postgres', 'redis', 'sqlite'])
  const wrong = own().filter(({ layer, file, to }) =>
    layer === 'store' && drivers.has(roomOf(file)) && drivers.has(roomOf(to)) && roomOf(file) !== roomOf(to))
  assert.deepEqual(wrong.map(({ file, to }) => `${file} -> ${to}`), [])
})
