/** The checker finds every violation: hand-made histories that each break one rule of one invariant. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { INVARIANTS, violationsOf } from '../harness/checker.ts'
import type { Invariant } from '../harness/checker.ts'
import type { FinalRow, History, HistoryEvent, Rules, Told } from '../harness/history.ts'

const RULES: Rules = { unknown: 'hold', retentionMs: 1_000, unknownRetentionMs: 5_000, answerMs: 100, replaysMismatch: false }

type Timeless = HistoryEvent extends infer Event ? Event extends HistoryEvent ? Omit<Event, 'atMs'> & {
  readonly atMs?: number
} : never : never

/** Events without a time follow each other by one millisecond. */
function historyOf (events: readonly Timeless[], rules: Partial<Rules> = {}, rows: FinalRow[] | null = null): History {
  let nowMs = 0
  const timed = events.map((event) => {
    nowMs = event.atMs ?? nowMs + 1
    return { ...event, atMs: nowMs } as HistoryEvent
  })
  return { events: timed, rows, endedAtMs: nowMs, rulesOf: () => ({ ...RULES, ...rules }) }
}

const asked = (call: string, over: object = {}): Timeless => ({ kind: 'asked', call, record: 'r', scope: 'a', asked: 'one', ...over })
const told = (
  call: string,
  kind: Told['kind'],
  execution: number | null = null,
  print = execution === null ? null : `print-${execution}`
): Timeless => ({ kind: 'told', call, told: { kind, execution, print } })
const sent = (execution: number, attempt = 1, over: object = {}): Timeless => ({
  kind: 'sent',
  execution,
  attempt,
  call: `starter-${execution}`,
  record: 'r',
  scope: 'a',
  asked: 'one',
  ...over
})
const replied = (execution: number, means: 'keep' | 'release' | 'unknown' = 'keep'): Timeless => ({ kind: 'replied', execution, means })
const claimed = (attempt: number, owner = `owner-${attempt}`, over: object = {}): Timeless => ({
  kind: 'claimed',
  record: 'r',
  owner,
  attempt,
  ...over
})
const settled = (outcome: 'completed' | 'consumed' | 'released' | 'indeterminate', attempt = 1, over: object = {}): Timeless =>
  ({
    kind: 'settled',
    record: 'r',
    owner: `owner-${attempt}`,
    attempt,
    outcome,
    by: 'owner',
    keepMs: 1_000,
    print: outcome === 'completed' ? `print-${attempt}` : null,
    ...over
  })

const EXECUTED = [asked('c1'), claimed(1), sent(1), replied(1), settled('completed'), told('c1', 'stored', 1)]
const COMPLETED: FinalRow = { record: 'r', state: 'completed', past: false, print: 'print-1' }

const SOUND: ReadonlyArray<readonly [name: string, history: History]> = [
  ['an answer and its replay', historyOf([...EXECUTED, asked('c2'), told('c2', 'replayed', 1)], {}, [COMPLETED])],
  [
    'the same, seen from outside only',
    historyOf([asked('c1'), sent(1), replied(1), told('c1', 'stored', 1), asked('c2'), told('c2', 'replayed', 1)], {}, [COMPLETED])
  ],
  ['a released answer and a second sending', historyOf([
    asked('c1'), claimed(1), sent(1), replied(1, 'release'), settled('released'), told('c1', 'given', 1), asked('c2'),
    claimed(2), sent(2, 2), replied(2), settled('completed', 2), told('c2', 'stored', 2)
  ])],
  ['an unknown outcome that is held', historyOf([
    asked('c1'), claimed(1), sent(1), settled('indeterminate'), told('c1', 'unknown'), asked('c2'),
    told('c2', 'unknown')
  ])],
  [
    'an unknown outcome that is retried',
    historyOf(
      [
        asked('c1'), claimed(1), sent(1), settled('indeterminate'), told('c1', 'unknown'), asked('c2'), claimed(2),
        sent(2, 2), replied(2), settled('completed', 2), told('c2', 'stored', 2)
      ],
      { unknown: 'retry' }
    )
  ],
  ['a new life after the retention', historyOf([
    ...EXECUTED,
    asked('c2', { atMs: 2_000, asked: 'two' }),
    claimed(1, 'other'),
    sent(2, 1, { asked: 'two' }),
    replied(2),
    settled('completed', 1, { print: 'print-2' }),
    told('c2', 'stored', 2)
  ])],
  ['a new life, seen from outside only', historyOf([
    asked('c1'),
    sent(1),
    replied(1),
    told('c1', 'stored', 1),
    asked('c2', { atMs: 2_000 }),
    sent(2),
    replied(2),
    told('c2', 'stored', 2)
  ])],
  ['a dead gateway, a lapse and a late answer of the owner', historyOf([
    asked('c1'),
    claimed(1),
    sent(1),
    { kind: 'cut', call: 'c1' },
    settled('indeterminate', 1, { by: 'lease' }),
    replied(1),
    settled('completed'),
    asked('c2'),
    told('c2', 'replayed', 1)
  ])],
  ['an operator who releases and an owner who knows better', historyOf([
    asked('c1'),
    claimed(1),
    sent(1),
    settled('indeterminate'),
    told('c1', 'unknown'),
    settled('released', 1, { by: 'operator' }),
    replied(1),
    settled('completed')
  ])],
  ['a tombstone', historyOf([
    asked('c1'), claimed(1), sent(1), replied(1), settled('consumed'), told('c1', 'tombstone'), asked('c2'),
    told('c2', 'tombstone')
  ])],
  ['an owner who was told nothing, and whose row went early by a word on the clock', historyOf([
    asked('c1'),
    claimed(1),
    sent(1),
    replied(1),
    settled('completed'),
    { kind: 'deleted', record: 'r', early: true },
    settled('completed'),
    told('c1', 'stored', 1)
  ])]
]

const BROKEN: Readonly<Record<Invariant, ReadonlyArray<readonly [name: string, history: History]>>> = {
  I1: [
    ['a second sending after an unknown outcome that is held', historyOf([
      claimed(1), sent(1), settled('indeterminate'), claimed(2), sent(2, 2)
    ])],
    ['a second sending of a kept answer, seen from outside only', historyOf([sent(1), replied(1), sent(2, 2)])],
    ['a sending under no claim', historyOf([claimed(1), sent(1, 2)])],
    ['a new life that begins before the retention is over', historyOf([...EXECUTED, claimed(1, 'other'), sent(2)])],
    ['a new life while the old one is claimed', historyOf([claimed(1), sent(1), claimed(1, 'other', { atMs: 9_000 })])]
  ],
  I2: [
    ['two claims at once', historyOf([claimed(1), claimed(2), settled('indeterminate')], { unknown: 'retry' })],
    ['an attempt that does not grow', historyOf([claimed(2), settled('indeterminate', 2), claimed(2, 'other')], { unknown: 'retry' })],
    [
      'an attempt that is sent when a later one has been claimed',
      historyOf([claimed(1), settled('indeterminate'), claimed(2), sent(1)], { unknown: 'retry' })
    ],
    ['one attempt sent twice', historyOf([sent(1), sent(2)], { unknown: 'retry' })]
  ],
  I3: [
    ['two stored answers that differ', historyOf([...EXECUTED, asked('c2'), told('c2', 'replayed', 1, 'other')])],
    ['a stored answer that nobody gave', historyOf([...EXECUTED, asked('c2'), told('c2', 'replayed', 7)])]
  ],
  I4: [
    ['a sending after a stored answer', historyOf([...EXECUTED, sent(2)], { unknown: 'retry' })],
    ['a claim after a tombstone', historyOf([
      asked('c1'), claimed(1), sent(1), replied(1), settled('consumed'), told('c1', 'tombstone'), claimed(2)
    ])]
  ],
  I5: [['an answer of another scope', historyOf([...EXECUTED, asked('c2', { scope: 'b', record: 's' }), told('c2', 'replayed', 1)])]],
  I6: [
    ['another request that is executed', historyOf([
      claimed(1),
      sent(1),
      replied(1, 'release'),
      settled('released'),
      claimed(2),
      sent(2, 2, { asked: 'two' })
    ])],
    ['another request that is given the answer', historyOf([...EXECUTED, asked('c2', { asked: 'two' }), told('c2', 'replayed', 1)])],
    ['another request that is given the tombstone', historyOf([
      asked('c1'),
      claimed(1),
      sent(1),
      replied(1),
      settled('consumed'),
      told('c1', 'tombstone'),
      asked('c2', { asked: 'two' }),
      told('c2', 'tombstone')
    ])],
    ['the same request that is refused as another', historyOf([...EXECUTED, asked('c2'), told('c2', 'mismatch')])]
  ],
  I7: [
    ['an answer that its owner brings back behind a delete', historyOf([
      ...EXECUTED,
      { kind: 'deleted', record: 'r' },
      settled('completed')
    ])],
    ['one that somebody else brings back behind a word on the clock', historyOf([
      ...EXECUTED,
      { kind: 'deleted', record: 'r', early: true },
      settled('completed', 1, { owner: 'other' })
    ])],
    ['a settle over a completed record', historyOf([...EXECUTED, settled('indeterminate')])],
    ['an owner who writes over what an operator resolved', historyOf([
      claimed(1),
      sent(1),
      settled('indeterminate'),
      settled('released', 1, { by: 'operator' }),
      settled('indeterminate')
    ])],
    ['a stored answer whose row is gone', historyOf(EXECUTED, {}, [])],
    ['a stored answer whose row holds another', historyOf(EXECUTED, {}, [{ ...COMPLETED, print: 'other' }])]
  ],
  I8: [
    ['a request without an answer', historyOf([asked('c1')])],
    ['a request with two answers', historyOf([asked('c1'), told('c1', 'in-flight'), told('c1', 'in-flight')])],
    ['an answer that comes too late', historyOf([asked('c1'), { ...told('c1', 'in-flight'), atMs: 102 }])],
    ['"nothing was sent" of what was sent later', historyOf([asked('c1'), told('c1', 'unsent'), claimed(1), sent(1, 1, { call: 'c1' })])]
  ],
  I9: [['a record that stays claimed', historyOf([], {}, [{ ...COMPLETED, state: 'claimed', print: null }])]],
  I10: [
    ['a release of what was sent', historyOf([claimed(1), sent(1), settled('released')])],
    ['a release of what was answered and is to be kept', historyOf([claimed(1), sent(1), replied(1), settled('released')])],
    ['a release of what is sent later', historyOf([claimed(1), settled('released'), sent(1)])]
  ],
  I11: [
    ['a stored answer that was never written', historyOf([
      asked('c1'), claimed(1), sent(1), replied(1), told('c1', 'stored', 1), settled('completed')
    ])],
    ['a tombstone that was never written', historyOf([asked('c1'), claimed(1), sent(1), replied(1), told('c1', 'tombstone')])]
  ]
}

describe('a sound history has no violation', () => {
  for (const [name, history] of SOUND) test(name, () => { assert.deepEqual(violationsOf(history), []) })
})

for (const invariant of INVARIANTS) {
  describe(`the checker sees that ${invariant} is broken`, () => {
    for (const [name, history] of BROKEN[invariant]) {
      test(name, () => {
        assert.ok(violationsOf(history).some((violation) => violation.invariant === invariant), JSON.stringify(violationsOf(history)))
      })
    }
  })
}
