import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WorkerSnapshots } from '../../src/telemetry/aggregate.ts'
import { createPrimaryMetrics, createWorkerMetrics } from '../../src/telemetry/metrics.ts'
import type { WorkerMetrics } from '../../src/telemetry/metrics.ts'

class World {
  readonly gathered = new WorkerSnapshots()
  readonly primary = createPrimaryMetrics()
  readonly workers = new Map<number, WorkerMetrics>()

  /** `id`: of the process; `number`: its place, which a successor takes. */
  worker (id: number, number: number): WorkerMetrics {
    const metrics = createWorkerMetrics(number)
    this.workers.set(id, metrics)
    return metrics
  }

  /** As a scrape does it: these answer, through the channel. */
  async scrape (...answering: number[]): Promise<string> {
    for (const id of answering) this.gathered.update(id, structuredClone(await (this.workers.get(id) as WorkerMetrics).snapshot()))
    return (await this.gathered.expose(await this.primary.snapshot(), new Set(answering))).text
  }
}

function shows (text: string, ...lines: string[]): void {
  for (const line of lines) assert.ok(text.includes(`\n${line}\n`), `${line}\n\n${text}`)
}

test('counters and histograms are sums, by label', async () => {
  const world = new World()
  const [one, two] = [world.worker(1, 1), world.worker(2, 2)]
  one.request('charges', 'executed', 20)
  two.request('charges', 'executed', 200)
  two.request('charges', 'replayed', 0.2)
  two.shed('connections', 'full')
  shows(await world.scrape(1, 2),
    'onceway_requests_total{route="charges",outcome="executed"} 2',
    'onceway_requests_total{route="charges",outcome="replayed"} 1',
    'onceway_request_duration_seconds_bucket{le="0.05",route="charges"} 2',
    'onceway_request_duration_seconds_bucket{le="+Inf",route="charges"} 3',
    'onceway_request_duration_seconds_count{route="charges"} 3',
    'onceway_shed_total{limit="connections",by="full"} 1',
    'onceway_ignored_requests_total 0')
})

test('gauges of what each has are sums; of what all of them see in one store or Redis it is the largest', async () => {
  const world = new World()
  const [one, two] = [world.worker(1, 1), world.worker(2, 2)]
  one.executions(1)
  two.executions(1)
  two.unsettledBytes(7)
  one.unresolved({ count: 3, oldestMs: 2_000 })
  two.unresolved({ count: 3, oldestMs: 1_000 })
  two.breaker(true)
  shows(await world.scrape(1, 2),
    'onceway_executions 2',
    'onceway_unsettled_bytes 7',
    'onceway_indeterminate_unresolved 3',
    'onceway_indeterminate_oldest_seconds 2',
    'onceway_redis_breaker_open 1')
})

test('which build and which configuration it is stands there once, and is no sum', async () => {
  const world = new World()
  world.worker(1, 1)
  world.worker(2, 2)
  world.primary.reloaded('ok')
  const text = await world.scrape(1, 2)
  assert.equal(text.match(/^onceway_build_info\{.*\} 1$/gm)?.length, 1)
  assert.equal(text.match(/^onceway_config_loaded_timestamp_seconds \d+(\.\d+)?$/gm)?.length, 1)
  assert.ok(Number(/^onceway_config_loaded_timestamp_seconds (.*)$/m.exec(text)?.[1]) <= Date.now() / 1000)
  shows(text, 'onceway_config_reloads_total{result="ok"} 1', 'onceway_config_reloads_total{result="refused"} 0')
})

test('every metric of a single process is there, under the same name and type, and each has its head once', async () => {
  const { createMetrics } = await import('../../src/telemetry/metrics.ts')
  const typesOf = (text: string): string[] => Array.from(text.matchAll(/^# TYPE (.*)$/gm), ([, type]) => type as string).sort()
  const single = typesOf((await createMetrics().expose()).text)
  const world = new World()
  world.worker(1, 1)
  const several = typesOf(await world.scrape(1))
  assert.equal(new Set(several).size, several.length)
  assert.deepEqual(single.filter((type) => !several.includes(type)), [])
  assert.deepEqual(several.filter((type) => !single.includes(type)), ['onceway_workers gauge', 'onceway_workers_ended_total counter'])
})

test('the numbers of the processes stand beside each other', async () => {
  const world = new World()
  world.worker(1, 1)
  world.worker(2, 2)
  const text = await world.scrape(1, 2)
  for (const name of ['process_cpu_seconds_total', 'process_start_time_seconds', 'nodejs_eventloop_lag_p99_seconds']) {
    assert.deepEqual(
      Array.from(text.matchAll(new RegExp(`^${name}\\{worker="([^"]+)"\\} `, 'gm')), ([, worker]) => worker).sort(),
      ['1', '2', 'primary'],
      name
    )
  }
})

test('what a worker counted stays when it has ended, and its successor adds to it; its gauges go', async () => {
  const world = new World()
  const [one, two] = [world.worker(1, 1), world.worker(2, 2)]
  for (const worker of [one, two]) {
    worker.request('charges', 'executed', 20)
    worker.executions(1)
  }
  await world.scrape(1, 2)
  world.gathered.remove(1)
  shows(await world.scrape(2), 'onceway_requests_total{route="charges",outcome="executed"} 2', 'onceway_executions 1')
  const successor = world.worker(3, 1)
  successor.request('charges', 'executed', 20)
  shows(
    await world.scrape(2, 3),
    'onceway_requests_total{route="charges",outcome="executed"} 3',
    'onceway_request_duration_seconds_count{route="charges"} 3'
  )
  world.gathered.remove(3)
  world.gathered.remove(2)
  const text = await world.scrape()
  shows(text, 'onceway_requests_total{route="charges",outcome="executed"} 3')
  assert.doesNotMatch(text, /^onceway_executions /m)
  assert.doesNotMatch(text, /worker="[12]"/)
})

test('one that does not answer keeps its counts where they stood; its gauges and its process are left out', async () => {
  const world = new World()
  const [one, two] = [world.worker(1, 1), world.worker(2, 2)]
  for (const worker of [one, two]) {
    worker.request('charges', 'executed', 20)
    worker.executions(1)
  }
  await world.scrape(1, 2)
  one.request('charges', 'executed', 20)
  const text = await world.scrape(2)
  shows(text, 'onceway_requests_total{route="charges",outcome="executed"} 2', 'onceway_executions 1')
  assert.doesNotMatch(text, /worker="1"/)
  shows(await world.scrape(1, 2), 'onceway_requests_total{route="charges",outcome="executed"} 3', 'onceway_executions 2')
})

test('one that ends before anybody asked has told nothing, and another that asks never counts it', async () => {
  const world = new World()
  world.worker(1, 1).request('charges', 'executed', 20)
  world.gathered.remove(1)
  assert.doesNotMatch(await world.scrape(), /route="charges"/)
})

test('how many workers are in which state', async () => {
  const world = new World()
  world.primary.workers('ready', 2)
  world.primary.workers('silent', 1)
  world.primary.workerEnded()
  shows(await world.scrape(), 'onceway_workers{state="ready"} 2', 'onceway_workers{state="silent"} 1', 'onceway_workers_ended_total 1')
})

test('which promise holds is the same of several workers, not their sum; a worker that is gone says nothing of it', async () => {
  const world = new World()
  const [one, two] = [world.worker(1, 1), world.worker(2, 2)]
  one.standing({ promise: 'weakened', reasons: ['fsync-off'], remarks: [] })
  two.standing({ promise: 'weakened', reasons: ['fsync-off'], remarks: [] })
  shows(
    await world.scrape(1, 2),
    'onceway_promise{promise="weakened"} 1',
    'onceway_promise{promise="strict"} 0',
    'onceway_promise_weakened{reason="fsync-off"} 1'
  )
})
