/** The table of the inbox: every cell as a literal, its laws, and random histories. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { acceptedRow, blocks, deliveryOf, detailOf, NO_REQUEST, violation } from '../../../src/core/inbox/row.ts'
import type { MessageRow } from '../../../src/core/inbox/row.ts'
import {
  columnOf,
  hasItsTurn,
  MESSAGE_COLUMNS,
  MESSAGE_TRANSITIONS,
  messageTransition,
  turnsOf
} from '../../../src/core/inbox/transitions.ts'
import type { MessageCell, MessageColumn, MessageEvent, MessageEventName, Moment } from '../../../src/core/inbox/transitions.ts'
import { MESSAGE_STATES } from '../../../src/core/inbox/message.ts'
import type { DeliveryToken, Fate, NewMessage } from '../../../src/core/inbox/message.ts'
import { FIRST_SCHEME } from '../../../src/core/record/schemes.ts'

const NOW_MS = 1_000_000
const KEEP_MS = 5_000
const DEAD_KEEP_MS = 8_000
const [LIVING, GONE] = [Buffer.alloc(16, 1), Buffer.alloc(16, 2)]
const GROUP = Buffer.alloc(32, 3)
const ANSWER = { status: 410, headers: [], body: Buffer.from('gone') }

const NOW: Moment = { nowMs: NOW_MS, overMs: NOW_MS, lives: (owner) => owner.equals(LIVING) }

const message: NewMessage = {
  id: Buffer.alloc(32, 4),
  scheme: FIRST_SCHEME,
  earlierId: null,
  fingerprint: { alg: 3, value: Buffer.alloc(32, 5) },
  scopeHash: Buffer.alloc(32, 6),
  tenant: null,
  delayMs: 0,
  group: GROUP,
  holds: false,
  stops: false,
  keepMs: KEEP_MS,
  deadKeepMs: DEAD_KEEP_MS,
  request: { method: 'POST', target: '/hooks', headers: ['X-Sent', '1'], body: Buffer.from('{}') },
  about: {
    route: 'hooks', method: 'POST', path: '/hooks', requestId: 'req-1', instance: 'gateway-1', keyHash: Buffer.alloc(32, 7), keyText: null
  }
}
const other: NewMessage = { ...message, fingerprint: { alg: 3, value: Buffer.alloc(32, 8) } }

const accepted = acceptedRow(message, 1, false, NOW_MS - 10_000)
const ended = { ...accepted, attempt: 2, tries: 2, dueAtMs: null, settledAtMs: NOW_MS - 100, expiresAtMs: NOW_MS + 100 }
const stopping = { ...ended, stops: true, expiresAtMs: null }

/** One row of every column. */
const ROWS: Readonly<Record<MessageColumn, MessageRow | null>> = {
  none: null,
  behind: { ...accepted, dueAtMs: null },
  pausing: { ...accepted, attempt: 2, tries: 2, dueAtMs: NOW_MS + 1 },
  due: { ...accepted, attempt: 2, tries: 2, dueAtMs: NOW_MS },
  delivering: { ...accepted, state: 'delivering', owner: LIVING, attempt: 2, tries: 2, dueAtMs: null },
  lost: { ...accepted, state: 'delivering', owner: GONE, attempt: 2, tries: 2, dueAtMs: null },
  delivered: { ...ended, state: 'delivered', status: 201, request: NO_REQUEST },
  kept: { ...ended, state: 'delivered', status: 201, requestUntilMs: NOW_MS + 1 },
  keptOver: { ...ended, state: 'delivered', status: 201, requestUntilMs: NOW_MS },
  held: { ...ended, state: 'held', error: 'ECONNRESET' },
  dead: { ...ended, state: 'dead', error: 'ATTEMPTS_SPENT HTTP_500', status: 500 },
  heldStops: { ...stopping, state: 'held' },
  deadStops: { ...stopping, state: 'dead' },
  discarded: { ...ended, state: 'discarded' },
  past: { ...ended, state: 'dead', expiresAtMs: NOW_MS }
}

const FATES: Readonly<Record<Fate['kind'], Fate>> = {
  delivered: { kind: 'delivered', status: 201, answer: ANSWER },
  again: { kind: 'again', inMs: 700, status: 503, error: 'HTTP_503' },
  held: { kind: 'held', error: 'ECONNRESET' },
  dead: { kind: 'dead', status: 410, error: 'GONE', answer: ANSWER }
}

function tokenOf (row: MessageRow | null): DeliveryToken {
  return { id: message.id, owner: row?.owner ?? LIVING, attempt: row?.attempt ?? 1 }
}

type EventOf = (row: MessageRow | null) => MessageEvent
const take = (over: Partial<Extract<MessageEvent, { kind: 'take' }>> = {}): MessageEvent =>
  ({ kind: 'take', owner: LIVING, hasTurn: true, isPaused: false, ...over })
const settle = (kind: Fate['kind']): EventOf => (row) => ({ kind: 'settle', token: tokenOf(row), fate: FATES[kind] })

const EVENTS: Readonly<Record<MessageEventName, EventOf>> = {
  accept: () => ({ kind: 'accept', message, number: 9, isBehind: false }),
  acceptOther: () => ({ kind: 'accept', message: other, number: 9, isBehind: false }),
  take: () => take(),
  'settle:delivered': settle('delivered'),
  'settle:again': settle('again'),
  'settle:held': settle('held'),
  'settle:dead': settle('dead'),
  'lapse:again': () => ({ kind: 'lapse' }),
  'lapse:held': () => ({ kind: 'lapse' }),
  retry: () => ({ kind: 'retry' }),
  discard: () => ({ kind: 'discard' }),
  replay: () => ({ kind: 'replay' }),
  expireRequest: () => ({ kind: 'expireRequest' }),
  dropRequest: () => ({ kind: 'dropRequest' }),
  turn: () => ({ kind: 'turn' }),
  recall: () => ({ kind: 'recall' }),
  postpone: () => ({ kind: 'postpone', untilMs: NOW.nowMs + 1 }),
  sweep: () => ({ kind: 'sweep' })
}
const EVENT_NAMES = Object.keys(EVENTS) as MessageEventName[]

/**
 * `·` nothing · `stop` nothing, and the batch is refused · `a/t` waits at attempt a with t tries: `+` due, `-` pausing, `=` for its turn ·
 * `del3` delivering at attempt 3 · `deld held dead disc` ended so · `kept` delivered with its request · `gone` deleted. Rows are at
 * attempt 2, except `behind`.
 */
const EXPECTED = `
                 none behind pausing due  delivering lost delivered kept keptOver held dead heldStops deadStops discarded past
accept           0/0+ ·      ·       ·    ·          ·    ·         ·    ·        ·    ·    ·         ·         ·         0/0+
acceptOther      0/0+ stop   stop    stop stop       stop stop      stop stop     stop stop stop      stop      stop      0/0+
take             ·    ·      ·       del3 ·          ·    ·         ·    ·        ·    ·    ·         ·         ·         ·
settle:delivered ·    ·      ·       ·    deld       deld ·         ·    ·        ·    ·    ·         ·         ·         ·
settle:again     ·    ·      ·       ·    2/2-       2/2- ·         ·    ·        ·    ·    ·         ·         ·         ·
settle:held      ·    ·      ·       ·    held       held ·         ·    ·        ·    ·    ·         ·         ·         ·
settle:dead      ·    ·      ·       ·    dead       dead ·         ·    ·        ·    ·    ·         ·         ·         ·
lapse:again      ·    ·      ·       ·    ·          2/2+ ·         ·    ·        ·    ·    ·         ·         ·         ·
lapse:held       ·    ·      ·       ·    ·          held ·         ·    ·        ·    ·    ·         ·         ·         ·
retry            ·    0/0=   2/0=    2/0= ·          ·    ·         ·    ·        2/0= 2/0= 2/0=      2/0=      ·         ·
discard          ·    disc   disc    disc ·          ·    ·         ·    ·        disc disc disc      disc      ·         ·
replay           ·    ·      ·       ·    ·          ·    ·         2/0= ·        ·    ·    ·         ·         ·         ·
expireRequest    ·    ·      ·       ·    ·          ·    ·         ·    deld     ·    ·    ·         ·         ·         ·
dropRequest      ·    ·      ·       ·    ·          ·    ·         deld deld     ·    ·    ·         ·         ·         ·
turn             ·    0/0+   ·       ·    ·          ·    ·         ·    ·        ·    ·    ·         ·         ·         ·
recall           ·    ·      2/2=    2/2= ·          ·    ·         ·    ·        ·    ·    ·         ·         ·         ·
postpone         ·    ·      2/2-    2/2- ·          ·    ·         ·    ·        ·    ·    ·         ·         ·         ·
sweep            ·    ·      ·       ·    ·          ·    ·         ·    ·        ·    ·    ·         ·         ·         gone
`.trim().split('\n').map((line) => line.trim().split(/\s+/))

function rowFor (name: MessageEventName, column: MessageColumn): MessageRow | null {
  const row = ROWS[column]
  return row !== null && name === 'lapse:held' ? { ...row, holds: true } : row
}

function outcomeOf (row: MessageRow | null, event: MessageEvent, moment = NOW): string {
  const change = messageTransition(row, event, moment)
  if (change.kind === 'refused') return change.why === 'fingerprint' ? 'stop' : '·'
  return change.kind === 'removed' ? 'gone' : wordOf(change.row)
}

function wordOf ({ state, dueAtMs, attempt, tries, requestUntilMs }: MessageRow): string {
  switch (state) {
    case 'waiting': return `${attempt}/${tries}${dueAtMs === null ? '=' : dueAtMs <= NOW_MS ? '+' : '-'}`
    case 'delivering': return `del${attempt}`
    case 'delivered': return requestUntilMs === null ? 'deld' : 'kept'
    case 'discarded': return 'disc'
    case 'held': case 'dead': return state
  }
}

function written (row: MessageRow | null, event: MessageEvent, moment = NOW): MessageRow {
  const change = messageTransition(row, event, moment)
  return change.kind === 'written' ? change.row : assert.fail(`nothing was written: ${JSON.stringify(change)}`)
}

function eventsWith (...cells: readonly MessageCell[]): MessageEventName[] {
  return EVENT_NAMES.filter((name) => MESSAGE_TRANSITIONS[name].some((cell) => cells.includes(cell)))
}

function cellAt (name: MessageEventName, column: MessageColumn): MessageCell {
  return MESSAGE_TRANSITIONS[name][MESSAGE_COLUMNS.indexOf(column)] ?? assert.fail(`${name} has no cell for ${column}`)
}

/** What the events may do to a message of this column. */
function cellsOf (column: MessageColumn): MessageCell[] {
  return [...new Set(EVENT_NAMES.map((name) => cellAt(name, column)))].sort()
}

describe('the table of the inbox', () => {
  const [heads, ...lines] = EXPECTED
  for (const name of EVENT_NAMES) {
    test(`${name}: every column`, () => {
      const line = lines.find(([first]) => first === name)
      const expected = Object.fromEntries((heads ?? []).map((head, index) => [head, line?.[index + 1]]))
      const actual = Object.fromEntries(MESSAGE_COLUMNS.map((column) => {
        const row = rowFor(name, column)
        return [column, outcomeOf(row, EVENTS[name](row))]
      }))
      assert.deepEqual(actual, expected)
    })
  }

  test('is total: the page, the table and the states have the same events and columns, and every column has a row', () => {
    assert.deepEqual(lines.map(([name]) => name).sort(), Object.keys(MESSAGE_TRANSITIONS).sort())
    assert.deepEqual(heads, MESSAGE_COLUMNS)
    for (const line of Object.values(MESSAGE_TRANSITIONS)) assert.equal(line.length, MESSAGE_COLUMNS.length)
    for (const column of MESSAGE_COLUMNS) assert.equal(columnOf(ROWS[column], NOW), column)
    assert.deepEqual([...new Set(Object.values(ROWS).flatMap((row) => row?.state ?? []))].sort(), [...MESSAGE_STATES].sort())
  })

  test('every row that it is tried with, and that it writes, keeps the constraints of the databases', () => {
    for (const name of EVENT_NAMES) {
      for (const column of MESSAGE_COLUMNS) {
        const row = rowFor(name, column)
        if (row !== null) assert.equal(violation(row), null, column)
        const change = messageTransition(row, EVENTS[name](row), NOW)
        if (change.kind === 'written') assert.equal(violation(change.row), null, `${name} ${column}`)
      }
    }
  })

  test('what is delivered or discarded stays so, until it is past', () => {
    for (const column of ['delivered', 'discarded'] as const) assert.deepEqual(cellsOf(column), ['other', '·'])
    assert.deepEqual(cellsOf('past'), ['new', 'remove', '·'])
    assert.deepEqual(cellsOf('kept'), ['other', 'replay', 'strip', '·'], 'one whose request is kept may be replayed')
    assert.deepEqual(cellsOf('keptOver'), ['other', 'strip', '·'], 'and no more when its time is over')
  })

  test('only a take hands a message out, and only a due one', () => {
    assert.deepEqual(eventsWith('take'), ['take'])
    assert.deepEqual(MESSAGE_COLUMNS.filter((_, index) => MESSAGE_TRANSITIONS.take[index] !== '·'), ['due'])
    for (const name of EVENT_NAMES.filter((each) => each !== 'take')) {
      for (const column of MESSAGE_COLUMNS) {
        const row = rowFor(name, column)
        const change = messageTransition(row, EVENTS[name](row), NOW)
        if (change.kind === 'written') assert.notEqual(change.row.state, 'delivering', `${name} ${column}`)
      }
    }
  })

  test('nothing takes a message from a living worker but its own report', () => {
    const changes = (name: MessageEventName): boolean => !['·', 'other'].includes(cellAt(name, 'delivering'))
    assert.deepEqual(EVENT_NAMES.filter(changes), ['settle:delivered', 'settle:again', 'settle:held', 'settle:dead'])
  })

  test('only an operator lets what is held or dead be delivered again', () => {
    for (const column of ['held', 'dead', 'heldStops', 'deadStops'] as const) {
      assert.deepEqual(cellsOf(column), ['end', 'other', 'retry', '·'])
    }
    assert.deepEqual(eventsWith('retry'), ['retry'])
    assert.deepEqual(eventsWith('replay'), ['replay'])
  })

  test('only a sweep deletes, and never what stops its group', () => {
    assert.deepEqual(eventsWith('remove'), ['sweep'])
    assert.deepEqual(MESSAGE_COLUMNS.filter((_, index) => MESSAGE_TRANSITIONS.sweep[index] !== '·'), ['past'])
    for (const column of ['heldStops', 'deadStops'] as const) {
      const late = { ...NOW, nowMs: Infinity, overMs: Infinity }
      assert.equal(outcomeOf(ROWS[column], { kind: 'sweep' }, late), '·')
    }
  })
})

describe('conditions on top of the table of the inbox', () => {
  const { due, delivering, lost } = ROWS

  test('a report of another owner, or of another attempt, changes nothing', () => {
    for (const row of [delivering, lost]) {
      const token = tokenOf(row)
      for (const wrong of [{ ...token, owner: Buffer.alloc(16, 9) }, { ...token, attempt: 1 }, { ...token, attempt: 3 }]) {
        for (const fate of Object.values(FATES)) {
          assert.deepEqual(messageTransition(row, { kind: 'settle', token: wrong, fate }, NOW), { kind: 'refused', why: 'token' })
        }
      }
    }
  })

  test('a worker without a lease takes nothing, and nobody takes a message out of its turn', () => {
    assert.deepEqual(messageTransition(due, take({ owner: GONE }), NOW), { kind: 'refused', why: 'worker' })
    assert.deepEqual(messageTransition(due, take({ hasTurn: false }), NOW), { kind: 'refused', why: 'turn' })
    assert.deepEqual(messageTransition(due, take({ isPaused: true }), NOW), { kind: 'refused', why: 'paused' })
  })

  test('while the clock is not believed, nothing is over by it, and nobody whose lease is over takes anything', () => {
    const doubted: Moment = { nowMs: NOW_MS, overMs: NOW_MS - 1, lives: (_, atMs) => atMs < NOW_MS }
    assert.equal(outcomeOf(ROWS.past, { kind: 'sweep' }, doubted), '·')
    assert.equal(outcomeOf(lost, { kind: 'lapse' }, doubted), '·')
    assert.deepEqual(messageTransition(due, take(), doubted), { kind: 'refused', why: 'worker' })
  })
})

describe('what the cells of the inbox write', () => {
  const { delivering, dead } = ROWS

  test('a delivered message has no request left, any other one has', () => {
    for (const kind of ['delivered', 'again', 'held', 'dead'] as const) {
      const after = written(delivering, EVENTS[`settle:${kind}`](delivering))
      assert.equal(after.request, kind === 'delivered' ? NO_REQUEST : message.request)
    }
    assert.equal(written(dead, { kind: 'discard' }).request, message.request)
  })

  test('it is kept as long as its state says, and without an end while it stops its group', () => {
    const keptMs = (row: MessageRow | null, event: MessageEvent): number | null => {
      const { expiresAtMs } = written(row, event)
      return expiresAtMs === null ? null : expiresAtMs - NOW_MS
    }
    assert.equal(keptMs(delivering, EVENTS['settle:delivered'](delivering)), KEEP_MS)
    for (const kind of ['held', 'dead'] as const) {
      const event = EVENTS[`settle:${kind}`](delivering)
      assert.equal(keptMs(delivering, event), DEAD_KEEP_MS)
      const stops = delivering === null ? null : { ...delivering, stops: true }
      assert.equal(keptMs(stops, event), null)
      assert.equal(keptMs(stops === null ? null : { ...stops, group: null, ordered: false }, event), DEAD_KEEP_MS)
    }
    assert.equal(keptMs(ROWS.deadStops, { kind: 'discard' }), DEAD_KEEP_MS)
  })

  test('a retry begins a new life: no tries, a new age, the error without the reason why it was given up', () => {
    const { tries, retriedAtMs, error, status, settledAtMs, expiresAtMs } = written(dead, { kind: 'retry' })
    assert.deepEqual([tries, retriedAtMs, error, status, settledAtMs, expiresAtMs], [0, NOW_MS, 'HTTP_500', 500, null, null])
    const alone = { ...dead as MessageRow, group: null, ordered: false }
    assert.equal(written(alone, { kind: 'retry' }).dueAtMs, NOW_MS, 'without a group it is due')
  })

  test('a scheduled message waits for its time with its turn and without, and an operator takes the time away', () => {
    const dueAtMs = NOW_MS + 700
    const scheduled = acceptedRow({ ...message, delayMs: 700 }, 2, false, NOW_MS)
    const behind = acceptedRow({ ...message, delayMs: 700 }, 2, true, NOW_MS)
    assert.deepEqual([scheduled.dueAtMs, columnOf(scheduled, NOW)], [dueAtMs, 'pausing'])
    assert.deepEqual([behind.dueAtMs, columnOf(behind, NOW)], [null, 'behind'])
    assert.equal(written(behind, { kind: 'turn' }).dueAtMs, dueAtMs)
    assert.equal(written(behind, { kind: 'turn' }, { ...NOW, nowMs: NOW_MS + 5_000 }).dueAtMs, dueAtMs, 'it has waited since its time')
    assert.equal(written(written(scheduled, { kind: 'recall' }), { kind: 'turn' }).dueAtMs, dueAtMs)
    assert.equal(written(scheduled, { kind: 'postpone', untilMs: NOW_MS + 100 }).dueAtMs, dueAtMs)
    const retried = written(scheduled, { kind: 'retry' })
    assert.deepEqual([retried.dueAtMs, retried.notBeforeMs], [null, null])
    assert.equal(written(retried, { kind: 'turn' }).dueAtMs, NOW_MS)
    assert.equal(deliveryOf(scheduled, LIVING, NOW_MS + 1_000).ageMs, 300)
    assert.equal(deliveryOf(retried, LIVING, NOW_MS + 1_000).ageMs, 1_000)
  })

  test('a replay begins a new life, is marked for good, and keeps the request until it is delivered again', () => {
    const kept = ROWS.kept as MessageRow
    const replayed = written(kept, { kind: 'replay' })
    const { tries, attempt, retriedAtMs, replayedAtMs, requestUntilMs, settledAtMs, expiresAtMs, request } = replayed
    assert.deepEqual(
      [tries, attempt, retriedAtMs, replayedAtMs, requestUntilMs, settledAtMs, expiresAtMs, request],
      [0, 2, NOW_MS, NOW_MS, null, null, null, message.request]
    )
    assert.equal(written({ ...kept, group: null, ordered: false }, { kind: 'replay' }).dueAtMs, NOW_MS, 'without a group it is due')
    const again = { ...replayed, state: 'delivering' as const, owner: LIVING, dueAtMs: null }
    for (const kind of ['delivered', 'again', 'held', 'dead'] as const) {
      assert.equal(written(again, EVENTS[`settle:${kind}`](again)).replayedAtMs, NOW_MS, 'its consumer has taken it before')
    }
  })

  test('a delivered message keeps its request for as long as the delivery says, and no longer than itself', () => {
    const delivered = (requestMs?: number): MessageRow => {
      const fate = { ...FATES.delivered, ...requestMs !== undefined && { requestMs } } as Fate
      return written(delivering, { kind: 'settle', token: tokenOf(delivering), fate })
    }
    for (const none of [delivered(), delivered(0)]) assert.deepEqual([none.request, none.requestUntilMs], [NO_REQUEST, null])
    assert.deepEqual([delivered(700).request, delivered(700).requestUntilMs], [message.request, NOW_MS + 700])
    assert.equal(delivered(KEEP_MS + 1).requestUntilMs, NOW_MS + KEEP_MS)
    for (const kind of ['expireRequest', 'dropRequest'] as const) {
      const { request, requestUntilMs, expiresAtMs } = written(ROWS.keptOver, { kind })
      assert.deepEqual([request, requestUntilMs, expiresAtMs], [NO_REQUEST, null, NOW_MS + 100])
    }
  })

  test('an answer stays until the message ends again', () => {
    const answered = { ...delivering as MessageRow, answer: ANSWER }
    for (const kind of ['again', 'delivered', 'dead'] as const) {
      assert.equal(written(answered, EVENTS[`settle:${kind}`](answered)).answer, ANSWER)
    }
    assert.equal(written(answered, EVENTS['settle:held'](answered)).answer, null)
    const lost = { ...answered, owner: GONE }
    assert.equal(written(lost, { kind: 'lapse' }).answer, ANSWER)
    assert.equal(written({ ...lost, holds: true }, { kind: 'lapse' }).answer, null)
  })

  test('a delivery that does not count is no try, and has used its number', () => {
    for (const fate of [FATES.again, FATES.dead]) {
      const uncounted = { ...fate, counts: false } as Fate
      const { attempt, tries } = written(delivering, { kind: 'settle', token: tokenOf(delivering), fate: uncounted })
      assert.deepEqual({ attempt, tries }, { attempt: 2, tries: 1 })
    }
  })

  test('under a claim the deliveries go on from its attempt', () => {
    const claimed = { ...message, underClaim: { owner: LIVING, attempt: 7 } }
    const row = written(null, { kind: 'accept', message: claimed, number: 1, isBehind: false })
    assert.equal(written(row, take()).attempt, 7)
  })

  test('a reader sees nothing of the request and of the worker', () => {
    const shown = detailOf(delivering as MessageRow)
    assert.deepEqual(Object.keys(shown).filter((name) => ['request', 'owner', 'group', 'number'].includes(name)), [])
  })
})

/** A minimal store of one group, with the logic of MemoryInbox. */
class Group {
  readonly rows = new Map<number, MessageRow>()
  /** `id:attempt` of every delivery, in order. */
  readonly deliveries: string[] = []
  readonly reports: string[] = []
  readonly #living = new Set<number>([1, 2])
  #lastNumber = 0
  nowMs = NOW_MS

  get all (): MessageRow[] { return [...this.rows.values()] }

  apply (name: MessageEventName, place: number, worker: number, stops: boolean): void {
    const row = this.rows.get(place) ?? null
    const event = this.#eventOf(name, place, row, worker, stops)
    const change = messageTransition(row, event, this.#moment())
    if (change.kind === 'refused') return
    if (change.kind === 'removed') {
      this.rows.delete(place)
      return
    }
    this.#check(row, change.row, event)
    this.rows.set(place, change.row)
    if (!blocks(change.row) || event.kind === 'retry' || event.kind === 'replay') this.#call()
  }

  toggle (worker: number): void {
    if (!this.#living.delete(worker)) this.#living.add(worker)
  }

  #eventOf (name: MessageEventName, place: number, row: MessageRow | null, worker: number, stops: boolean): MessageEvent {
    const id = Buffer.alloc(32, place)
    const owner = Buffer.alloc(16, worker)
    // Like a sequence: the number of a swept message is not used again.
    const end = { number: ++this.#lastNumber, isBehind: this.all.some(blocks) }
    switch (name) {
      case 'accept': return { kind: 'accept', message: { ...message, id, stops, holds: stops }, ...end }
      case 'acceptOther': return { kind: 'accept', message: { ...other, id }, ...end }
      case 'take': return { kind: 'take', owner, hasTurn: row !== null && hasItsTurn(row, this.all), isPaused: false }
      default: {
        const event = EVENTS[name](row)
        if (event.kind !== 'settle') return event
        const fate = event.fate.kind === 'delivered' && stops ? { ...event.fate, requestMs: KEEP_MS } : event.fate
        return { ...event, fate, token: { id, owner, attempt: row?.attempt ?? 0 } }
      }
    }
  }

  #moment (): Moment {
    return { nowMs: this.nowMs, overMs: this.nowMs, lives: (owner) => this.#living.has(owner[0] ?? 0) }
  }

  #check (before: MessageRow | null, after: MessageRow, event: MessageEvent): void {
    assert.equal(violation(after), null)
    if (event.kind === 'accept') return
    assert.ok(before !== null && after.attempt === before.attempt + (event.kind === 'take' ? 1 : 0), 'only a take numbers a delivery')
    const isEnd = before.state === 'discarded' || (before.state === 'delivered' && before.requestUntilMs === null)
    assert.ok(!isEnd, 'nothing follows the end')
    const name = `${after.number}:${after.attempt}`
    if (event.kind === 'take') {
      assert.ok(!this.all.some((each) => each.state === 'delivering'), 'one of a group at a time')
      assert.ok(!this.all.some((each) => blocks(each) && each.number < after.number), 'nobody passes an earlier one')
      assert.ok(!this.deliveries.includes(name), 'no delivery comes twice')
      this.deliveries.push(name)
    }
    if (event.kind === 'settle' || event.kind === 'lapse') {
      assert.ok(this.deliveries.includes(name) && !this.reports.includes(name), 'a delivery ends once')
      this.reports.push(name)
    }
  }

  #call (): void {
    for (const { row, event } of turnsOf(this.all)) {
      const change = messageTransition(row, event, this.#moment())
      if (change.kind === 'written') this.rows.set(row.id[0] ?? 0, change.row)
    }
  }

  checkTurns (): void {
    const [first] = this.all.filter(blocks).sort((one, another) => one.number - another.number)
    assert.ok(first?.state !== 'waiting' || first.dueAtMs !== null, 'no group is forgotten')
    assert.ok(this.all.filter((row) => row.state === 'waiting' && hasItsTurn(row, this.all)).length <= 1, 'one turn at a time')
  }
}

/** Events that a group causes itself are applied with these. */
const GROUP_EVENTS = EVENT_NAMES.filter((name) => name !== 'turn' && name !== 'recall')

test('any history of a group: one at a time, in order, each delivery numbered and ended once, and nobody forgotten', () => {
  const step = fc.record({
    // Half of them begin something. If all events were equally likely, hardly any would change anything.
    name: fc.oneof(fc.constantFrom<MessageEventName>('accept', 'take'), fc.constantFrom(...GROUP_EVENTS)),
    place: fc.constantFrom(1, 2, 3, 4),
    worker: fc.constantFrom(1, 2),
    stops: fc.boolean(),
    toggles: fc.constantFrom(true, false, false, false),
    waitMs: fc.constantFrom(0, 0, 500, 9_000)
  })
  let deliveries = 0
  fc.assert(fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
    const group = new Group()
    for (const { name, place, worker, stops, toggles, waitMs } of steps) {
      group.nowMs += waitMs
      if (toggles) group.toggle(worker)
      group.apply(name, place, worker, stops)
      group.checkTurns()
    }
    deliveries += group.deliveries.length
  }), { numRuns: 500 })
  assert.ok(deliveries > 100, `the histories deliver: ${deliveries} times`)
})
