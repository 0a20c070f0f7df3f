/** Who is replaced when, and when it is given up, in a time that passes as the test says. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StartError } from '../../src/ports/errors.ts'
import { Supervisor } from '../../src/process/cluster/supervisor.ts'
import type { WorkerEnd, WorkerHandle, WorkerEvents } from '../../src/process/cluster/worker-handle.ts'
import { ManualClock } from '../harness/manual-clock.ts'

const LISTENING = { url: 'http://127.0.0.1:1', where: [] }
const KILLED: WorkerEnd = { code: null, signal: 'SIGKILL', failed: null }
const LEFT: WorkerEnd = { code: 0, signal: null, failed: null }
/** Longer than a worker has to stand, and than any pause. */
const LONG_MS = 60_000

class FakeHandle implements WorkerHandle {
  readonly id: number
  readonly pid: number
  readonly number: number
  readonly events: WorkerEvents
  readonly told: string[] = []

  constructor (id: number, number: number, events: WorkerEvents) {
    this.id = id
    this.pid = 1000 + id
    this.number = number
    this.events = events
  }

  start (): void { this.told.push('start') }
  async ask (): Promise<null> { return null }
  drain (): void { this.told.push('drain') }
  kill (): void { this.told.push('kill') }
  loads (): void { this.events.loaded() }
  listens (): void { this.events.listening(LISTENING) }
  ends (ended: WorkerEnd = KILLED): void { this.events.ended(ended) }
}

class World {
  readonly clock = new ManualClock()
  /** All that were ever forked. */
  readonly forked: FakeHandle[] = []
  readonly ended: number[] = []
  completed = 0
  gaveUp: StartError | null = null
  readonly supervisor: Supervisor

  constructor (size: number) {
    const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
    this.supervisor = new Supervisor({
      size,
      clock: this.clock,
      log: silent,
      fork: (number, events) => {
        const hand = new FakeHandle(this.forked.length + 1, number, events)
        this.forked.push(hand)
        return hand
      },
      complete: () => { this.completed++ },
      ended: (hand) => { this.ended.push(hand.id) },
      gaveUp: (error) => { this.gaveUp = error }
    })
    this.supervisor.fill()
  }

  get last (): FakeHandle { return this.forked.at(-1) as FakeHandle }

  /** All of them listen, for as long as it takes to be taken for sound. */
  async stand (): Promise<void> {
    for (const hand of this.forked) hand.loads()
    for (const hand of this.forked) hand.listens()
    await this.clock.advance(LONG_MS)
  }
}

test('all of them load, one goes ahead, the others follow when it listens, and it is complete when all do', () => {
  const world = new World(3)
  const started = (): number[] => world.forked.filter(({ told }) => told.includes('start')).map(({ number }) => number)
  assert.deepEqual(world.forked.map(({ number }) => number), [1, 2, 3])
  world.forked[1]?.loads()
  world.forked[0]?.loads()
  assert.deepEqual(started(), [2], 'whoever has loaded first')
  world.forked[1]?.listens()
  assert.deepEqual(started(), [1, 2])
  world.forked[0]?.listens()
  assert.equal(world.completed, 0)
  world.forked[2]?.loads()
  assert.deepEqual(started(), [1, 2, 3], 'at once, behind others that serve')
  world.forked[2]?.listens()
  assert.equal(world.completed, 1)
  assert.deepEqual(world.supervisor.countStates(new Set([1, 3])), { ready: 2, starting: 0, silent: 1, waiting: 0 })
})

test('who has stood for a while is replaced at once, under its number, and again and again', async () => {
  const world = new World(2)
  await world.stand()
  for (let time = 1; time <= 20; time++) {
    const before = world.forked.length
    world.forked.findLast(({ number }) => number === 2)?.ends()
    assert.equal(world.forked.length, before + 1)
    assert.equal(world.last.number, 2)
    world.last.listens()
    await world.clock.advance(LONG_MS)
  }
  assert.equal(world.gaveUp, null)
  assert.equal(world.completed, 1, 'said once')
})

test('a crash loop beside one that serves is tried again after longer and longer pauses, for ever', async () => {
  const world = new World(2)
  await world.stand()
  const pauses: number[] = []
  for (let time = 0; time < 12; time++) {
    const [before, from] = [world.forked.length, world.clock.monotonicMs()]
    world.forked.findLast(({ number }) => number === 2)?.ends()
    while (world.forked.length === before) await world.clock.advance(100)
    pauses.push(world.clock.monotonicMs() - from)
  }
  assert.deepEqual(pauses.slice(0, 5), [0, 200, 400, 800, 1_600])
  assert.deepEqual(pauses.slice(-2), [10_000, 10_000])
  assert.equal(world.gaveUp, null)
})

test('who went ahead and ended makes room for the next one', () => {
  const world = new World(2)
  for (const hand of world.forked) hand.loads()
  assert.deepEqual(world.forked[1]?.told, [])
  world.forked[0]?.ends()
  assert.deepEqual(world.forked[1]?.told, ['start'])
})

test('a crash loop while nobody serves is given up, with exit code 1', async () => {
  const world = new World(2)
  for (let time = 0; time < 20 && world.gaveUp === null; time++) {
    for (const hand of world.supervisor.handles as FakeHandle[]) hand.loads()
    ;(world.supervisor.handles as FakeHandle[]).find(({ told }) => told.includes('start'))?.ends({ code: 7, signal: null, failed: null })
    await world.clock.advance(LONG_MS)
  }
  assert.ok(world.forked.length <= 2 * 6, String(world.forked.length))
  assert.equal(world.gaveUp?.exitCode, 1)
  assert.match(world.gaveUp?.message ?? '', /6 times in a row: the last one with exit code 7/)
})

test('workers that listen and die before they have stood are given up when none is left', async () => {
  const world = new World(2)
  for (let time = 0; time < 40 && world.gaveUp === null; time++) {
    const hands = world.supervisor.handles as FakeHandle[]
    for (const hand of hands) hand.loads()
    for (const hand of hands) hand.listens()
    for (const hand of hands) hand.ends()
    await world.clock.advance(LONG_MS)
  }
  assert.match(world.gaveUp?.message ?? '', /the last one with SIGKILL/)
})

test('what a worker says that cannot start is the end of the start, in its words and with its exit code', () => {
  const world = new World(2)
  for (const hand of world.forked) hand.loads()
  world.forked[0]?.ends({ code: 1, signal: null, failed: { message: 'The password is wrong.', exitCode: 2 } })
  assert.deepEqual([world.gaveUp?.message, world.gaveUp?.exitCode], ['The password is wrong.', 2])
  assert.equal(world.forked.length, 2, 'and nobody is tried again')
})

test('what keeps a successor from starting later is tried again while another one serves', async () => {
  const world = new World(2)
  await world.stand()
  world.forked[1]?.ends()
  for (let time = 0; time < 10; time++) {
    world.last.ends({ code: 1, signal: null, failed: { message: 'The password is wrong.', exitCode: 1 } })
    await world.clock.advance(LONG_MS)
  }
  assert.equal(world.gaveUp, null)
  assert.equal(world.supervisor.handles.length, 2)
})

test('a drain tells everybody, replaces nobody, and is over when the last one is gone', async () => {
  const world = new World(2)
  await world.stand()
  const drained = world.supervisor.drain(LONG_MS)
  assert.deepEqual(world.forked.map(({ told }) => told), [['start', 'drain'], ['start', 'drain']])
  world.forked[0]?.ends(LEFT)
  world.forked[1]?.ends(LEFT)
  assert.equal(await drained, true)
  assert.deepEqual([world.forked.length, world.ended], [2, [1, 2]])
})

test('a drain that finds nobody, because the next one was held back, is over at once', async () => {
  const world = new World(1)
  world.last.ends()
  world.last.ends()
  assert.equal(world.supervisor.handles.length, 0)
  assert.equal(await world.supervisor.drain(LONG_MS), true)
  await world.clock.advance(LONG_MS)
  assert.equal(world.forked.length, 2)
})

test('who does not end in time is ended, and that is no clean end', async () => {
  const world = new World(2)
  await world.stand()
  const drained = world.supervisor.drain(1_000)
  world.forked[0]?.ends(LEFT)
  await world.clock.advance(1_000)
  assert.deepEqual(world.forked[1]?.told, ['start', 'drain', 'kill'])
  world.forked[1]?.ends()
  assert.equal(await drained, false)
})
