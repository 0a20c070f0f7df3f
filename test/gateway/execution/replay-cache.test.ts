/** Settled answers in memory: what is found is what was kept, for no longer than it may be, in no more bytes than allowed. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Answer } from '../../../src/core/record/record.ts'
import { CacheGeneration } from '../../../src/gateway/execution/cache-generation.ts'
import { ReplayCache, TEXT_BYTES_MAX } from '../../../src/gateway/execution/replay-cache.ts'
import type { Clock } from '../../../src/ports/clock.ts'
import { Chance } from '../../simulation/chance.ts'

const KIB = 1024
const MIB = 1024 * KIB
const LEASE_MS = 30_000
const KEPT_MS = 24 * 60 * 60_000

class HandClock implements Pick<Clock, 'monotonicMs' | 'wallMs'> {
  now = 1_000_000
  wallAheadMs = 500_000
  monotonicMs (): number { return this.now }
  wallMs (): number { return this.now + this.wallAheadMs }
}

const nameOf = (number: number): string => `name-${number}`.padEnd(43, '.')
const fingerprintOf = (number: number): Buffer => Buffer.alloc(32, number % 256)
const answerOf = (number: number, bytes: number, head = 'same'): Answer => {
  const body = Buffer.alloc(bytes, `${number}.`)
  return { status: 200 + number % 5, headers: ['Content-Type', 'text/plain', 'X-Head', head], body }
}

/** Every third execution was recorded. */
const traceOf = (number: number): string | null => number % 3 === 0 ? `00-${String(number).padStart(32, '0')}-${'b2'.repeat(8)}-01` : null

function keep (cache: ReplayCache, clock: HandClock, number: number, answer: Answer, leaseMs = LEASE_MS): void {
  const settled = {
    state: 'completed', fingerprint: { alg: 2, value: fingerprintOf(number) }, answer, leaseMs, attempt: 1, trace: traceOf(number)
  } as const
  cache.keepSettled(nameOf(number), settled, KEPT_MS, clock.monotonicMs(), clock.wallMs())
}

function assertFound (cache: ReplayCache, number: number, { status, headers, body }: Answer): void {
  const found = cache.find(nameOf(number))
  assert.ok(found !== null && cache.has(nameOf(number)), `${number} is not found`)
  assert.deepEqual([found.answer.status, found.answer.headers], [status, headers])
  assert.ok(found.answer.body.equals(body), `the body of ${number}`)
  assert.deepEqual(found.fingerprint, { alg: 2, value: fingerprintOf(number) })
  assert.equal(found.trace, traceOf(number))
}

describe('replay cache', () => {
  test('finds what was kept: bodies of all sizes, heads that repeat and heads that do not, every byte', () => {
    const clock = new HandClock()
    const cache = new ReplayCache(clock, 16 * MIB)
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const sizes = [0, 1, 7, 8, 9, 500, TEXT_BYTES_MAX, TEXT_BYTES_MAX + 1, 3 * MIB]
    const answers = [...sizes.flatMap((bytes, at) => [answerOf(at, bytes), answerOf(at, bytes, `own ${at}`)]), {
      status: 201,
      headers: ['X-Bytes', everyByte.subarray(128).toString('latin1')],
      body: everyByte
    }, { status: 204, headers: [], body: Buffer.alloc(0) }]
    for (const [number, answer] of answers.entries()) keep(cache, clock, number, answer)
    for (const [number, answer] of answers.entries()) assertFound(cache, number, answer)
    assert.equal(cache.find('another'), null)
  })

  test('an answer is believed for one lease, by both clocks, and the newest of a name counts', () => {
    const clock = new HandClock()
    const cache = new ReplayCache(clock, MIB)
    keep(cache, clock, 1, answerOf(1, 10))
    keep(cache, clock, 1, answerOf(2, 20))
    clock.now += LEASE_MS - 1
    assert.equal(cache.find(nameOf(1))?.answer.body.length, 20)
    clock.now += 1
    assert.equal(cache.find(nameOf(1)), null)
    keep(cache, clock, 1, answerOf(3, 30))
    // The machine was suspended: only the wall clock went on.
    clock.wallAheadMs += LEASE_MS
    assert.equal(cache.find(nameOf(1)), null)
    keep(cache, clock, 1, answerOf(4, 40))
    assert.equal(cache.find(nameOf(1))?.answer.body.length, 40)
  })

  test('what was forgotten is not found, in whichever half it is, and can be kept again', () => {
    const clock = new HandClock()
    const cache = new ReplayCache(clock, 64 * KIB)
    keep(cache, clock, 0, answerOf(0, 100))
    let others = 1
    while (others < 40) keep(cache, clock, others, answerOf(others++, 500))
    assertFound(cache, 0, answerOf(0, 100))
    keep(cache, clock, 0, answerOf(0, 200))
    cache.forget(nameOf(0))
    assert.equal(cache.find(nameOf(0)), null)
    assert.equal(cache.has(nameOf(0)), false)
    keep(cache, clock, 0, answerOf(0, 300))
    assertFound(cache, 0, answerOf(0, 300))
  })

  test('the last half of the bytes is always found, and never more than all of them', () => {
    for (const seed of [1, 2, 3]) {
      const chance = new Chance(seed, 0)
      const clock = new HandClock()
      const bytesMax = chance.one([64 * KIB, 300 * KIB, 5 * MIB])
      const cache = new ReplayCache(clock, bytesMax)
      const kept: Answer[] = []
      for (let number = 0; number < 20_000; number++) {
        const answer = answerOf(number, chance.whole(0, chance.one([10, 1_000, 20_000])), chance.one(['same', `own ${number}`]))
        keep(cache, clock, number, answer)
        kept.push(answer)
        if (number % 97 === 0) assertRecent(cache, kept, bytesMax)
      }
      assertRecent(cache, kept, bytesMax)
      const held = kept.filter((_, number) => cache.find(nameOf(number)) !== null).reduce((bytes, { body }) => bytes + body.length, 0)
      assert.ok(held <= bytesMax, `seed ${seed}: ${held} bytes of bodies within ${bytesMax}`)
    }
  })

  test('an answer that is larger than a half is not kept, and drives out nothing', () => {
    const clock = new HandClock()
    const cache = new ReplayCache(clock, MIB)
    keep(cache, clock, 1, answerOf(1, 100))
    for (let number = 2; number < 20; number++) keep(cache, clock, number, answerOf(number, MIB / 2))
    assert.equal(cache.find(nameOf(2)), null)
    assertFound(cache, 1, answerOf(1, 100))
  })

  test('nothing is kept within no bytes, and another bound starts anew', () => {
    const clock = new HandClock()
    const cache = new ReplayCache(clock, 0)
    keep(cache, clock, 1, answerOf(1, 0))
    assert.equal(cache.find(nameOf(1)), null)
    cache.resize(MIB)
    keep(cache, clock, 1, answerOf(1, 5))
    cache.resize(MIB)
    assertFound(cache, 1, answerOf(1, 5))
    cache.resize(2 * MIB)
    assert.equal(cache.find(nameOf(1)), null)
  })
})

test('a generation says why it takes no more', () => {
  const generation = new CacheGeneration(4 * KIB)
  const entry = {
    state: 'consumed',
    alg: 2,
    fingerprint: fingerprintOf(1),
    status: 200,
    headers: [],
    expiresAtMs: 3,
    endsAtMs: 1,
    endsAtWallMs: 2,
    trace: null
  } as const
  assert.equal(generation.add('a', { ...entry, body: 'x'.repeat(3 * KIB) }), 'added')
  assert.equal(generation.add('b', { ...entry, body: 'x'.repeat(KIB) }), 'full')
  assert.equal(generation.add('c', { ...entry, body: 'x'.repeat(5 * KIB) }), 'too-large')
  assert.equal(generation.read(generation.find('a')).state, 'consumed')
  generation.clear()
  assert.equal(generation.find('a'), -1)
  assert.equal(generation.add('b', { ...entry, body: Buffer.alloc(3 * KIB) }), 'added')
})

/** Each of the last ones, as long as together they need less than a half. A block's end and the table take their part. */
function assertRecent (cache: ReplayCache, kept: readonly Answer[], bytesMax: number): void {
  const OWN_BYTES = 400
  let bytes = 0
  for (let number = kept.length - 1; number >= 0; number--) {
    const answer = kept[number] as Answer
    bytes += answer.body.length + OWN_BYTES
    if (bytes > bytesMax / 2 - 2 * TEXT_BYTES_MAX) return
    if (answer.body.length < bytesMax / 4) assertFound(cache, number, answer)
  }
}
