/** That the benchmark runs, judges, and tells what it promises. Not how fast anything is. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { inboxTable, readmeTable } from '../../bench/report.ts'
import type { BenchResult } from '../../bench/report.ts'
import { makeDirectory, QUICKEST } from '../harness/directory.ts'
import { needs } from '../harness/needs.ts'

const MAIN = fileURLToPath(new URL('../../bench/main.ts', import.meta.url))
const LONGEST_MS = 200_000
/** The pool is as small as it is because the other tests want the machine too. */
const ARGS = ['--only', 'plain,onceway,onceway-inbox-ordered', '--rounds', '1', '--seconds', '1', '--concurrency', '4', '--pool', '200']

describe('npm run bench', needs('own postgres', 'own redis', 'wrk', 'nginx'), () => {
  test('measures the plain proxy and onceway side by side, and finds nothing wrong', async (t) => {
    const directory = makeDirectory('bench-smoke')
    t.after(() => { directory.remove() })
    const [json, report] = [join(directory.path, 'result.json'), join(directory.path, 'report.md')]
    const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...ARGS, '--json', json, '--report', report], {
      timeout: LONGEST_MS,
      env: { ...process.env, TMPDIR: QUICKEST }
    })
    t.diagnostic(stdout)
    const result = JSON.parse(readFileSync(json, 'utf8')) as BenchResult
    assert.deepEqual(result.violations, [])
    assert.deepEqual([result.rounds, result.quietRounds], [1, 1])
    assert.deepEqual(result.cases.map(({ contestant, work, concurrency }) => [contestant, work, concurrency]), [
      ['plain', 'pass', 4], ['floor-reply', 'pass', 4], ['floor-durable', 'first', 4],
      ['onceway', 'first', 4], ['onceway', 'replay', 4],
      ...['floor-durable-inbox', 'outbox', 'onceway-inbox-ordered']
        .flatMap((name) => ['accept', 'deliver', 'steady'].map((work) => [name, work, 4]))
    ])
    for (const { work, ratio, spread, absolute } of result.cases) {
      for (const name of work === 'deliver' || work === 'steady'
        ? ['throughput', 'cpu'] as const
        : ['throughput', 'cpu', 'p50', 'p99'] as const) {
        const [value, [low, high]] = [ratio[name] ?? 0, spread[name] ?? [Infinity, 0]]
        assert.ok(value > 0 && low <= value && value <= high, `${name} of ${JSON.stringify(ratio)}`)
      }
      assert.equal(absolute.p50Ms === null, work === 'deliver', 'a backlog has no latency')
      assert.ok(
        absolute.requestsPerSecond > 0 && (absolute.p99Ms ?? 0) >= (absolute.p50Ms ?? 0) && absolute.cpuMicros > 0 && absolute.rssMib > 0
      )
    }
    const first = result.cases.find(({ contestant, work }) => contestant === 'onceway' && work === 'first')
    assert.ok((first?.absolute.postgresCpuMicros ?? 0) > 0, 'a durable answer costs Postgres something')
    assert.deepEqual(first?.others.map(({ over }) => over), ['floor-durable'])
    assert.ok((first.others[0]?.ratio.storeCpu ?? 0) > 0 && (first.others[0]?.ratio.allCpu ?? 0) > 0)
    assert.deepEqual(
      result.allocations.map(({ contestant, work }) => `${contestant} ${work}`),
      ['plain pass', 'floor-reply pass', 'floor-durable first', 'onceway first', 'onceway replay']
    )
    for (const { heapBytes } of result.allocations) assert.ok(heapBytes > 1_000 && heapBytes < 1_000_000, `${heapBytes} bytes a request`)
    assert.match(stdout, /4 connections, round 1 of 1, \d+ (s|min) left/)
    assert.equal(
      result.command,
      'npm run bench -- --only plain,onceway,onceway-inbox-ordered --seconds 1 --rounds 1 --concurrency 4 --pool 200'
    )
    assert.ok(!readFileSync(json, 'utf8').includes(directory.path), 'nothing in it is about files of this machine')
    assert.match(readFileSync(report, 'utf8'), /## 4 connections: 1 of 1 rounds quiet[\s\S]*\| onceway \| replay \| \d/)
    assert.match(
      inboxTable(result, 'one.md'),
      /\| onceway: mode inbox, Postgres only, in the order of 1,000 groups \| \d+\.\d\d \/ \d+\.\d\d \| \d+\.\d\d \/ \d+\.\d\d \| \d+ \| -?\d/
    )
    const rows = readmeTable(result, 'bench/results/one.md')
      .split('\n')
      .filter((line) => /\| [\d,]+ \| \d+\.\d ms \|$/.test(line))
      .map((line) => line.split(' | ')[0])
    assert.deepEqual(rows, [
      '| a plain proxy (`@fastify/http-proxy`), which guards nothing',
      '| onceway, first request, with Postgres and Redis',
      '| onceway, replay'
    ])
    assert.match(readmeTable(result, 'bench/results/one.md'), /\[full result\]\(bench\/results\/one\.md\)/)
  })
})
