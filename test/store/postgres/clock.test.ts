/** What gateways find of the clock of one database, and agree on: real statements, and clocks that the test sets. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import { SYSTEM_CLOCK, SYSTEM_RANDOM } from '../../../src/process/clock.ts'
import { ArbiterClock } from '../../../src/gateway/shared/arbiter-clock.ts'
import { confirmClockOf, readClockOf } from '../../../src/store/postgres/clock.ts'
import { connectPostgres } from '../../../src/store/postgres/open.ts'
import type { PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import { claimOf, rowAt, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { countingMeter, recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { steppingDatabase } from '../../harness/stepping-postgres.ts'
import { optionsOf } from './world.ts'

const LEASE_MS = 6_000
const KEEP_MS = 86_400_000
const HOUR_MS = 3_600_000
/** A finding waits so long for somebody who says otherwise. */
const SHARED_AFTER_MS = 15_000
/** What a busy machine takes between two readings that are compared here. */
const ABOUT_MS = 5_000

interface Seat {
  readonly clock: ArbiterClock
  readonly store: PostgresRecordStore
  readonly log: ReturnType<typeof recordingLog>
  readonly counted: (name: string) => number
  readonly beat: () => Promise<void>
  /** Its machine stands still, and its clocks with it. */
  readonly standStill: (ms: number) => void
  readonly stoodStill: () => number
}

describe('the clock of a database and its gateways', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })

  async function world (t: TestContext) {
    const { url, step } = await steppingDatabase(await (server ??= startPostgres()), 'clock')
    const { schema } = optionsOf(url)
    let passedMs = 0
    const enter = async (instance: string): Promise<Seat> => {
      const [log, meter] = [recordingLog(), countingMeter()]
      let [missedMs, stood] = [0, 0]
      const clock = new ArbiterClock({
        clock: {
          ...SYSTEM_CLOCK,
          monotonicMs: () => SYSTEM_CLOCK.monotonicMs() + passedMs - missedMs,
          bootMs: () => SYSTEM_CLOCK.bootMs() + passedMs - missedMs
        },
        random: SYSTEM_RANDOM,
        log,
        meter,
        instance,
        shortestLeaseMs: LEASE_MS,
        longestKeepMs: KEEP_MS
      })
      clock.onTrustReset = () => { stood++ }
      const store = await connectPostgres(optionsOf(url, { schema, believedMs: clock.believedMs })).open()
      t.after(() => store.close())
      const beat = async (): Promise<void> => { await clock.beat(store) }
      await beat()
      return {
        clock,
        store,
        log,
        counted: (name) => meter.counts.get(name) ?? 0,
        beat,
        standStill: (ms) => { missedMs += ms },
        stoodStill: () => stood
      }
    }
    const client = new Client({ connectionString: url })
    await client.connect()
    t.after(() => client.end())
    return {
      url,
      enter,
      step,
      /** On every clock. */
      pass: async (ms: number) => {
        passedMs += ms
        await step(ms)
      },
      report: async () => readClockOf(client, schema),
      confirm: async () => confirmClockOf(client, schema, { who: 'ada', why: 'NTP was off' })
    }
  }

  async function kept ({ store }: Seat) {
    const claim = claimOf()
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'completed', { keepMs: KEEP_MS }))
    return claim
  }

  const isAhead = ({ clock }: Seat, ms: number): void => {
    assert.ok(Math.abs(clock.aheadMs - ms) < ABOUT_MS, `${clock.aheadMs} ms ahead, not ${ms}`)
  }

  test('a step ahead ends nothing between two signs of life; all who find it believe their own clocks, and say so once', async (t) => {
    const { enter, step, pass, report } = await world(t)
    const [one, two] = [await enter('one'), await enter('two')]
    await Promise.all([one.beat(), two.beat()])
    const claim = await kept(one)
    await step(25 * HOUR_MS)
    for (const { store } of [one, two]) assert.equal((await rowAt(store, claim.id)).past, false, 'nobody has read the clock since')
    for (const each of [one, two, one, two]) await each.beat()
    for (const each of [one, two]) {
      isAhead(each, 25 * HOUR_MS)
      assert.deepEqual(
        each.log.lines.filter(({ level }) => level === 'error').map(({ message }) => message.slice(0, 38)),
        ['the clock of the store has stepped ahe']
      )
      assert.equal(each.counted('arbiterStepped'), 1)
    }
    assert.equal((await report()).aheadMs, 0, 'somebody may say otherwise yet')
    await pass(SHARED_AFTER_MS)
    for (const each of [one, two, one, two]) await each.beat()
    assert.ok((await report()).aheadMs > 24 * HOUR_MS)
    assert.deepEqual([(await rowAt(one.store, claim.id)).past, await two.store.sweep(10)], [false, []])
  })

  test('a gateway that starts after the step takes the word of those who saw it, before it holds for all and after', async (t) => {
    const { enter, step, pass } = await world(t)
    const one = await enter('one')
    const claim = await kept(one)
    await step(25 * HOUR_MS)
    await one.beat()
    const early = await enter('early')
    isAhead(early, 25 * HOUR_MS)
    assert.equal((await rowAt(early.store, claim.id)).past, false)
    await pass(SHARED_AFTER_MS)
    await one.beat()
    const late = await enter('late')
    isAhead(late, 25 * HOUR_MS)
    assert.equal((await rowAt(late.store, claim.id)).past, false)
    await early.beat()
    isAhead(early, 25 * HOUR_MS)
  })

  test('what steps once more is said at once, and whoever has the word of others alone believes it no further', async (t) => {
    const { enter, step, pass } = await world(t)
    const one = await enter('one')
    for (const hours of [25, 50]) {
      await step(25 * HOUR_MS)
      await one.beat()
      isAhead(await enter(`behind ${hours}`), hours * HOUR_MS)
    }
    await pass(SHARED_AFTER_MS)
    await one.beat()
    const late = await enter('late')
    isAhead(late, 50 * HOUR_MS)
    const believedMs = late.clock.believedMs() ?? 0
    await step(20 * HOUR_MS)
    await late.beat()
    assert.ok(Math.abs((late.clock.believedMs() ?? 0) - believedMs) < ABOUT_MS)
  })

  test('one that had read the stepped clock before anybody found it takes their word at its next sign of life', async (t) => {
    const { enter, step, pass } = await world(t)
    const one = await enter('one')
    await step(25 * HOUR_MS)
    const hasty = await enter('hasty')
    assert.equal(hasty.clock.aheadMs, 0)
    await one.beat()
    await pass(SHARED_AFTER_MS)
    await one.beat()
    await hasty.beat()
    await hasty.beat()
    isAhead(hasty, 25 * HOUR_MS)
    await one.beat()
    isAhead(one, 25 * HOUR_MS)
  })

  test('whoever stood still accuses itself alone: the others find nothing wrong, and it begins anew', async (t) => {
    const { enter, pass, report } = await world(t)
    const [one, two] = [await enter('one'), await enter('two')]
    for (const each of [one, two]) await each.beat()
    one.standStill(2 * HOUR_MS)
    await pass(2 * HOUR_MS)
    await one.beat()
    isAhead(one, 2 * HOUR_MS)
    for (let beat = 0; beat < 3; beat++) {
      await pass(2_500)
      await two.beat()
    }
    await one.beat()
    assert.deepEqual([one.clock.aheadMs, one.stoodStill(), two.clock.aheadMs], [0, 1, 0])
    assert.match(one.log.lines.at(-1)?.message ?? '', /stood still/)
    await pass(SHARED_AFTER_MS)
    for (const each of [one, two, one, two]) await each.beat()
    assert.equal((await report()).aheadMs, 0)
  })

  test('one alone that stood still is believed, and a gateway that was there before ends it when it is heard again', async (t) => {
    const { enter, pass, report } = await world(t)
    const [one, silent] = [await enter('one'), await enter('silent')]
    await one.beat()
    one.standStill(2 * HOUR_MS)
    await pass(2 * HOUR_MS)
    await one.beat()
    await pass(SHARED_AFTER_MS)
    await one.beat()
    assert.ok((await report()).aheadMs > HOUR_MS)
    for (let beat = 0; beat < 3; beat++) await silent.beat()
    assert.equal((await report()).aheadMs, 0)
    await one.beat()
    assert.deepEqual([one.clock.aheadMs, silent.clock.aheadMs], [0, 0])
  })

  test('an operator\'s confirmation is everybody\'s, and one that has not heard of it does not undo it', async (t) => {
    const { enter, step, pass, report, confirm } = await world(t)
    const [one, two] = [await enter('one'), await enter('two')]
    const claim = await kept(one)
    await step(25 * HOUR_MS)
    for (const each of [one, two]) await each.beat()
    await pass(SHARED_AFTER_MS)
    for (const each of [one, two]) await each.beat()
    const late = await enter('late')
    await confirm()
    for (const each of [one, two, late, one, two, late]) await each.beat()
    for (const { clock } of [one, two, late]) assert.equal(clock.aheadMs, 0)
    const { aheadMs, confirmations, confirmed, gateways } = await report()
    assert.deepEqual([aheadMs, confirmations, confirmed?.who, confirmed?.why], [0, 1, 'ada', 'NTP was off'])
    assert.deepEqual(gateways.map((each) => each.aheadMs), [0, 0, 0])
    assert.equal((await rowAt(one.store, claim.id)).past, true)
  })

  test('what steps behind the operator\'s word is a step, also where nobody has heard of it yet', async (t) => {
    const { enter, step, report, confirm } = await world(t)
    const [one, two] = [await enter('one'), await enter('two')]
    const claim = await kept(one)
    for (const each of [one, two]) await each.beat()
    await confirm()
    await step(2 * HOUR_MS)
    for (const each of [one, two]) {
      await each.beat()
      isAhead(each, 2 * HOUR_MS)
    }
    assert.equal((await rowAt(one.store, claim.id)).past, false)
    assert.equal((await report()).confirmations, 1)
  })

  test('a clock that is set back is believed again by those who have started behind the step', async (t) => {
    const { enter, step, pass, report } = await world(t)
    const one = await enter('one')
    await step(25 * HOUR_MS)
    await one.beat()
    await pass(SHARED_AFTER_MS)
    await one.beat()
    const [late, later] = [await enter('late'), await enter('later')]
    await pass(HOUR_MS)
    await late.beat()
    isAhead(late, 25 * HOUR_MS)
    await step(-25 * HOUR_MS)
    for (const each of [late, late, later]) await each.beat()
    assert.deepEqual([late.clock.aheadMs, later.clock.aheadMs, (await report()).aheadMs], [0, 0, 0])
    assert.equal((await enter('last')).clock.aheadMs, 0)
  })

  test('a clock that is set back is believed again, by those who come after it as well', async (t) => {
    const { enter, step, pass, report } = await world(t)
    const one = await enter('one')
    await step(25 * HOUR_MS)
    await one.beat()
    await pass(SHARED_AFTER_MS)
    await one.beat()
    assert.ok((await report()).aheadMs > 0)
    await step(-25 * HOUR_MS)
    await one.beat()
    await one.beat()
    assert.equal(one.clock.aheadMs, 0)
    assert.equal((await enter('late')).clock.aheadMs, 0)
  })

  test('when everything that was kept is over by the gateway\'s own clock, the time is believed as it is', async (t) => {
    const { enter, step, pass } = await world(t)
    const one = await enter('one')
    const claim = await kept(one)
    await step(25 * HOUR_MS)
    await one.beat()
    await pass(SHARED_AFTER_MS)
    await one.beat()
    await pass(KEEP_MS - SHARED_AFTER_MS - 60_000)
    await one.beat()
    assert.ok(one.clock.aheadMs > 24 * HOUR_MS)
    assert.equal((await rowAt(one.store, claim.id)).past, false)
    await pass(61_000)
    await one.beat()
    await one.beat()
    assert.equal(one.clock.aheadMs, 0)
    assert.equal((await rowAt(one.store, claim.id)).past, true)
    assert.equal((await enter('late')).clock.aheadMs, 0)
  })

  test('the time that was seen is that of gateways that found it right', async (t) => {
    const { enter, step } = await world(t)
    const one = await enter('one')
    const { nowMs, seenMs } = await one.store.timeSeen()
    assert.ok(seenMs !== null && seenMs <= nowMs && nowMs - seenMs < ABOUT_MS)
    await step(HOUR_MS)
    await one.beat()
    await step(-HOUR_MS)
    const later = await one.store.timeSeen()
    assert.equal(later.seenMs, null, 'its one gateway does not find it right')
  })

  test('gateways that have long been silent are forgotten, but for the last one that found the time right', async (t) => {
    const { enter, pass, report } = await world(t)
    for (const name of ['first', 'second']) await enter(name)
    await pass(2 * HOUR_MS)
    const client = await enter('third')
    const names = async (): Promise<string[]> => (await report()).gateways.map(({ instance }) => instance)
    assert.deepEqual(await names(), ['third', 'second', 'first'])
    await client.store.sweep(10)
    assert.deepEqual(await names(), ['third'])
    await pass(2 * HOUR_MS)
    await client.store.sweep(10)
    assert.deepEqual(await names(), ['third'])
  })
})
