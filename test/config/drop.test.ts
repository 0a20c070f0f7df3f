/** `mode: drop`: what it means where little is said, what is refused, and what `onceway check` has to say of what is right. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkCommand } from '../../src/cli/check.ts'
import { orphans } from '../../src/config/compare/orphaned-records.ts'
import { FILTER_BYTES_MAX, filterBytes } from '../../src/core/drop/bloom.ts'
import { ConfigWorld, fileWith } from './world.ts'

const ON_REDIS = 'stores: { postgres: { url: "postgres://db/app" }, redis: { url: "redis://r:6379" } }'

function dropOf (world: ConfigWorld, policy: string, rest = '') {
  return world.load(fileWith({ policy, rest })).config.routes[0]?.idempotency?.drop
}

test('the mode alone is enough: in the database, for an hour, marked when it is done, duplicates get an empty 200', (t) => {
  const world = new ConfigWorld(t)
  assert.deepEqual(dropOf(world, '{ mode: drop }'), {
    store: { kind: 'database' },
    windowMs: 3_600_000,
    mark: 'after',
    onDuplicate: 'drop',
    status: 200
  })
  const policy = world.load(fileWith({ policy: '{ mode: drop, profile: relay }' })).config.routes[0]?.idempotency
  assert.deepEqual(policy?.fingerprint, { of: [], body: 'none' })
  assert.deepEqual(policy.inFlight, { waitMs: 3_000, status: 503 })
  assert.equal(dropOf(world, '{}'), null)
})

test('everything can be said otherwise, and what a store needs has a default of its own', (t) => {
  const world = new ConfigWorld(t)
  assert.deepEqual(
    dropOf(world, '{ mode: drop, drop: { store: redis, window: 5m, mark: before, onDuplicate: flag, status: 204 } }', ON_REDIS),
    { store: { kind: 'redis' }, windowMs: 300_000, mark: 'before', onDuplicate: 'flag', status: 204 }
  )
  assert.deepEqual(dropOf(world, '{ mode: drop, drop: { store: memory } }')?.store, { kind: 'memory', capacity: 100_000 })
  assert.deepEqual(dropOf(world, '{ mode: drop, drop: { store: bloom } }')?.store, { kind: 'bloom', capacity: 1_000_000, errorRate: 0.001 })
  assert.deepEqual(dropOf(world, '{ mode: drop, drop: { store: bloom, capacity: 10, errorRate: 0.1 } }')?.store, {
    kind: 'bloom',
    capacity: 10,
    errorRate: 0.1
  })
})

test('the largest filter that is taken is as large as it may be', () => {
  const largest = { capacity: 33_900_000, errorRate: 0.001 }
  assert.ok(filterBytes(largest) <= FILTER_BYTES_MAX && filterBytes(largest) > FILTER_BYTES_MAX * 0.99)
})

const REFUSED: ReadonlyArray<readonly [why: string, policy: string, said: RegExp, rest?: string]> = [
  ['nobody would look at it', '{ drop: {} }', /^drop: is not used: mode is not drop/],
  ['there is no Redis', '{ mode: drop, drop: { store: redis } }', /^drop\.store: is redis, but Redis is not used/],
  [
    'there is no Postgres that Redis is used with',
    '{ mode: drop, drop: { store: redis } }',
    /^drop\.store: is redis, but Redis is not used/,
    'stores: { redis: { url: "redis://r:6379" } }'
  ],
  ['nothing is compared', '{ mode: drop, fingerprint: none }', /^fingerprint: has no effect with mode drop/],
  ['nothing is replayed', '{ mode: drop, onMismatch: { action: replay } }', /^onMismatch: has no effect with mode drop/],
  ['nobody asks', '{ mode: drop, unknown: probe, probe: { path: "/{key}" } }', /^unknown: cannot be probe with mode drop/],
  ['a database keeps everything', '{ mode: drop, drop: { capacity: 10 } }', /^drop\.capacity: is not used/],
  ['only a filter errs', '{ mode: drop, drop: { store: memory, errorRate: 0.1 } }', /^drop\.errorRate: is not used/],
  [
    'too much for a list',
    '{ mode: drop, drop: { store: memory, capacity: 10000001 } }',
    /^drop\.capacity: must be at most 10000000 with memory/
  ],
  [
    'too much for a filter',
    '{ mode: drop, drop: { store: bloom, capacity: 100000000 } }',
    /^drop\.capacity: and errorRate take 189 MiB for each of two filters; at most 64 MiB/
  ],
  ['a filter that errs always', '{ mode: drop, drop: { store: bloom, errorRate: 0.5 } }', /^drop\.errorRate: /],
  ['a window that is none', '{ mode: drop, drop: { window: 10ms } }', /^drop\.window: "10ms" must be between 1s and 366d/],
  ['a duplicate is no error', '{ mode: drop, drop: { status: 409 } }', /^drop\.status: /]
]
for (const [why, policy, said, rest = ''] of REFUSED) {
  test(`refused: ${why}`, (t) => {
    const complaints = new ConfigWorld(t).complaints(fileWith({ policy, rest })).map((complaint) =>
      complaint.replace('routes[0].idempotency.', ''))
    assert.equal(complaints.length, 1, complaints.join('\n'))
    assert.match(complaints[0] ?? '', said)
  })
}

test('onceway check says which routes may lose an event', async (t) => {
  const world = new ConfigWorld(t)
  const lines = async (policy: string): Promise<string> => {
    const said: string[] = []
    const file = world.write('onceway.yaml', fileWith({ policy }))
    assert.equal(await checkCommand.run(['--config', file], { env: {}, out: () => {}, err: (line) => { said.push(line) } }), 0)
    return said.join('\n')
  }
  assert.equal(await lines('{ mode: drop, scope: shared }'), '')
  assert.equal(await lines('{ scope: shared }'), '')
  assert.match(
    await lines('{ mode: drop, scope: shared, drop: { mark: before } }'),
    /^Route charges marks events before they are forwarded: an event whose forwarding fails is lost\.$/
  )
  assert.match(
    await lines('{ mode: drop, scope: shared, drop: { store: bloom, errorRate: 0.01 } }'),
    /^Route charges keeps its marks in a Bloom filter: up to 1 % of new events are taken for duplicates, and lost\.$/
  )
})

test('another mode, another store or another size of a filter orphans marks; how duplicates are answered does not', (t) => {
  const world = new ConfigWorld(t)
  const said = (old: string, now: string) =>
    orphans(world.load(fileWith({ policy: old })).config, world.load(fileWith({ policy: now })).config).join('\n')
  assert.match(said('{}', '{ mode: drop }'), /marks \(database\) is searched instead of records/)
  assert.match(
    said('{ mode: drop }', '{ mode: drop, drop: { store: memory } }'),
    /marks \(memory\) is searched instead of marks \(database\)/
  )
  assert.match(
    said('{ mode: drop, drop: { store: bloom } }', '{ mode: drop, drop: { store: bloom, capacity: 10 } }'),
    /a filter \(capacity 10, /
  )
  assert.equal(said('{ mode: drop }', '{ mode: drop, drop: { status: 202, onDuplicate: flag, window: 2h } }'), '')
})
