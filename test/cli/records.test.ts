import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { deleteRecord } from '../../src/cli/record-changes.ts'
import { readOptions } from '../../src/cli/command.ts'
import { must, openOperators } from '../../src/cli/operators.ts'
import { decodeHeaders } from '../../src/core/protocol/codec.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import { NO_LOCKS } from '../../src/store/shared/no-locks.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { SqliteStore } from '../../src/store/sqlite/store.ts'
import { claimOf, LEASE_MS, directory, fileIn, leave, named, say } from './world.ts'

/** An embedded store that a gateway holds open while the command works beside it. */
async function gateway (t: TestContext): Promise<{ store: SqliteStore, at: readonly string[] }> {
  const dataDir = directory(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(async () => { await store.close() })
  return { store, at: ['--data-dir', dataDir] }
}

const WHY = ['--who', 'ada', '--why', 'found in the ledger']

test('list finds records by key, route and state, newest first, and shows no body', async (t) => {
  const { store, at } = await gateway(t)
  const unknown = await leave(store, 'order-1', 'indeterminate')
  await leave(store, 'order-2', 'completed')
  const all = await say(['records', 'list', ...at])
  assert.deepEqual([all.exitCode, all.out.split('\n').length], [0, 4])
  assert.equal(all.out.split('\n')[0], `Records in the embedded store under ${at[1]}, the newest first:`)
  const [headings = '', ...rows] = all.out.split('\n').slice(1)
  for (const [heading, value] of [
    ['STATE', /(indeterminate|completed) /y],
    ['ROUTE', /charges /y],
    ['REQUEST', /POST \/v1\/charges/y]
  ] as const) {
    for (const row of rows) { value.lastIndex = headings.indexOf(heading); assert.ok(value.test(row), `${heading}: ${row}`) }
  }
  assert.ok(!all.out.includes('4242'))
  assert.match(
    (await say(['records', 'list', '--state', 'indeterminate', ...at])).out,
    new RegExp(`\n${unknown.id.toString('base64url')}  indeterminate  1 .*charges  POST /v1/charges  during/ECONNRESET$`)
  )
  assert.equal((await say(['records', 'list', '--key', 'order-2', '--limit', '5', ...at])).out.split('\n').length, 3)
  const none = await say(['records', 'list', '--route', 'other', ...at])
  const nothing = `No route of the configuration has this name.\nNo such records in the embedded store under ${at[1]}.`
  assert.deepEqual(none, { exitCode: 0, out: '', err: nothing })
  const { owner, state, bodyBytes } = JSON.parse(
    (await say(['records', 'list', '--key', 'order-2', '--json', ...at])).out
  ) as Record<string, unknown>
  assert.deepEqual([owner, state, bodyBytes], [Buffer.alloc(16, 'order-2').toString('hex'), 'completed', 15])
})

test('what clients sent does not reach the terminal as it is: control characters and reversed text are escaped', async (t) => {
  const { store, at } = await gateway(t)
  const path = '/v1/\u202etxt.exe\u2066\u001b[2J\u009b31m\u200b\u2028'
  const claim = claimOf('order-1')
  await store.insert({ ...claim, about: { ...claim.about, path, keyText: 'k\u0007' } })
  const id = claim.id.toString('base64url')
  for (const command of [['list'], ['show', id], ['list', '--json'], ['show', id, '--json']]) {
    const { exitCode, out } = await say(['records', ...command, ...at])
    assert.equal(exitCode, 0)
    assert.doesNotMatch(out.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u, command.join(' '))
    assert.ok(out.includes('/v1/\\u202etxt.exe\\u2066\\u001b[2J\\u009b31m\\u200b\\u2028'), out)
    if (command.includes('--json')) assert.equal((JSON.parse(out) as { path: string }).path, path, 'a program reads the same')
  }
  const wrong = await say(['records', 'show', 'x\u202ey\u001b[2J', ...at])
  assert.doesNotMatch(wrong.err.replaceAll('\n', ''), /[\p{Cc}\p{Cf}]/u)
})

test('list says when there may be more than it shows, and how to see it', async (t) => {
  const { store, at } = await gateway(t)
  for (const key of ['order-1', 'order-2']) await leave(store, key, 'completed')
  for (const json of [[], ['--json']]) {
    const cut = await say(['records', 'list', '--limit', '1', ...json, ...at])
    assert.deepEqual(
      [cut.exitCode, cut.out.split('\n').length, cut.err],
      [0, json.length === 0 ? 3 : 1, 'The limit of 1 is reached. There may be more: use a larger --limit or a narrower filter.']
    )
    assert.equal((await say(['records', 'list', '--limit', '3', ...json, ...at])).err, '')
  }
})

test('show tells owner and attempt, by an id in base64url or hex', async (t) => {
  const { store, at } = await gateway(t)
  const { id, owner } = await leave(store, 'order-1', 'indeterminate')
  for (const text of [id.toString('base64url'), id.toString('hex')]) {
    const { exitCode, out } = await say(['records', 'show', text, ...at])
    assert.equal(exitCode, 0)
    assert.match(out, new RegExp(`^owner: +${owner.toString('hex')}$`, 'm'))
    assert.match(out, /^attempt: +1$/m)
    assert.match(out, /^unknown because: +during\/ECONNRESET$/m)
  }
})

test('an id that starts with a dash is an id', async (t) => {
  const { at } = await gateway(t)
  const { exitCode, err } = await say(['records', 'show', `-${'A'.repeat(42)}`, ...at])
  assert.equal(exitCode, 1)
  assert.match(err, /There is no record f8/)
})

test('resolve gives an indeterminate record the answer that retries get', async (t) => {
  const { store, at } = await gateway(t)
  const token = await leave(store, 'order-1', 'indeterminate')
  const body = fileIn(t, 'answer.json', '{"id":1}')
  const done = await say([
    'records', 'resolve', ...named(token), '--status', '201', '--header', 'Content-Type: application/json', '--header',
    'X-A:b', '--body-file', body, ...WHY, ...at
  ])
  assert.deepEqual([done.exitCode, done.err], [0, ''])
  assert.match(done.out, /Before: state indeterminate, owner .*, attempt 1\. Now: state completed, owner/)
  const row = await store.look(token.id)
  assert.deepEqual([row?.state, row?.status, row?.settledBy, row?.body?.toString()], ['completed', 201, 'operator', '{"id":1}'])
  assert.deepEqual(decodeHeaders(row?.headers ?? Buffer.alloc(0)), ['Content-Type', 'application/json', 'X-A', 'b'])
})

test('resolve --consumed keeps the status alone', async (t) => {
  const { store, at } = await gateway(t)
  const token = await leave(store, 'order-1', 'indeterminate')
  assert.equal((await say(['records', 'resolve', ...named(token), '--status', '201', '--consumed', ...WHY, ...at])).exitCode, 0)
  const row = await store.look(token.id)
  assert.deepEqual([row?.state, row?.status, row?.body], ['consumed', 201, null])
})

test('release frees an indeterminate record, and is refused while its first sending may be on its way', async (t) => {
  const { store, at } = await gateway(t)
  const [early, late] = [await leave(store, 'order-1', 'indeterminate', 60_000), await leave(store, 'order-2', 'indeterminate')]
  const refused = await say(['records', 'release', ...named(early), ...WHY, ...at])
  assert.equal(refused.exitCode, 1)
  assert.match(refused.err, /refused, nothing changed\. +Now: state indeterminate, owner .*\nThe first sending may still be on its way; it can be released in (60|59) s\./)
  assert.equal((await say(['records', 'release', ...named(late), ...WHY, ...at])).exitCode, 0)
  assert.equal((await store.look(late.id))?.state, 'released')
})

test('a record that has gone on since it was shown is not changed', async (t) => {
  const { store, at } = await gateway(t)
  const token = await leave(store, 'order-1', 'indeterminate')
  const other = [{ ...token, attempt: 2 }, { ...token, owner: Buffer.alloc(16, 9) }]
  for (const stale of other) {
    const { exitCode, err } = await say(['records', 'resolve', ...named(stale), '--status', '200', ...WHY, ...at])
    assert.equal(exitCode, 1)
    assert.match(err, new RegExp(`refused, nothing changed\\. It has changed since\\. Read it again with .records show.\\. Now: state indeterminate, owner ${token.owner.toString('hex')}, attempt 1\\.`))
  }
  const running = await leave(store, 'order-2', 'claimed')
  assert.equal((await say(['records', 'delete', ...named(running), ...WHY, ...at])).exitCode, 1)
  assert.equal((await store.look(running.id))?.state, 'claimed')
})

test('delete lets a settled record end two leases from now', async (t) => {
  const { store, at } = await gateway(t)
  const token = await leave(store, 'order-1', 'completed')
  const { exitCode, out } = await say(['records', 'delete', ...named(token), ...WHY, ...at])
  assert.equal(exitCode, 0)
  assert.match(out, /in the embedded store under \S+: Deleted: the record ends in 2000 ms at the latest\./)
  assert.ok(((await store.look(token.id))?.keepLeftMs ?? Infinity) <= 2 * LEASE_MS)
})

test('a refused change says why, and in which store', async (t) => {
  const { store, at } = await gateway(t)
  for (const [outcome, subcommand, why] of [
    ['claimed', 'delete', /Its request is in flight: wait until it has settled\. Now: state claimed/],
    ['indeterminate', 'delete', /Its outcome is unknown: resolve or release it first, then delete it\. Now: state indeterminate/],
    [
      'completed',
      'release',
      /Its outcome is known: only an indeterminate record can be resolved or released\. Now: state completed/
    ],
    ['released', 'release', /It is released already/]
  ] as const) {
    const token = await leave(store, `${outcome}-${subcommand}`, outcome)
    const { exitCode, err } = await say(['records', subcommand, ...named(token), ...WHY, ...at])
    assert.equal(exitCode, 1)
    assert.match(err, why)
  }
  const gone = await say(['records', 'show', 'A'.repeat(43), ...at])
  assert.equal(gone.err, `onceway: There is no record ${'A'.repeat(43)} in the embedded store under ${at[1]}.`)
})

test('the audit says who changed which record by hand, when and why, the newest first, of one or of all', async (t) => {
  const { store, at } = await gateway(t)
  assert.deepEqual(await say(['records', 'audit', ...at]), {
    exitCode: 0,
    out: '',
    err: `No changes by hand in the embedded store under ${at[1]}.`
  })
  const [one, two] = [await leave(store, 'order-1', 'indeterminate'), await leave(store, 'order-2', 'indeterminate')]
  await say(['records', 'resolve', ...named(one), '--status', '201', '--who', 'ada', '--why', 'found in\x1b[2J the ledger', ...at])
  await say(['records', 'release', ...named(two), '--who', 'bob', '--why', 'not found', ...at])
  const shown = await say(['records', 'audit', ...at])
  assert.match(shown.out, new RegExp(`^Changes by hand in the embedded store under \\S+, the newest first:\\nAT +ACTION +RECORD +ROUTE +STATE +ATTEMPT +WHO +WHY\\n\\S+Z  release  ${two.id.toString('base64url')}  charges  released   1        bob  not found\\n\\S+Z  resolve  ${one.id.toString('base64url')}  charges  completed  1        ada  found in\\\\u001b\\[2J the ledger$`))
  const { at: when, ...json } = JSON.parse(
    (await say(['records', 'audit', one.id.toString('base64url'), '--json', ...at])).out
  ) as Record<string, unknown>
  assert.ok(Number.isFinite(Date.parse(String(when))))
  const { before, after, ...rest } = json as { before: Record<string, unknown>, after: Record<string, unknown> }
  assert.deepEqual([before.state, before.reason, after.state, after.status], ['indeterminate', 'during/ECONNRESET', 'completed', 201])
  assert.deepEqual(rest, {
    entryId: 'records/1',
    number: '1',
    about: 'record',
    action: 'resolve',
    id: one.id.toString('base64url'),
    owner: one.owner.toString('hex'),
    attempt: 1,
    route: 'charges',
    requestId: 'request-order-1',
    state: 'completed',
    who: 'ada',
    via: 'cli',
    why: 'found in\x1b[2J the ledger'
  })
  const cut = await say(['records', 'audit', '--limit', '1', '--json', ...at])
  assert.equal(cut.out.split('\n').length, 1)
  assert.match(cut.err, /^The limit of 1 is reached\./)
})

test('delete clears Redis at once and again a lease later, and is exit 1 when Redis could not be told', async (t) => {
  const { store } = await gateway(t)
  for (const { answers, exitCode } of [
    { answers: [true, true], exitCode: 0 },
    { answers: [true, false], exitCode: 1 },
    { answers: [false, true], exitCode: 1 }
  ]) {
    const token = await leave(store, `order-${answers.join()}`, 'completed')
    const told: number[] = []
    const locks: LockStore = {
      ...NO_LOCKS,
      name: 'redis',
      available: () => true,
      forget: () => Promise.resolve(answers[told.push(performance.now()) - 1] ?? false)
    }
    const options = readOptions(
      [...named(token), ...WHY],
      { owner: { type: 'string' }, attempt: { type: 'string' }, who: { type: 'string' }, why: { type: 'string' } },
      1
    )
    const terminal = { env: {}, out: () => {}, err: () => {} }
    const operators = await openOperators(options, terminal, () => Promise.resolve({
      records: store, inbox: store.inbox, operator: store.operator, locks, aheadMs: 0, secrets: () => [], close: () => Promise.resolve()
    }))
    const record = must(await operators.call('showRecord', { params: { id: token.id.toString('base64url') } }))
    assert.equal(await deleteRecord({ options, operators, terminal }, record), exitCode)
    assert.equal(told.length, 2)
    assert.ok((told[1] ?? 0) - (told[0] ?? 0) >= LEASE_MS - 1)
  }
})

test('what is missing or malformed is exit 2 and changes nothing', async (t) => {
  const { store, at } = await gateway(t)
  const token = await leave(store, 'order-1', 'indeterminate')
  const id = token.id.toString('base64url')
  for (const args of [
    [], ['forget'], ['show'], ['show', 'xyz'], ['list', '--state', 'lost'], ['list', '--limit', '0'],
    ['resolve', id, ...WHY], ['resolve', ...named(token), ...WHY],
    ['resolve', ...named(token), '--status', '99', ...WHY], ['resolve', ...named(token), '--status', '200'], ['release', ...named(token)],
    ['resolve', ...named(token), '--status', '200', '--header', 'no colon', ...WHY],
    ['resolve', ...named(token), '--status', '200', '--body-file', '/nowhere', ...WHY],
    ['release', id, '--owner', 'zz', '--attempt', '1', ...WHY], ['release', ...named(token), '--retention', '1', ...WHY]
  ]) {
    assert.equal((await say(['records', ...args, ...at])).exitCode, 2, args.join(' '))
  }
  assert.equal((await store.look(token.id))?.state, 'indeterminate')
})

test('an option that a subcommand does not take is exit 2 and changes nothing', async (t) => {
  const { store, at } = await gateway(t)
  const token = await leave(store, 'order-1', 'indeterminate')
  const id = token.id.toString('base64url')
  for (const args of [
    ['list', '--owner', 'x'], ['show', id, '--state', 'claimed'], ['show', id, '--why', 'x'],
    ['resolve', ...named(token), '--status', '200', '--json', ...WHY],
    ['release', ...named(token), '--status', '200', ...WHY],
    ['release', ...named(token), '--consumed', ...WHY], ['delete', ...named(token), '--retention', '1h', ...WHY]
  ]) {
    const { exitCode, err } = await say(['records', ...args, ...at])
    assert.equal(exitCode, 2, args.join(' '))
    assert.match(err, new RegExp(`--[a-z]+ is not for records ${args[0]}\\.`))
  }
  assert.equal(
    (await say(['records', 'resolve', ...named(token), '--status', '200', '--consumed', '--header', 'A: b', ...WHY, ...at])).exitCode,
    2
  )
  assert.equal((await store.look(token.id))?.state, 'indeterminate')
})

test('a data directory that is not there is one sentence and exit 1', async () => {
  const { exitCode, err } = await say(['records', 'list', '--data-dir', '/nowhere/at/all'])
  assert.equal(exitCode, 1)
  assert.equal(err.split('\n').length, 1)
})
