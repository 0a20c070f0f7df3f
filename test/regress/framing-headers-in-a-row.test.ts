/**
 * An operator could store an answer with framing fields of its own (`records resolve --header 'Trailer: X'`). Node refuses
 * to write such a head beside a Content-Length: every retry of that key ended the whole process.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeHeaders } from '../../src/core/protocol/codec.ts'
import type { RawHeaders } from '../../src/core/record/record.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { directory, LEASE_MS, leave, named, say } from '../cli/world.ts'
import { learnClaim, startShared } from './world.ts'
import type { Process, Shared } from './world.ts'

const BODY = 'found in the ledger'
const WHY = ['--who', 'ada', '--why', 'found in the ledger']

/** The outcome of key k was unknown, and an operator's hand has written this one. */
async function resolve ({ records, inner }: Shared, { ask }: Process, status: number, headers: RawHeaders): Promise<void> {
  const claim = await learnClaim(records, ask, 'k')
  const token = { id: claim.id, owner: Buffer.alloc(16, 9), attempt: 1 }
  await inner.insert({ ...claim, owner: token.owner })
  await inner.settle({
    token,
    outcome: 'indeterminate',
    keepMs: 60_000,
    status: null,
    headers: null,
    body: null,
    reason: { stage: 'during', code: 'ECONNRESET' }
  })
  const audit = { action: 'resolve', who: 'ada', why: 'found in the ledger' } as const
  const done = await inner.resolve({
    token,
    outcome: 'completed',
    keepMs: 60_000,
    status,
    headers: encodeHeaders(headers),
    body: Buffer.from(BODY),
    by: 'operator',
    tries: null,
    audit
  })
  assert.equal(done.kind, 'done')
}

for (const line of [
  ['Trailer', 'X-Sum'],
  ['Content-Length', '3'],
  ['Transfer-Encoding', 'chunked'],
  ['Connection', 'keep-alive'],
  ['Upgrade', 'h2c']
] as const) {
  test(`a stored answer with a ${line[0]} of its own is replayed whole and framed once`, async (t) => {
    const shared = await startShared(t)
    const process = await shared.startProcess()
    await resolve(shared, process, 200, [...line, 'X-Kept', 'yes'])
    const replay = await process.ask('k')
    assert.equal(replay.headers['idempotent-replayed'], 'true')
    assert.equal(replay.text, BODY)
    assert.equal(replay.headers['x-kept'], 'yes')
    assert.deepEqual(replay.rawHeaders.filter((_, at, raw) => raw[at - 1]?.toLowerCase() === 'content-length'), [String(BODY.length)])
    for (const name of ['trailer', 'transfer-encoding', 'upgrade']) assert.equal(replay.headers[name], undefined)
    assert.equal(shared.witness.seen.length, 0)
  })
}

test('a stored answer that cannot be written at all ends its connection, and the process serves on', async (t) => {
  const shared = await startShared(t)
  const process = await shared.startProcess()
  await resolve(shared, process, 1_000, [])
  await assert.rejects(process.ask('k'), { code: 'ECONNRESET' })
  assert.equal((await process.ask('another')).status, 201)
})

test('an operator who gives an answer framing or connection fields is told so, exit 2, and nothing changes', async (t) => {
  const dataDir = directory(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(async () => { await store.close() })
  const token = await leave(store, 'order-1', 'indeterminate')
  const resolving = ['records', 'resolve', ...named(token), '--status', '201', ...WHY, '--data-dir', dataDir]
  for (const line of [
    'Content-Length: 3', 'transfer-encoding: chunked', 'Trailer: X', 'Connection: close', 'Keep-Alive: 1',
    'Idempotency-Status: replayed'
  ]) {
    const { exitCode, err } = await say([...resolving, '--header', 'X-Kept: yes', '--header', line])
    assert.equal(exitCode, 2, line)
    assert.match(err, /cannot be stored/)
  }
  assert.equal((await store.look(token.id))?.state, 'indeterminate')
})

test('an operator who resolves or releases for less than two leases is told so, exit 2, and nothing changes', async (t) => {
  const dataDir = directory(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(async () => { await store.close() })
  const token = await leave(store, 'order-1', 'indeterminate')
  const changes = [
    ['resolve', ...named(token), '--status', '201'],
    ['resolve', ...named(token), '--status', '201', '--consumed'],
    ['release', ...named(token)]
  ]
  for (const change of changes) {
    const { exitCode, err } = await say(['records', ...change, '--retention', `${2 * LEASE_MS - 1}ms`, ...WHY, '--data-dir', dataDir])
    assert.equal(exitCode, 2, change[0])
    assert.match(err, /two leases/)
  }
  assert.equal((await store.look(token.id))?.state, 'indeterminate')
  assert.equal(
    (await say(['records', 'release', ...named(token), '--retention', `${2 * LEASE_MS}ms`, ...WHY, '--data-dir', dataDir])).exitCode,
    0
  )
})
