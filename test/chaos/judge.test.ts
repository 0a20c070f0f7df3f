/** The judge places each event at a possible time, and finds what only real processes show. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printOf } from '../harness/history.ts'
import type { HistoryEvent, Told } from '../harness/history.ts'
import type { Written } from './audit.ts'
import type { Incarnation } from './gateways.ts'
import { unknownAt } from './differ.ts'
import { judge } from './judge.ts'
import type { Evidence } from './judge.ts'
import { routeNamed } from './routes.ts'
import type { Executed } from './witness.ts'

const PRINT = printOf(201, [], Buffer.from('one'))
const ASKED = '/retry/things body'

function asked (call: string, atMs: number): HistoryEvent {
  return { kind: 'asked', atMs, call, record: 'r', scope: 's', asked: ASKED }
}

function told (call: string, atMs: number, what: Partial<Told>): HistoryEvent {
  return { kind: 'told', atMs, call, told: { kind: 'unsent', print: null, execution: null, ...what } }
}

function written (atMs: number, state: Written['state'], attempt: number, more: Partial<Written> = {}): Written {
  return {
    atMs,
    gone: false,
    record: 'r',
    state,
    owner: `owner-${attempt}`,
    attempt,
    by: state === 'claimed' ? null : 'owner',
    keepMs: 1e9,
    instance: 'vm-1',
    print: state === 'completed' ? PRINT : null,
    ...more
  }
}

function executed (execution: number, atMs: number, call: string, attempt: number): Executed {
  return { execution, record: 'r', attempt, call, atMs, scope: 's', target: '/retry/things', body: 'body' }
}

function process (frozen: Incarnation['frozen'] = [], waits: Incarnation['waits'] = []): ReadonlyMap<string, readonly Incarnation[]> {
  return new Map([['gateway-0', [{ pid: 1, fromMs: 0, untilMs: null, frozen, waits }]]])
}

function evidence (parts: Partial<Evidence>): Evidence {
  return {
    events: [],
    witnessed: [],
    stamps: [],
    audit: [],
    rows: [],
    claimed: [],
    abandoned: [],
    incarnations: process(),
    gatewayOf: () => 'gateway-0',
    endedAtMs: 100_000,
    ...parts
  }
}

function found (parts: Partial<Evidence>): string[] {
  return judge(evidence(parts)).found.map(({ invariant }) => invariant)
}

/** Attempt 1 is claimed, lapses, attempt 2 is claimed at 5 s and executed. Attempt 1 is seen on the network at `lateMs`. */
function lateSending (lateMs: number): Partial<Evidence> {
  return {
    events: [
      asked('a', 0),
      asked('b', 5_000),
      told('b', 5_200, { kind: 'stored', print: PRINT, execution: 1 }),
      told('a', lateMs + 100, { kind: 'unknown' })
    ],
    audit: [
      written(1, 'claimed', 1),
      written(4_000, 'indeterminate', 1, { by: 'lease' }),
      written(5_001, 'claimed', 2),
      written(5_100, 'completed', 2)
    ],
    witnessed: [executed(1, 5_010, 'b', 2), { execution: 1, repliedMs: 5_050, status: 201 }, executed(2, lateMs, 'a', 1)],
    stamps: [
      { atMs: 5_005, call: 'b', record: 'r', attempt: 2, from: 'gateway-0' },
      { atMs: lateMs, call: 'a', record: 'r', attempt: 1, from: 'gateway-0' }
    ],
    rows: [written(0, 'completed', 2)]
  }
}

test('a sending long after a later claim breaks I2 and I4', () => {
  assert.deepEqual(found(lateSending(7_000)), ['I2', 'I4'])
})

test('a sending that was seen a moment late is judged by when it can have been', () => {
  assert.deepEqual(found(lateSending(5_060)), [])
})

test('a process that was frozen over its lease and writes when it is woken is excused, and counted', () => {
  const parts = { ...lateSending(7_000), incarnations: process([{ fromMs: 500, untilMs: 6_900 }]) }
  assert.deepEqual(found(parts), [])
  assert.equal(judge(evidence(parts)).excused, 1)
})

test('being woken excuses nobody for long', () => {
  assert.deepEqual(found({ ...lateSending(7_000), incarnations: process([{ fromMs: 500, untilMs: 6_000 }]) }), ['I2', 'I4'])
})

test('what was held up on the network is judged by when it was sent', () => {
  const parts = lateSending(3_000)
  assert.deepEqual(found({ ...parts, witnessed: [...(parts.witnessed ?? []).slice(0, 2), executed(2, 8_000, 'a', 1)] }), [])
})

test('an answer that took too long breaks I8, unless its gateway was frozen meanwhile, or waited for a core', () => {
  const events = [asked('a', 0), told('a', 20_000, {})]
  assert.deepEqual(found({ events }), ['I8'])
  assert.deepEqual(found({ events, incarnations: process([{ fromMs: 1_000, untilMs: 6_000 }]) }), [])
  assert.deepEqual(found({ events, incarnations: process([], [{ fromMs: 1_000, untilMs: 9_000, ms: 5_000 }]) }), [])
  assert.deepEqual(found({ events, incarnations: process([], [{ fromMs: 1_000, untilMs: 9_000, ms: 2_000 }]) }), ['I8'])
})

test('a request without an end breaks I8', () => {
  assert.deepEqual(found({ events: [asked('a', 0)] }), ['I8'])
})

test('a sending without any row breaks I1', () => {
  assert.deepEqual(found({ events: [asked('a', 0), told('a', 10, { kind: 'unknown' })], witnessed: [executed(1, 5, 'a', 1)] }), ['I1'])
})

test('an answer that was called stored before it was written breaks I11', () => {
  const parts = {
    audit: [written(1, 'claimed', 1), written(50, 'completed', 1)],
    witnessed: [executed(1, 5, 'a', 1)],
    rows: [written(0, 'completed', 1)]
  }
  assert.deepEqual(found({ ...parts, events: [asked('a', 0), told('a', 60, { kind: 'stored', print: PRINT, execution: 1 })] }), [])
  assert.deepEqual(found({ ...parts, events: [asked('a', 0), told('a', 20, { kind: 'stored', print: PRINT, execution: 1 })] }), ['I11'])
})

test('an answer of another caller\'s record breaks I5', () => {
  const theirs = { record: 'other', owner: 'theirs' }
  const broken = found({
    events: [
      asked('a', 0),
      told('a', 60, { kind: 'replayed', print: PRINT, execution: 1 }),
      { ...asked('b', 0), record: 'other', scope: 'another' } as HistoryEvent,
      told('b', 60, { kind: 'stored', print: PRINT, execution: 1 })
    ],
    audit: [written(1, 'claimed', 1, theirs), written(50, 'completed', 1, theirs)],
    witnessed: [{ ...executed(1, 5, 'b', 1), record: 'other', scope: 'another' }],
    rows: [written(0, 'completed', 1, theirs)]
  })
  assert.ok(broken.includes('I5'), broken.join(', '))
})

test('a row that stays claimed breaks I9, one that a living process abandoned breaks P6', () => {
  assert.deepEqual(found({ claimed: [written(0, 'claimed', 1)], abandoned: [written(0, 'indeterminate', 1)] }), ['I9', 'P6'])
})

test('a key that is a message as well was executed only if that freed it', () => {
  const asked: HistoryEvent = { kind: 'asked', atMs: 0, call: 'c', record: 'r', scope: 's', asked: '/switch/things body' }
  const settled = (state: Written['state'], status: number) =>
    found({ events: [asked], rows: [written(2, state, 1, { status })], accepted: new Map([['r', ['r']]]) }).filter((rule) => rule !== 'I8')
  assert.deepEqual(settled('completed', 201), ['N5'])
  assert.deepEqual(settled('consumed', 201), ['N5'])
  assert.deepEqual(settled('completed', 202), [])
  assert.deepEqual(settled('released', 503), [])
  assert.deepEqual(found({ events: [asked], accepted: new Map([['r', ['r']]]) }), [])
})

test('after a delete a new life begins, and nothing of the one before is replayed in it', () => {
  const request = (call: string, atMs: number): HistoryEvent => ({
    kind: 'asked',
    atMs,
    call,
    record: 'r',
    scope: 's',
    asked: '/hold/things body'
  })
  const hold = (execution: number, atMs: number, call: string) => ({ ...executed(execution, atMs, call, 1), target: '/hold/things' })
  const parts = {
    witnessed: [
      hold(1, 2, 'a'),
      { execution: 1, repliedMs: 3, status: 201 },
      hold(2, 1_002, 'b'),
      { execution: 2, repliedMs: 1_003, status: 201 }
    ],
    audit: [
      written(1, 'claimed', 1),
      written(4, 'completed', 1),
      written(900, 'completed', 1, { gone: true }),
      written(1_001, 'claimed', 1, { owner: 'other' }),
      written(1_004, 'completed', 1, { owner: 'other' })
    ]
  }
  const stale = told('c', 1_101, { kind: 'replayed', print: PRINT, execution: 1 })
  assert.deepEqual(found({ ...parts, events: [request('a', 0), request('b', 1_000), request('c', 1_100)] }), ['I8', 'I8', 'I8'])
  assert.ok(found({ ...parts, events: [request('a', 0), request('b', 1_000), request('c', 1_100), stale] }).includes('P10'))
})

test('what may be sent again is what a configuration said that the gateway may have had', () => {
  const wait = (atMs: number, untilMs?: number) => unknownAt(
    routeNamed('wait'),
    [{ fromMs: 0, variant: 0 }, { fromMs: 50_000, variant: 2 }, { fromMs: 90_000, variant: 0 }],
    atMs,
    untilMs
  )
  assert.deepEqual([wait(1), wait(50_001), wait(96_000), wait(98_000)], ['hold', 'retry', 'retry', 'hold'])
  assert.deepEqual([wait(49_990, 50_001), wait(49_990, 49_999)], ['retry', 'hold'], 'on its way while the gateway was reloaded')
  assert.equal(unknownAt(routeNamed('hold'), [{ fromMs: 0, variant: 2 }], 1), 'hold')
})
