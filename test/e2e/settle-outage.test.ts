/**
 * E6 for a whole minute: the database goes away after the upstream has got the request and before its answer can be
 * written down, and stays away for far longer than any lease and any patience. Once it hangs, once it is killed.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { query } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { LogLine, ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { configOf, startServers } from './world.ts'

/** Twelve leases: whoever may lapse a living execution in the dark does it now. */
const OUTAGE_MS = 60_000
/** E6: the real answer within three seconds. */
const PATIENCE_MS = 3_000
/** For two processes and two databases on a busy machine. */
const SLACK_MS = 5_000
/** Between two looks at what clients are told while the database is away. */
const ASK_EVERY_MS = 1_000
/** After the outage: one pause between two settles and one statement, with a lot to spare. */
const LANDS_WITHIN_MS = 20_000

/** Two of them fill {@link LIMITS}; one is small enough to be copied to Redis. */
const ANSWER_BYTES = 40 * 1024
/** What each counts beside its body (gateway/settle/settle.ts). */
const BESIDE_BODY_BYTES = 1024
/** The first request of a process takes longer than Redis is given for a command where the machine is busy, and then has no lock there. */
const WARM = 'warm'
const WARMED = 1
const LIMITS = 'limits: { unsettledBytes: 64KiB }'
const LEASE = 'lease: 5s'

interface Outage {
  readonly name: string
  readonly begin: (postgres: PostgresServer) => Promise<void> | void
  readonly end: (postgres: PostgresServer) => Promise<void> | void
  /** Does the process that did not execute give the answer too? A database that hangs uses up the time for its claim. */
  readonly givenElsewhere: boolean
}

const OUTAGES: readonly Outage[] = [
  { name: 'hangs', begin: (postgres) => { postgres.pause() }, end: (postgres) => { postgres.resume() }, givenElsewhere: false },
  { name: 'is killed', begin: async (postgres) => postgres.kill(), end: async (postgres) => postgres.restart(), givenElsewhere: true }
]

describe('the database is gone between send and settle', { concurrency: OUTAGES.length + 1, ...needs('own postgres', 'own redis') }, () => {
  for (const outage of OUTAGES) {
    test(`it ${outage.name} for a minute: real answers at once, one execution each, and replays afterwards`, async (t) => {
      const world = await startWorld(t)
      const { witness, postgres, one, two } = world
      const [first, second] = await sendThenLose(world, outage)
      assert.notDeepEqual(first.body, second.body)
      await saysUnsettled(one)
      await askedForAMinute(world, outage, first)
      await outage.end(postgres)
      for (const key of ['first', 'second']) await one.logged((line) => line.msg === STORED_LATE && line['record'] === world.recordOf(key))
      await replaysEverywhere(world, { first, second })
      await eventually(async () => totalOf(await metricsOf(one.adminUrl), 'onceway_unsettled_bytes') === 0, 'nothing is unsettled any more')
      assert.equal((await ask(two, 'new')).status, 201, 'what was refused while the database was away is served now')
      assert.equal(witness.seen.length, WARMED + 3, 'one execution each of first, second and new')
      await nobodyLapsed(world)
    })
  }

  test('at limits.unsettledBytes a new request is refused before any claim, even where the database would take it', async (t) => {
    const world = await startWorld(t, LIMITS)
    const { witness, one, database } = world
    const unlock = await lockedRows(t, database, async () => {
      const asking = ['first', 'second'].map(async (key) => ask(one, key))
      await witness.reached(WARMED + 2)
      return asking
    }, world.open)
    await eventually(async () => totalOf(await metricsOf(one.adminUrl), 'onceway_unsettled_bytes') >= 2 * ANSWER_BYTES, 'both wait')
    const refused = await ask(one, 'refused')
    assert.equal(refused.status, 503)
    assert.equal(refused.json.code, 'overloaded')
    assert.ok(Number(refused.headers['retry-after']) >= 1)
    assert.equal((await query(database, 'select 1 from onceway.records')).length, WARMED + 2, 'no row was written for it')
    assert.equal(witness.seen.length, WARMED + 2)
    await one.logged((line) => line.level === 'error' && line.msg?.startsWith('answers that wait for the store fill their bound') === true)
    await unlock()
    await one.logged((line) => line.msg?.startsWith('the store takes answers again') === true)
    await eventually(async () => (await ask(one, 'refused')).status === 201, 'served once the settles have landed', LANDS_WITHIN_MS)
    assert.equal(witness.seen.length, WARMED + 3)
  })
})

const STORED_LATE = 'the answer that was given unsettled is stored'

interface OutageWorld {
  readonly postgres: PostgresServer
  readonly database: string
  readonly witness: Witness
  readonly one: ProcessGateway
  readonly two: ProcessGateway
  /** The upstream answers from now on. */
  readonly open: () => void
  readonly recordOf: (key: string) => string
}

async function startWorld (t: TestContext, more = ''): Promise<OutageWorld> {
  const servers = await startServers()
  t.after(() => servers.stop())
  const gate = Promise.withResolvers<void>()
  const witness = await startWitness(async (...args) => {
    if (args[0].headers['idempotency-key'] !== WARM) await gate.promise
    await large(...args)
  })
  t.after(() => witness.close())
  const database = await servers.postgres.createDatabase('outage')
  const config = configOf({ database, redis: servers.redis.url, upstream: witness.url, more }).replace('lease: 2s', LEASE)
  const [one, two] = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
  // A claim that was made without Redis has no lock there that could become a copy.
  for (const gateway of [one, two]) await gateway.logged((line) => line.msg === 'Redis is in use')
  assert.equal((await ask(one, WARM)).status, 201)
  // Until the lock in Redis has become the copy, another process says that it is in flight.
  await eventually(async () => (await ask(two, WARM)).status === 201, 'the other process replays')
  const recordOf = (key: string): string =>
    String(witness.seen.find(({ headers }) => headers['idempotency-key'] === key)?.headers['onceway-key'])
  return { postgres: servers.postgres, database, witness, one, two, open: gate.resolve, recordOf }
}

/** `201` with a body of its own for each execution. */
const large: Behaviour = (_seen, response, _socket, count) => {
  response.writeHead(201, { 'Content-Type': 'text/plain', 'X-Execution': String(count) })
  response.end(String(count).padEnd(ANSWER_BYTES, '.'))
}

async function ask (gateway: ProcessGateway, key: string): Promise<Called> {
  return call(gateway.url, '/things', { headers: { 'Idempotency-Key': key }, body: 'one' })
}

/** Two requests reach the upstream, the database goes, the upstream answers: what their clients get. */
async function sendThenLose (world: OutageWorld, outage: Outage): Promise<[Called, Called]> {
  const { one, witness, postgres, open } = world
  const asking = Promise.all([ask(one, 'first'), ask(one, 'second')])
  await witness.reached(WARMED + 2)
  await outage.begin(postgres)
  const answeredAt = performance.now()
  open()
  const answers = await asking
  const tookMs = performance.now() - answeredAt
  for (const answer of answers) assertUnsettled(answer)
  assert.ok(tookMs < PATIENCE_MS + SLACK_MS, `the answers came after ${tookMs} ms`)
  return answers
}

function assertUnsettled (answer: Called): void {
  assert.equal(answer.status, 201, answer.text.slice(0, 200))
  assert.equal(answer.headers['idempotency-status'], 'executed')
  assert.equal(answer.headers['idempotency-stored'], 'false')
  assert.equal(answer.headers['idempotency-expires'], undefined)
  assert.equal(answer.headers['idempotent-replayed'], undefined)
}

/** Log lines and metrics for each (E6). */
async function saysUnsettled (one: ProcessGateway): Promise<void> {
  await eventually(async () =>
    totalOf(await metricsOf(one.adminUrl), 'onceway_settles_retried_total') >= 2, 'settles are tried again', LANDS_WITHIN_MS)
  const metrics = await metricsOf(one.adminUrl)
  assert.equal(totalOf(metrics, 'onceway_answers_unsettled_total'), 2)
  assert.equal(totalOf(metrics, 'onceway_unsettled_bytes'), 2 * (ANSWER_BYTES + BESIDE_BODY_BYTES))
  // A line is on its way to us for a while when the metrics already say it.
  await one.logged((line) => line.level === 'warn' && line.msg === 'settling failed; trying again')
  await eventually(() => unsettledLines(one).length >= 2, 'both are in the log')
  assert.deepEqual(unsettledLines(one).map(({ level }) => level), ['error', 'error'])
}

function unsettledLines (one: ProcessGateway): LogLine[] {
  return one.logLines().filter((line) => line.msg?.startsWith('the arbiter does not take the outcome') === true)
}

/**
 * Whoever asks gets the answer and is not told that it is stored, or is told to come back; and nobody executes. A key that was refused
 * may be in flight for its next try, as long as the claim of the first one is in doubt: each that nobody has used is another one.
 */
async function askedForAMinute ({ one, two, witness }: OutageWorld, outage: Outage, first: Called): Promise<void> {
  const endsAt = performance.now() + OUTAGE_MS
  let givenThere = 0
  let asked = 0
  while (performance.now() < endsAt) {
    const [here, there, unknownKey] = await Promise.all([ask(one, 'first'), ask(two, 'first'), ask(two, `nobody-used-${asked++}`)])
    assertUnsettled(here)
    assert.deepEqual(here.body, first.body)
    if (there.status === 503) {
      assert.equal(there.json.code, 'store-unavailable')
    } else {
      assertUnsettled(there)
      assert.deepEqual(there.body, first.body)
      givenThere++
    }
    assert.equal(unknownKey.json.code, 'store-unavailable', unknownKey.text)
    assert.equal(witness.seen.length, WARMED + 2)
    await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS))
  }
  if (outage.givenElsewhere) {
    assert.ok(givenThere > 0, `the other process had the answer from Redis: ${aboutRedis(one)}; ${aboutRedis(two)}`)
  }
}

function aboutRedis (gateway: ProcessGateway): string {
  return gateway
    .logLines()
    .filter((line) => /redis/i.test(JSON.stringify(line)))
    .map(({ time, msg }) => `${String(time)} ${msg ?? ''}`)
    .join(', ')
}

async function replaysEverywhere ({ one, two }: OutageWorld, answers: Readonly<Record<string, Called>>): Promise<void> {
  for (const gateway of [one, two]) {
    for (const [key, { body }] of Object.entries(answers)) {
      const replay = await ask(gateway, key)
      assert.equal(replay.status, 201, replay.text.slice(0, 200))
      assert.equal(replay.headers['idempotent-replayed'], 'true')
      assert.ok(replay.headers['idempotency-expires'] !== undefined)
      assert.deepEqual(replay.body, body)
    }
  }
}

/** E2b: both come back at the same time, and the leases in the table have been over for most of the minute. */
async function nobodyLapsed ({ one, two, database, recordOf }: OutageWorld): Promise<void> {
  for (const { adminUrl } of [one, two]) {
    const metrics = await metricsOf(adminUrl)
    assert.equal(totalOf(metrics, 'onceway_records_lapsed_total'), 0)
    assert.equal(totalOf(metrics, 'onceway_indeterminate_total'), 0)
    assert.equal(totalOf(metrics, 'onceway_settles_fenced_total'), 0)
  }
  const rows = await query(database, 'select encode(id, \'base64\') as id, state, settled_by, attempt from onceway.records')
  for (const key of ['first', 'second']) {
    const row = rows.find(({ id }) => Buffer.from(String(id), 'base64').toString('base64url') === recordOf(key))
    assert.deepEqual({ ...row, id: null }, { id: null, state: 'completed', settled_by: 'owner', attempt: 1 })
  }
}

/** Rows that are held by somebody else's transaction: what is there cannot be settled, what is new could be claimed. */
async function lockedRows (
  t: TestContext,
  database: string,
  begin: () => Promise<unknown>,
  then: () => void
): Promise<() => Promise<void>> {
  const holder = new Client({ connectionString: database })
  holder.on('error', () => {})
  await holder.connect()
  t.after(async () => { await holder.end().catch(() => {}) })
  await begin()
  await holder.query('begin')
  await holder.query('select 1 from onceway.records for update')
  then()
  return async () => { await holder.query('commit') }
}
