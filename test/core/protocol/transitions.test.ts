/** The state machine against the protocol's tables, which are written here again, independently. They cover all values. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  COLUMNS,
  decide,
  lockAfter,
  transition,
  TRANSITIONS,
  type Event,
  type EventName,
  type SameRequest,
  type Step
} from '../../../src/core/protocol/transitions.ts'
import { claimedRow, rowOf, violation, type RecordRow } from '../../../src/core/protocol/row.ts'
import { RECORD_STATES, type Claim, type Seen, type SettledState } from '../../../src/core/record/record.ts'
import { claimOf, resolutionOf, seenOf, settlementOf } from '../../conformance/record-world.ts'

const NOW_MS = 1_000_000
const mine = claimOf({ owner: Buffer.alloc(16, 1), leaseMs: 1_000, unknownKeepMs: 5_000, quarantineMs: 500 })
const theirs: Claim = { ...mine, owner: Buffer.alloc(16, 2) }
/** Rows are at attempt 2, so that a new life and a next attempt differ. */
const token: Seen = seenOf(mine, 2)

const live = claimedRow(mine, 2, NOW_MS - 900)
const settled = (
  state: SettledState | 'undecodable',
  settledBy: RecordRow['settledBy'] = 'owner',
  over: Partial<RecordRow> = {}
): RecordRow => ({
  ...live,
  state,
  settledBy,
  leaseUntilMs: null,
  settledAtMs: NOW_MS - 600,
  expiresAtMs: NOW_MS + 9_000,
  status: state === 'completed' || state === 'consumed' ? 201 : null,
  body: state === 'completed' ? Buffer.from('x') : null,
  ...over
})
const past = { expiresAtMs: NOW_MS }

const ROWS = {
  none: null,
  live,
  over: { ...live, leaseUntilMs: NOW_MS },
  completed: settled('completed'),
  consumed: settled('consumed'),
  released: settled('released'),
  byProbe: settled('released', 'probe'),
  byOperator: settled('released', 'operator'),
  indeterminate: settled('indeterminate', 'lease'),
  undecodable: settled('undecodable'),
  pastCompleted: settled('completed', 'owner', past),
  pastConsumed: settled('consumed', 'owner', past),
  pastReleased: settled('released', 'owner', past),
  pastByOperator: settled('released', 'operator', past),
  pastIndeterm: settled('indeterminate', 'owner', past),
  pastUndecod: settled('undecodable', 'owner', past)
} as const satisfies Record<string, RecordRow | null>
type RowName = keyof typeof ROWS
const ROW_NAMES = Object.keys(ROWS) as RowName[]

const EVENTS: Readonly<Record<EventName, (token: Seen, claim: Claim) => Event>> = {
  insert: (_, claim) => ({ kind: 'insert', claim }),
  take: (seen) => ({ kind: 'take', seen, claim: theirs, mayRetry: false }),
  takeRetry: (seen) => ({ kind: 'take', seen, claim: theirs, mayRetry: true }),
  confirm: (_, claim) => ({ kind: 'confirm', claim }),
  renew: (token) => ({ kind: 'renew', token }),
  lapse: () => ({ kind: 'lapse', running: [] }),
  'settle:completed': (token) => ({ kind: 'settle', settlement: settlementOf(token, 'completed') }),
  'settle:consumed': (token) => ({ kind: 'settle', settlement: settlementOf(token, 'consumed') }),
  'settle:released': (token) => ({ kind: 'settle', settlement: settlementOf(token, 'released') }),
  'settle:indeterminate': (token) => ({ kind: 'settle', settlement: settlementOf(token, 'indeterminate') }),
  'settleLost:completed': (token, claim) => ({ kind: 'settleLost', claim, settlement: settlementOf(token, 'completed') }),
  'settleLost:consumed': (token, claim) => ({ kind: 'settleLost', claim, settlement: settlementOf(token, 'consumed') }),
  'settleLost:released': (token, claim) => ({ kind: 'settleLost', claim, settlement: settlementOf(token, 'released') }),
  'settleLost:indeterminate': (token, claim) => ({ kind: 'settleLost', claim, settlement: settlementOf(token, 'indeterminate') }),
  'resolve:completed': (token) => ({ kind: 'resolve', resolution: resolutionOf(token, 'completed') }),
  'resolve:consumed': (token) => ({ kind: 'resolve', resolution: resolutionOf(token, 'consumed') }),
  'resolve:released': (token) => ({ kind: 'resolve', resolution: resolutionOf(token, 'released') }),
  expire: (token) => ({ kind: 'expire', token }),
  sweep: () => ({ kind: 'sweep' })
}
const EVENT_NAMES = Object.keys(EVENTS) as EventName[]

/**
 * `·` nothing · `c1 c2 c3` claimed at that attempt · `comp cons rel ind` settled so at attempt 2 · `soon` expires in two leases or before ·
 * `gone` removed. Rows are at attempt 2.
 */
const EXPECTED = `
                         none live over completed consumed released byProbe byOperator indeterminate undecodable pastCompleted pastConsumed pastReleased pastByOperator pastIndeterm pastUndecod
insert                   c1   ·    ·    ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
take                     ·    ·    ·    ·         ·        c3       c3      c3         ·             ·           c1            c1           c1           c1             c1           ·
takeRetry                ·    ·    ·    ·         ·        c3       c3      c3         c3            ·           c1            c1           c1           c1             c1           ·
confirm                  c1   c2   c2   ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
renew                    ·    c2   c2   ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
lapse                    ·    ·    ind  ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
settle:completed         ·    comp comp ·         ·        ·        comp    comp       comp          ·           ·             ·            ·            comp           comp         ·
settle:consumed          ·    cons cons ·         ·        ·        cons    cons       cons          ·           ·             ·            ·            cons           cons         ·
settle:released          ·    rel  rel  ·         ·        ·        ·       ·          rel           ·           ·             ·            ·            ·              rel          ·
settle:indeterminate     ·    ind  ind  ·         ind      ·        ·       ·          ·             ·           ·             ind          ·            ·              ·            ·
settleLost:completed     comp ·    ·    ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
settleLost:consumed      cons ·    ·    ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
settleLost:released      ·    ·    ·    ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
settleLost:indeterminate ind  ·    ·    ·         ·        ·        ·       ·          ·             ·           ·             ·            ·            ·              ·            ·
resolve:completed        ·    ·    ·    ·         ·        ·        ·       ·          comp          ·           ·             ·            ·            ·              comp         ·
resolve:consumed         ·    ·    ·    ·         ·        ·        ·       ·          cons          ·           ·             ·            ·            ·              cons         ·
resolve:released         ·    ·    ·    ·         ·        ·        ·       ·          rel           ·           ·             ·            ·            ·              rel          ·
expire                   ·    ·    ·    soon      soon     soon     soon    soon       ·             ·           soon          soon         soon         soon           ·            ·
sweep                    ·    ·    ·    ·         ·        ·        ·       ·          ·             ·           gone          gone         gone         gone           gone         gone
`.trim().split('\n').map((line) => line.trim().split(/\s+/))

function outcomeOf (row: RecordRow | null, event: Event): string {
  const change = transition(row, event, NOW_MS)
  if (change.kind === 'refused') return '·'
  if (change.kind === 'removed') return 'gone'
  const after = change.row
  if (after.state === 'claimed') return `c${after.attempt}`
  if (after.state === row?.state && event.kind === 'expire') {
    return (after.expiresAtMs ?? Infinity) <= NOW_MS + 2 * mine.leaseMs ? 'soon' : 'late'
  }
  assert.equal(after.attempt, 2)
  return { completed: 'comp', consumed: 'cons', released: 'rel', indeterminate: 'ind', undecodable: '?' }[after.state]
}

describe('the transition table', () => {
  const [heads, ...lines] = EXPECTED
  for (const event of EVENT_NAMES) {
    test(`${event}: every column`, () => {
      const line = lines.find(([name]) => name === event)
      const expected = Object.fromEntries((heads ?? []).map((head, index) => [head, line?.[index + 1]]))
      const actual = Object.fromEntries(ROW_NAMES.map((name) => [name, outcomeOf(ROWS[name], EVENTS[event](token, mine))]))
      assert.deepEqual(actual, expected)
    })
  }

  test('the page and the machine speak of the same events and columns', () => {
    assert.deepEqual(lines.map(([name]) => name).sort(), Object.keys(TRANSITIONS).sort())
    assert.deepEqual(heads, ROW_NAMES)
    for (const line of Object.values(TRANSITIONS)) assert.equal(line.length, COLUMNS.length)
  })

  /** insert and settleLost change no existing row. lapse and sweep have no owner. */
  const fenced = EVENT_NAMES.filter((name) => !/^(insert|lapse|sweep|settleLost)/.test(name))
  for (const event of fenced) {
    test(`${event}: a token that is not the row's changes nothing`, () => {
      for (const name of ROW_NAMES.filter((name) => ROWS[name] !== null)) {
        assert.equal(outcomeOf(ROWS[name], EVENTS[event](seenOf(theirs, 2), theirs)), '·', `${name}, another owner`)
        if (event !== 'confirm') assert.equal(outcomeOf(ROWS[name], EVENTS[event](seenOf(mine, 1), mine)), '·', `${name}, an older attempt`)
      }
    })
  }
})

describe('conditions on top of the table', () => {
  const take = (row: RecordRow, fingerprint: Claim['fingerprint'], claim = theirs) =>
    transition(row, { kind: 'take', seen: { ...token, fingerprint }, claim, mayRetry: true }, NOW_MS)
  const different = { ...mine.fingerprint, value: Buffer.alloc(32, 9) }

  test('a fingerprint belongs to a life: a take needs to have seen it until the row is past', () => {
    for (const row of [ROWS.released, ROWS.byOperator, ROWS.indeterminate]) {
      assert.deepEqual(take(row, different), { kind: 'refused', why: 'fingerprint' })
      assert.deepEqual(take(row, { ...mine.fingerprint, alg: 99 }), { kind: 'refused', why: 'fingerprint' })
    }
    assert.equal(take(ROWS.pastReleased, different).kind, 'written')
  })

  test('the new claim writes its own fingerprint, of whatever policy', () => {
    const change = take(ROWS.released, mine.fingerprint, { ...theirs, fingerprint: different })
    assert.deepEqual(change.kind === 'written' && change.row.fingerprint, different)
  })

  test('a process never lapses what it runs itself', () => {
    assert.deepEqual(transition(ROWS.over, { kind: 'lapse', running: [theirs.owner, mine.owner] }, NOW_MS), {
      kind: 'refused',
      why: 'running'
    })
    assert.equal(transition(ROWS.over, { kind: 'lapse', running: [theirs.owner] }, NOW_MS).kind, 'written')
  })

  test('a release by hand waits for the quarantine, a known outcome does not', () => {
    const early = { ...ROWS.indeterminate, settledAtMs: NOW_MS - 499 }
    assert.deepEqual(transition(early, EVENTS['resolve:released'](token, mine), NOW_MS), { kind: 'refused', why: 'quarantine' })
    assert.equal(transition({ ...early, settledAtMs: NOW_MS - 500 }, EVENTS['resolve:released'](token, mine), NOW_MS).kind, 'written')
    assert.equal(transition(early, EVENTS['resolve:completed'](token, mine), NOW_MS).kind, 'written')
  })

  test('a lease is only ever prolonged', () => {
    const far = { ...live, leaseUntilMs: NOW_MS + 50_000 }
    const change = transition(far, EVENTS.renew(token, mine), NOW_MS)
    assert.equal(change.kind === 'written' && change.row.leaseUntilMs, NOW_MS + 50_000)
  })

  test('a lapsed record is kept as its row says, and says why', () => {
    const change = transition(ROWS.over, EVENTS.lapse(token, mine), NOW_MS)
    assert.ok(change.kind === 'written')
    assert.deepEqual([change.row.settledBy, change.row.expiresAtMs, change.row.reason?.stage], ['lease', NOW_MS + 5_000, 'lease'])
  })

  test('any history of a record keeps its constraints, its attempts growing and its answers kept', () => {
    const step = fc.record({
      name: fc.constantFrom(...EVENT_NAMES),
      owner: fc.constantFrom(1, 2, 3),
      stale: fc.boolean(),
      waitMs: fc.constantFrom(0, 400, 1_100, 4_000, 20_000)
    })
    fc.assert(fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      let row: RecordRow | null = null
      let nowMs = NOW_MS
      for (const { name, owner, stale, waitMs } of steps) {
        nowMs += waitMs
        const claim: Claim = { ...mine, owner: Buffer.alloc(16, owner) }
        const named = seenOf(row === null || stale ? claim : { ...claim, owner: row.owner }, row?.attempt ?? 1)
        const before: RecordRow | null = row
        const change = transition(before, EVENTS[name](named, claim), nowMs)
        if (change.kind === 'removed') row = null
        if (change.kind !== 'written') continue
        row = change.row
        assert.equal(violation(row), null)
        if (before === null || rowOf(before, nowMs).past) continue
        assert.ok(row.attempt === before.attempt || row.attempt === before.attempt + 1)
        const isTakenBack: boolean = name === 'settle:indeterminate' &&
          before.state === 'consumed' &&
          before.settledBy === 'owner' &&
          before.owner.equals(named.owner) &&
          before.attempt === named.attempt
        if (before.state === 'completed' || before.state === 'consumed') {
          assert.equal(row.state, isTakenBack ? 'indeterminate' : before.state)
        }
      }
    }))
  })
})

interface Look {
  readonly row: RowName
  readonly own: boolean
  readonly same: SameRequest
  readonly unknown: 'hold' | 'retry'
  readonly mayLapse: boolean
}

const fresh = (row: RowName) => !row.startsWith('past')
const is = (...rows: RowName[]) => ({ row }: Look) => rows.includes(row)

/** Protocol §5's row column as rules. Exactly one fits any row. */
const RULES: ReadonlyArray<readonly [step: string, fits: (look: Look) => boolean]> = [
  ['insert', is('none')],
  ['take', is('pastCompleted', 'pastConsumed', 'pastReleased', 'pastByOperator', 'pastIndeterm')],
  ['unknown', is('pastUndecod')],
  ['mismatch', (look) => look.row !== 'none' && fresh(look.row) && look.same === 'different'],
  ['in-flight', (look) => is('live', 'over')(look) && look.same === 'unknown'],
  ['unknown', (look) => !is('none', 'live', 'over')(look) && fresh(look.row) && look.same === 'unknown'],
  ['execute 2', (look) => is('live', 'over')(look) && look.same === 'same' && look.own],
  ['in-flight', (look) => is('live')(look) && look.same === 'same' && !look.own],
  ['in-flight', (look) => is('over')(look) && look.same === 'same' && !look.own && !look.mayLapse],
  ['lapse', (look) => is('over')(look) && look.same === 'same' && !look.own && look.mayLapse],
  ['replay', (look) => is('completed')(look) && look.same === 'same'],
  ['not-kept', (look) => is('consumed')(look) && look.same === 'same'],
  ['take', (look) => is('released', 'byProbe', 'byOperator')(look) && look.same === 'same'],
  ['release-own', (look) => is('indeterminate')(look) && look.same === 'same' && look.own],
  ['unknown', (look) => is('indeterminate')(look) && look.same === 'same' && !look.own && look.unknown === 'hold'],
  ['take, may retry', (look) => is('indeterminate')(look) && look.same === 'same' && !look.own && look.unknown === 'retry'],
  ['unknown', (look) => is('undecodable')(look) && look.same === 'same']
]

const LOOKS: Look[] = ROW_NAMES.flatMap(
  (row) => [true, false].flatMap((own) => (['same', 'different', 'unknown'] as const).flatMap((same) =>
    (['hold', 'retry'] as const).flatMap((unknown) => [true, false].map((mayLapse) => ({ row, own, same, unknown, mayLapse })))))
)

function decided ({ row, own, same, unknown, mayLapse }: Look): Step {
  const stored = ROWS[row]
  return decide(stored === null ? null : rowOf(stored, NOW_MS), { owner: own ? mine.owner : theirs.owner }, same, { unknown }, mayLapse)
}

function wordsOf (step: Step): string {
  if (step.do === 'execute') return `execute ${step.attempt}`
  return step.do === 'take' && step.mayRetry ? 'take, may retry' : step.do
}

describe('what a gateway does after a look', () => {
  test('every look at every row has exactly one step', () => {
    for (const look of LOOKS) {
      const fitting = RULES.filter(([, fits]) => fits(look))
      assert.equal(fitting.length, 1, `${JSON.stringify(look)} fits ${fitting.length} rules`)
      assert.equal(wordsOf(decided(look)), fitting[0]?.[0], JSON.stringify(look))
    }
  })

  test('nothing is ever sent for another fingerprint, or for a row that cannot be read', () => {
    const sending = new Set<Step['do']>(['execute', 'insert', 'take', 'release-own'])
    for (const look of LOOKS.filter(({ row, same }) => row !== 'none' && fresh(row) && (same !== 'same' || row === 'undecodable'))) {
      assert.ok(!sending.has(decided(look).do), JSON.stringify(look))
    }
  })

  test('the steps are of the protocol\'s states and no other', () => {
    const seen = new Set(ROW_NAMES.map((name) => ROWS[name]?.state ?? 'none'))
    for (const state of RECORD_STATES) assert.ok(seen.has(state))
  })
})

describe('what becomes of my lock', () => {
  const FATES: Readonly<Record<string, string>> = {
    'execute 2': 'keep',
    insert: 'keep',
    take: 'keep',
    'take, may retry': 'keep',
    lapse: 'keep',
    'release-own': 'keep',
    replay: 'copy',
    'not-kept': 'copy',
    unknown: 'delete'
  }

  test('every step leaves it in exactly one hand', () => {
    for (const look of LOOKS) {
      const stored = ROWS[look.row]
      const row = stored === null ? null : rowOf(stored, NOW_MS)
      const step = decided(look)
      const expected = FATES[wordsOf(step)] ?? (look.row === 'live' ? 'row' : 'delete')
      assert.equal(lockAfter(step, row, true), expected, JSON.stringify(look))
      assert.equal(lockAfter(step, row, false), 'none')
    }
  })
})
