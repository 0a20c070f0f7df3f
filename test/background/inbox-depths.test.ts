/** What is told of how much is in the inboxes, and of what nobody delivers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { inboxDepths } from '../../src/background/inbox-depths.ts'
import { StoreUnavailable } from '../../src/ports/errors.ts'
import { inboxRoutes } from '../../src/gateway/shared/deps.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { after, Consumer, inboxRoute, message, shared, startWorker } from '../inbox/world.ts'

const named = (name: string) => inboxRoute({}, {}, undefined, name)

/** A process whose deliverer has no route, so that what is accepted stays. */
function startDepths (t: TestContext, routes: readonly string[], depths: { away: boolean, takesMs?: number } = { away: false }) {
  const store = shared()
  const metrics = createMetrics({ processMetrics: false })
  const asked = { count: 0 }
  const between = new Proxy(store.inbox, {
    get: (target, name) => name !== 'depths'
      ? (target[name as keyof typeof target] as (...args: unknown[]) => unknown).bind(target)
      : async () => {
        asked.count++
        if (depths.takesMs !== undefined) await after(store.clock, depths.takesMs)
        if (depths.away) throw new StoreUnavailable('memory', 'depths', false)
        return target.depths()
      }
  })
  const { gateway, log } = startWorker(t, store, new Consumer(store.clock, () => null), {
    routes: routes.map(named),
    between: () => between,
    world: { meter: metrics }
  })
  const service = inboxDepths(gateway).start()
  t.after(async () => { await service.stop() })
  const reload = (...next: readonly string[]): void => { gateway.reconfigure({ ...gateway.deps, inboxes: inboxRoutes(next.map(named)) }) }
  const series = async (): Promise<string[]> =>
    (await metrics.expose()).text.split('\n').filter((line) => /^onceway_inbox_(messages\{.*waiting|bytes|oldest)/.test(line)).sort()
  const warnings = () => log.lines.filter(({ message: said }) => said.startsWith('messages wait for a route'))
  return { store, gateway, log, reload, series, warnings, asked }
}

const empty = (route: string): string[] => [
  `onceway_inbox_bytes{route="${route}"} 0`,
  `onceway_inbox_messages{route="${route}",state="waiting"} 0`,
  `onceway_inbox_oldest_seconds{route="${route}"} 0`
]

test('every route with an inbox has its numbers, 0 when it is empty; a route that is gone with nothing in it has none', async (t) => {
  const { store, reload, series } = startDepths(t, ['a'])
  await store.clock.advance(1)
  assert.deepEqual(await series(), empty('a'))
  reload('a', 'b')
  await store.clock.advance(1_000)
  assert.deepEqual(await series(), [...empty('a'), ...empty('b')].sort())
  reload('b')
  await store.clock.advance(1_000)
  assert.deepEqual(await series(), empty('b'))
  reload()
  await store.clock.advance(1_000)
  assert.deepEqual(await series(), [])
})

test('what waits for a route that has no inbox is counted, and told once for as long as it waits', async (t) => {
  const { store, reload, series, warnings } = startDepths(t, ['a'])
  await store.inbox.accept(message('one', { route: 'gone' }))
  await store.clock.advance(3_000)
  assert.deepEqual(warnings().map(({ level, route, waiting }) => [level, route, waiting]), [['warn', 'gone', 1]])
  assert.ok((await series()).includes('onceway_inbox_messages{route="gone",state="waiting"} 1'))
  // Without any inbox the store is asked for as long as something is in it.
  reload()
  await store.clock.advance(2_000)
  assert.equal(warnings().length, 1)
  await store.inbox.discard({ limit: 10 }, { who: 'me', why: 'a test' })
  await store.clock.advance(2_000)
  await store.inbox.accept(message('two', { route: 'gone' }))
  reload('a')
  await store.clock.advance(2_000)
  assert.equal(warnings().length, 2)
})

test('messages of a configuration that has lost its last inbox are told at the start; where there is nothing, nobody asks again', async (t) => {
  const left = startDepths(t, [])
  await left.store.inbox.accept(message('one', { route: 'gone' }))
  await left.store.clock.advance(1)
  assert.equal(left.warnings().length, 1)
  const nothing = startDepths(t, [])
  await nothing.store.clock.advance(5_000)
  assert.equal(nothing.asked.count, 1)
})

test('a store that is away is asked again, without a line each second', async (t) => {
  const depths = { away: true }
  const { store, log, series } = startDepths(t, ['a'], depths)
  await store.clock.advance(5_000)
  assert.deepEqual([await series(), log.lines.filter(({ background }) => background === 'inbox-depths')], [[], []])
  depths.away = false
  await store.clock.advance(1_000)
  assert.deepEqual(await series(), empty('a'))
})

// After a database that was silent for 8 s, an empty inbox of 60 places refused what came next, for two minutes and a half.
test('a count that a silent store held up does not put off the next ones', async (t) => {
  const depths: { away: boolean, takesMs?: number } = { away: false }
  const { store, asked } = startDepths(t, ['a'], depths)
  await store.clock.advance(1_001)
  assert.equal(asked.count, 2)
  for (const away of [false, true]) {
    depths.away = away
    depths.takesMs = 8_000
    await store.clock.advance(9_000)
    const before = asked.count
    depths.away = false
    depths.takesMs = 0
    await store.clock.advance(10_000)
    assert.ok(asked.count >= before + 8, `${asked.count - before} counts in 10 s`)
  }
})

test('counts that take long are rare', async (t) => {
  const { store, asked } = startDepths(t, ['a'], { away: false, takesMs: 500 })
  await store.clock.advance(60_000)
  assert.ok(asked.count >= 5 && asked.count <= 7, `${asked.count} counts in a minute`)
})
