/** The growth and memory runs at a small scale: that they run, that what they count is there, that they notice what is wrong. No times. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { quantile } from '../../bench/growth/histograms.ts'
import { Client, percentile } from '../../bench/growth/load.ts'
import { reported as growthReport } from '../../bench/growth/report.ts'
import { runGrowth } from '../../bench/growth/run.ts'
import { ANSWER_STATUS, answerOf, keyOf, parseKey } from '../../bench/growth/thing.ts'
import { Upstream, wrongExecutions } from '../../bench/growth/upstream.ts'
import { reported as memoryReport } from '../../bench/memory/report.ts'
import { flatness } from '../../bench/memory/requests.ts'
import { isBack } from '../../bench/memory/waiting.ts'
import { runMemory } from '../../bench/memory/run.ts'
import { QUICKEST } from '../harness/directory.ts'
import { needs } from '../harness/needs.ts'

/** Little enough to leave the machine to the other tests; everything that makes a commit durable stays. */
const SETTINGS = { shared_buffers: '64MB', synchronous_commit: 'on' } as const
// What is measured here is thrown away: it need not be a disk's.
process.env['TMPDIR'] = QUICKEST
const MIB = 1024 * 1024
const quiet = (): void => {}

describe('what is counted', () => {
  test('a key, its answer and back', () => {
    assert.deepEqual(parseKey(keyOf('seed', 17)), { kind: 'seed', number: 17 })
    assert.equal(parseKey('somebody else'), null)
    assert.equal(Buffer.byteLength(answerOf(keyOf('made', 0))), 500)
  })

  test('a percentile is a value that was measured', () => {
    assert.equal(percentile([1, 2, 3, 4], 0.5), 2)
    assert.equal(percentile([1, 2, 3, 4], 0.99), 4)
    assert.ok(Number.isNaN(percentile([], 0.5)))
  })

  test('a quantile of a histogram lies in the bucket that holds it', () => {
    const buckets = [{ leMs: 1, count: 0 }, { leMs: 2, count: 10 }, { leMs: Infinity, count: 11 }]
    assert.equal(quantile(buckets, 5 / 11), 1.5)
    assert.equal(quantile(buckets, 1), 2)
  })

  test('memory that climbs with every sample is not flat, and what filled in the first third is', () => {
    const of = (rss: (index: number) => number): ReturnType<typeof flatness> =>
      flatness(Array.from({ length: 20 }, (_, index) => ({ rss: rss(index) * MIB, heap: 0 })), 'rss')
    assert.equal(of((index) => 150 + 5 * index).flat, false)
    assert.equal(of((index) => Math.min(200, 100 + 20 * index)).flat, true)
  })
})

test('memory that every wave of waiters needs anew is back, and what each one keeps is not', () => {
  const memory = (mib: number) => ({ rss: mib * MIB, heap: mib * MIB, external: 0 })
  const waves = (after: (wave: number) => number) => [0, 1, 2, 3].map((wave) => ({ waiting: memory(400), after: memory(after(wave)) }))
  assert.equal(isBack(waves(() => 60)), true)
  assert.equal(isBack(waves((wave) => wave % 2 === 0 ? 60 : 200)), true)
  assert.equal(isBack(waves((wave) => 60 + 30 * wave)), false)
})

test('the upstream counts what is executed twice, and what was never to be executed', async (t) => {
  const upstream = await Upstream.start()
  t.after(() => upstream.stop())
  const ask = async (key: string): Promise<void> => {
    const answer = await fetch(upstream.url, { method: 'POST', headers: { 'idempotency-key': key } })
    assert.equal(answer.status, ANSWER_STATUS)
    assert.equal(await answer.text(), answerOf(key))
  }
  for (const key of [keyOf('made', 1), keyOf('made', 2_000_000), keyOf('made', 2_000_000), keyOf('seed', 1)]) await ask(key)
  const counts = await upstream.ask('count')
  assert.deepEqual(counts, { executions: 4, keys: 2, twice: 1, strangers: 1, held: 0 })
  assert.equal(wrongExecutions(counts).length, 2)
})

test('a client on no gateway at all finds every answer wrong', async (t) => {
  const upstream = await Upstream.start()
  t.after(() => upstream.stop())
  const client = new Client(upstream.url, 1)
  await client.ask({ key: keyOf('made', 1), expected: 'executed' })
  await client.close()
  assert.equal(client.wrongCount, 1)
})

describe('at a small scale', needs('own postgres', 'redis'), () => {
  test('a table that grows: every part has its figures, and no answer is wrong', async () => {
    const [records, days] = [1_000, 1]
    const result = await runGrowth({
      sizes: { records: [0, records], turnovers: 1, rounds: 1, seconds: 0.3, stores: ['redis and postgres'], concurrencies: [1, 4] },
      sweeps: [{ records, rate: 40, phaseSeconds: 3, stores: 'redis and postgres', besideTransaction: true }],
      churn: { records, days, parameters: ['fillfactor = 50'] },
      variants: { records },
      settings: SETTINGS,
      say: quiet
    })
    assert.deepEqual(result.wrong, [])
    assert.deepEqual(result.sizes?.tables.map((table) => table.records), [0, records])
    assert.deepEqual(result.sizes?.tables.map(({ aged }) => aged?.cycles), [undefined, records])
    // Of each size: after a checkpoint, and first requests and replays at each concurrency.
    assert.equal(result.sizes?.cells.length, 2 * 5)
    for (const { work, measured, operations, walPerRequest } of result.sizes?.cells ?? []) {
      assert.ok(measured.requests > 0 && measured.p99Ms >= measured.p50Ms)
      if (work === 'replay') continue
      assert.ok(walPerRequest > 0)
      assert.ok((operations.claim_insert?.count ?? 0) > 0 && (operations.settle?.count ?? 0) > 0)
    }
    const [sweep] = result.sweeps
    assert.ok(sweep !== undefined && sweep.before.all.requests > 0 && sweep.after.all.requests > 0)
    // What was swept is gone; what was asked meanwhile came on top.
    assert.ok(
      sweep.sizes.before.records === 2 * records + 1 && sweep.sizes.swept.records >= records && sweep.sizes.swept.records < 2 * records
    )
    assert.deepEqual(
      result.churn.map(({ atEnd, rewritten, vacuums }) => [atEnd.records >= records, rewritten.total <= atEnd.total, vacuums > 0]),
      [[true, true, true]]
    )
    assert.equal(result.variants?.shapes.length, 4)
    assert.match(growthReport(result, []), /every answer right/)
    assert.match(growthReport(result, []), new RegExp(`\\| ${records} \\| \\d+ \\| ${records} \\|`))
  })

  test('memory: every request is executed once, every waiter gets the answer of its key', async () => {
    const [requests, waiting, keys, waves, samples] = [300, 60, 3, 2, 9]
    const result = await runMemory({
      stores: ['embedded', 'redis and postgres'],
      requests: { requests, samples, concurrency: 4 },
      waiting: { waiting, keys, waves, restMs: 200 },
      settings: SETTINGS,
      say: quiet
    })
    assert.deepEqual(result.wrong, [])
    assert.ok(result.upstream.keys === result.upstream.executions && result.upstream.executions > 2 * (requests + waves * keys))
    assert.deepEqual(result.requests.map(({ samples }) => samples.length), [samples, samples])
    assert.deepEqual(result.waiting.map((wait) => wait.waves.length), [waves, waves])
    for (const { samples } of result.requests) assert.ok(samples.every(({ rss, heap }) => rss > heap && heap > 0))
    // Whether it is flat, so few requests cannot say.
    assert.match(memoryReport(result, []), /first requests, embedded[^]*clients that wait for 3 keys/)
  })
})
