import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const SRC = fileURLToPath(new URL('../src/', import.meta.url))

/** Which rooms a room may import from, beside itself. Imports go down only. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  'errors.ts': [],
  'unordered-list.ts': [],
  'version.ts': [],
  'proxied.ts': [],
  'telling.ts': ['core'],
  'inbox.ts': ['core'],
  'registry.ts': ['core'],
  'pass-through.ts': ['core'],
  'record-counts.ts': [],
  'ports.ts': ['core', 'record-counts.ts', 'inbox.ts', 'pass-through.ts', 'registry.ts', 'telling.ts'],
  'clock.ts': ['unordered-list.ts', 'ports.ts'],
  routing: ['core'],
  gateway: ['unordered-list.ts', 'core', 'ports.ts', 'proxied.ts', 'errors.ts'],
  upstream: ['core', 'ports.ts', 'errors.ts'],
  identity: ['core', 'ports.ts'],
  store: ['unordered-list.ts', 'core', 'ports.ts', 'proxied.ts', 'errors.ts'],
  background: ['core', 'errors.ts', 'gateway', 'ports.ts'],
  telemetry: ['config', 'ports.ts', 'version.ts'],
  config: ['core', 'routing', 'errors.ts'],
  http: ['unordered-list.ts', 'core', 'errors.ts', 'gateway', 'ports.ts', 'routing'],
  demo: [],
  'banner.ts': ['config', 'core', 'version.ts'],
  'modes.ts': ['gateway'],
  'stores.ts': ['config', 'core', 'store', 'ports.ts', 'errors.ts'],
  'reload.ts': ['config', 'errors.ts', 'ports.ts'],
  'app.ts': [
    'background', 'banner.ts', 'clock.ts', 'config', 'core', 'errors.ts', 'gateway', 'http', 'identity', 'modes.ts',
    'ports.ts', 'reload.ts', 'routing', 'stores.ts', 'telemetry', 'upstream'
  ],
  workers: ['app.ts', 'banner.ts', 'clock.ts', 'config', 'core', 'errors.ts', 'http', 'ports.ts', 'reload.ts', 'telemetry'],
  cli: ['app.ts', 'config', 'core', 'demo', 'errors.ts', 'ports.ts', 'store', 'telemetry', 'version.ts', 'clock.ts', 'http', 'workers'],
  'main.ts': ['cli']
}

/** Libraries that only one room knows. */
const ONLY_IN: Readonly<Record<string, readonly string[]>> = {
  fastify: ['http', 'app.ts'],
  undici: ['upstream'],
  pg: ['store'],
  ioredis: ['store'],
  'node:sqlite': ['store'],
  jose: ['identity'],
  pino: ['telemetry'],
  'prom-client': ['telemetry'],
  'node:cluster': ['workers'],
  yaml: ['config', 'cli']
}

/** What a pure room may ask of Node: a hash is a function, a clock is not. */
const PURE_MAY = ['node:crypto', 'node:buffer']

interface Import { readonly file: string, readonly room: string, readonly from: string }

function imports (): Import[] {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  return files.flatMap((file) => {
    const text = readFileSync(join(SRC, file), 'utf8')
    const found = text.matchAll(/^(?:import|export)[^'"]*?from '([^']+)'|^import '([^']+)'|import\('([^']+)'\)/gm)
    return Array.from(found, ([, a, b, c]) => ({ file, room: roomOf(file), from: (a ?? b ?? c) as string }))
  })
}

function roomOf (file: string): string {
  return file.split('/')[0] as string
}

function target (found: Import): string {
  return relative(SRC, join(SRC, found.file, '..', found.from))
}

test('imports go down only, as ARCHITECTURE.md says', () => {
  const wrong = imports().filter((found) => found.from.startsWith('.')).filter((found) => {
    const to = roomOf(target(found))
    return to !== found.room && !target(found).startsWith('..') && !(MAY_IMPORT[found.room] ?? []).includes(to)
  })
  assert.deepEqual(wrong.map((found) => `${found.file} -> ${target(found)}`), [])
})

test('every room has its line in the table', () => {
  const rooms = new Set(imports().map(({ room }) => room))
  assert.deepEqual(Array.from(rooms).filter((room) => !(room in MAY_IMPORT)), [])
})

test('the core is pure: it asks Node for nothing but hashes, and no library at all', () => {
  const impure = imports().filter(({ room, from }) => room === 'core' && !from.startsWith('.') && !PURE_MAY.includes(from))
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

test('only its own room knows a library', () => {
  const wrong = imports().filter(({ room, from }) => from in ONLY_IN && !(ONLY_IN[from] as readonly string[]).includes(room))
  assert.deepEqual(wrong.map(({ file, from }) => `${file} -> ${from}`), [])
})

test('drivers do not know each other', () => {
  const drivers = new Set(['postgres', 'redis', 'sqlite'])
  const wrong = imports().filter((found) => found.room === 'store').filter((found) => {
    const [, own] = found.file.split('/')
    const [room, other] = target(found).split('/')
    return room === 'store' && drivers.has(own as string) && drivers.has(other as string) && own !== other
  })
  assert.deepEqual(wrong.map((found) => `${found.file} -> ${target(found)}`), [])
})
