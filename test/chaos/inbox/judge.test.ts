/** The judge of mode inbox reports each kind of error, and excuses only what a killed process or a lost answer explains. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Incarnation } from '../gateways.ts'
import type { Stamp } from '../stamps.ts'
import type { Change } from './audit.ts'
import type { ConsumerLine } from './consumer.ts'
import type { InboxEvidence } from './history.ts'
import { judgeInbox } from './judge.ts'
import type { Call } from './ledger.ts'
import { inboxRouteNamed } from './routes.ts'
import type { Topic } from './routes.ts'
import { wishOf } from './wishes.ts'
import type { Due, Wish } from './wishes.ts'

function wish (route: string, key: string, more: { group?: string, isOther?: boolean, due?: Due, topic?: Topic } = {}): Wish {
  return wishOf({
    route: inboxRouteNamed(route),
    items: [{ key, group: more.group ?? null, amount: 1 }],
    scope: 'Bearer one',
    poison: null,
    due: more.due ?? null,
    topic: more.topic ?? null,
    isOther: more.isOther ?? false
  })
}

const LOOSE = wish('loose', 'a')
const HELD = wish('held', 'a')
const WISH = wish('wish', 'a')
const [FIRST, SECOND] = [wish('ordered', 'a', { group: 'g' }), wish('ordered', 'b', { group: 'g' })]

function idOf ({ parts: [part] }: Wish): string {
  return part?.record ?? ''
}

/** Asked, and told 202 two milliseconds later. */
function accepted (call: string, wish: Wish, atMs: number, more: Partial<Call> = {}): Call {
  return { call, wish, prefers: wish.route.onWish, door: 0, atMs, told: { kind: 'accepted', ids: [idOf(wish)] }, toldMs: atMs + 2, ...more }
}

function change (wish: Wish, atMs: number, state: Change['state'], attempt: number, more: Partial<Change> = {}): Change {
  return {
    atMs,
    beganMs: atMs,
    gone: false,
    record: idOf(wish),
    state,
    owner: state === 'delivering' ? 'worker' : null,
    attempt,
    tries: attempt,
    status: null,
    error: null,
    call: 'a',
    dueFromMs: null,
    ...more
  }
}

function stamp (wish: Wish, atMs: number, attempt: number, call = 'a'): Stamp {
  return { atMs, call, record: idOf(wish), attempt, from: 'gateway-0' }
}

let deliveries = 0

/** Seen by the consumer, and answered a while later. Status null: never. */
function consumed (
  wish: Wish,
  atMs: number,
  attempt: number,
  status: number | null,
  more: { afterMs?: number, call?: string, print?: string } = {}
): ConsumerLine[] {
  const delivery = ++deliveries
  const seen = {
    delivery,
    record: idOf(wish),
    attempt,
    call: more.call ?? 'a',
    atMs,
    target: wish.target,
    print: more.print ?? wish.parts[0]?.print ?? ''
  }
  return [seen, ...status === null ? [] : [{ delivery, answeredMs: atMs + (more.afterMs ?? 5), status }]]
}

/** Accepted at 1, taken at `atMs`, delivered `afterMs` later. */
function delivered (
  wish: Wish,
  atMs: number,
  attempt = 1,
  afterMs = 10,
  call = 'a'
): Pick<InboxEvidence, 'changes' | 'stamps' | 'consumed'> {
  return {
    changes: [
      change(wish, atMs, 'delivering', attempt, { call }),
      change(wish, atMs + afterMs, 'delivered', attempt, { status: 201, call })
    ],
    stamps: [stamp(wish, atMs + 1, attempt, call)],
    consumed: consumed(wish, atMs + 2, attempt, 201, { afterMs: afterMs - 4, call })
  }
}

function frozen (fromMs: number, untilMs: number): ReadonlyMap<string, readonly Incarnation[]> {
  return new Map([['gateway-0', [{ pid: 1, fromMs: 0, untilMs: null, frozen: [{ fromMs, untilMs }], waits: [] }]]])
}

/** The rows are what was written last. */
function evidence (...parts: ReadonlyArray<Partial<InboxEvidence>>): InboxEvidence {
  type Lists = Omit<InboxEvidence, 'rows' | 'incarnations'>
  const all = <Key extends keyof Lists>(key: Key): Array<InboxEvidence[Key][number]> =>
    parts.flatMap((part) => [...part[key] ?? []])
  const changes = all('changes').sort((one, other) => one.atMs - other.atMs)
  const rows = parts.find((part) => part.rows !== undefined)?.rows ??
    Array.from(new Map(changes.map((each) => [each.record, each])).values())
  return {
    calls: all('calls'),
    consumed: all('consumed'),
    stamps: all('stamps').sort((one, other) => one.atMs - other.atMs),
    changes,
    byHand: all('byHand'),
    pauses: all('pauses'),
    rows,
    incarnations: parts.find((part) => part.incarnations !== undefined)?.incarnations ?? new Map()
  }
}

/** Each description once. */
function found (...parts: ReadonlyArray<Partial<InboxEvidence>>): string[] {
  return Array.from(new Set(judgeInbox(evidence(...parts)).found.map(({ invariant }) => invariant)))
}

const ACCEPTED = { calls: [accepted('a', LOOSE, 0)], changes: [change(LOOSE, 1, 'waiting', 0)] }

test('a message that was accepted and delivered is right; so is one that was delivered again after its answer was lost', () => {
  assert.deepEqual(found(ACCEPTED, delivered(LOOSE, 100)), [])
  const lost = {
    changes: [change(LOOSE, 50, 'delivering', 1), change(LOOSE, 60, 'waiting', 1, { error: 'ECONNRESET' })],
    stamps: [stamp(LOOSE, 51, 1)],
    consumed: consumed(LOOSE, 52, 1, 201)
  }
  assert.deepEqual(found(ACCEPTED, lost, delivered(LOOSE, 100, 2)), [])
})

test('N1: who was told 202 of a message that is not there', () => {
  assert.deepEqual(found({ calls: ACCEPTED.calls }), ['N1'])
  assert.deepEqual(found({ calls: [accepted('a', LOOSE, 0, { told: { kind: 'unsent' } })] }), [])
})

test('N9: a message that waits for ever', () => {
  assert.deepEqual(found(ACCEPTED), ['N9'])
})

test('N2: a number that comes twice, goes back, or was handed out to nobody', () => {
  const once = delivered(LOOSE, 100)
  assert.deepEqual(found(ACCEPTED, once, { stamps: [stamp(LOOSE, 103, 1)] }), ['N2'], 'twice on the network')
  assert.deepEqual(found(ACCEPTED, once, { consumed: consumed(LOOSE, 103, 1, 201) }), ['N2'], 'twice at the consumer')
  assert.deepEqual(found(ACCEPTED, once, { stamps: [stamp(LOOSE, 104, 2)] }), ['N2', 'N11'], 'never handed out, and after it was delivered')
})

/** Delivery 1 is taken from its worker, 2 is delivered at 5 s, and 1 is seen at `lateMs`. */
function lateSending (lateMs: number): Array<Partial<InboxEvidence>> {
  const taken = {
    changes: [change(LOOSE, 50, 'delivering', 1), change(LOOSE, 4_900, 'waiting', 1, { error: 'WORKER_LOST' })],
    stamps: [stamp(LOOSE, lateMs, 1)],
    consumed: consumed(LOOSE, lateMs + 1, 1, 201)
  }
  return [ACCEPTED, taken, delivered(LOOSE, 5_000, 2)]
}

test('N2: a delivery that is sent after it was taken from its worker, unless that was frozen meanwhile and has just been woken', () => {
  assert.deepEqual(found(...lateSending(7_000)), ['N2'])
  assert.deepEqual(found(...lateSending(7_000), { incarnations: frozen(40, 6_900) }), [])
  assert.equal(judgeInbox(evidence(...lateSending(7_000), { incarnations: frozen(40, 6_900) })).excused, 1)
  assert.deepEqual(found(...lateSending(7_000), { incarnations: frozen(40, 5_500) }), ['N2'], 'awake for long')
})

test('N3: another request that is called accepted under the same key, an id of another key, a message that is nobody\'s', () => {
  const other = wish('held', 'a', { isOther: true })
  const both = [accepted('a', HELD, 0), accepted('b', other, 10)]
  assert.deepEqual(found({ calls: both, changes: [change(HELD, 1, 'waiting', 0)] }, delivered(HELD, 100)), ['N3'])
  assert.deepEqual(
    found(
      {
        calls: [accepted('a', HELD, 0), accepted('b', other, 10, { told: { kind: 'mismatch' } })],
        changes: [change(HELD, 1, 'waiting', 0)]
      },
      delivered(HELD, 100)
    ),
    []
  )
  assert.deepEqual(
    found(
      { calls: [accepted('a', LOOSE, 0, { told: { kind: 'accepted', ids: [idOf(HELD)] } })], changes: ACCEPTED.changes },
      delivered(LOOSE, 100)
    ),
    ['N3']
  )
  assert.deepEqual(found({ changes: ACCEPTED.changes, rows: [] }), ['N3'])
})

const TWO = {
  calls: [accepted('a', FIRST, 0), accepted('b', SECOND, 10)],
  changes: [change(FIRST, 1, 'waiting', 0), change(SECOND, 11, 'waiting', 0, { call: 'b' })]
}

test('N4: the second of a group before the first is over', () => {
  assert.deepEqual(found(TWO, delivered(FIRST, 100), delivered(SECOND, 200, 1, 10, 'b')), [])
  assert.deepEqual(found(TWO, delivered(FIRST, 200), delivered(SECOND, 100, 1, 10, 'b')), ['N4'])
  const failed = {
    changes: [change(FIRST, 50, 'delivering', 1), change(FIRST, 60, 'waiting', 1, { status: 500, error: 'HTTP_500' })],
    stamps: [stamp(FIRST, 51, 1)],
    consumed: consumed(FIRST, 52, 1, 500)
  }
  assert.deepEqual(found(TWO, failed, delivered(SECOND, 100, 1, 10, 'b'), delivered(FIRST, 200, 2)), ['N4'], 'it waits behind the retry')
})

test('N4: two that were accepted at the same time may go in either order', () => {
  const atOnce = { ...TWO, calls: [accepted('a', FIRST, 0), accepted('b', SECOND, 1)] }
  assert.deepEqual(found(atOnce, delivered(FIRST, 200), delivered(SECOND, 100, 1, 10, 'b')), [])
})

test('N4: one that is sent while the consumer is at work on another of the group, whose answer is taken afterwards', () => {
  const atOnce = { ...TWO, calls: [accepted('a', FIRST, 0), accepted('b', SECOND, 1)] }
  assert.deepEqual(found(atOnce, delivered(FIRST, 100, 1, 500), delivered(SECOND, 150, 1, 10, 'b')), ['N4'])
  const unheard = {
    changes: [change(FIRST, 100, 'delivering', 1), change(FIRST, 140, 'waiting', 1, { error: 'WORKER_LOST' })],
    stamps: [stamp(FIRST, 101, 1)],
    consumed: consumed(FIRST, 102, 1, 201, { afterMs: 400 })
  }
  assert.deepEqual(
    found(atOnce, unheard, delivered(SECOND, 150, 1, 10, 'b'), delivered(FIRST, 600, 2)),
    [],
    'nobody heard the answer of the first one'
  )
})

test('N4: one behind a dead message, where that stops the group', () => {
  for (const [route, broken] of [['stops', ['N4']], ['ordered', []]] as const) {
    const [first, second] = [wish(route, 'a', { group: 'g' }), wish(route, 'b', { group: 'g' })]
    const both = {
      calls: [accepted('a', first, 0), accepted('b', second, 10)],
      changes: [change(first, 1, 'waiting', 0), change(second, 11, 'waiting', 0, { call: 'b' })]
    }
    const dead = {
      changes: [change(first, 50, 'delivering', 1), change(first, 60, 'dead', 1, { status: 410, error: 'GONE' })],
      stamps: [stamp(first, 51, 1)],
      consumed: consumed(first, 52, 1, 410)
    }
    assert.deepEqual(found(both, dead, delivered(second, 100, 1, 10, 'b')), broken, route)
    const discarded = {
      changes: [change(first, 80, 'discarded', 1, { status: 410, error: 'GONE' })],
      byHand: [{ record: idOf(first), atMs: 80, action: 'discard', state: 'dead', attempt: 1 } as const]
    }
    assert.deepEqual(found(both, dead, discarded, delivered(second, 100, 1, 10, 'b')), [], `${route}, discarded`)
  }
})

test('N5: executed and accepted, but where the consumer had said "not done" to the execution', () => {
  const calls = [accepted('b', WISH, 0, { prefers: false, told: { kind: 'unknown' } }), accepted('a', WISH, 30)]
  const message = { calls, changes: [change(WISH, 31, 'waiting', 0)] }
  const executed = (status: number | null): Partial<InboxEvidence> => ({
    stamps: [stamp(WISH, 10, 1, 'b')],
    consumed: consumed(WISH, 11, 1, status, { call: 'b' })
  })
  assert.deepEqual(found(message, executed(201), delivered(WISH, 100)), ['N5'])
  assert.deepEqual(found(message, executed(null), delivered(WISH, 100)), ['N5'])
  assert.deepEqual(found(message, executed(503), delivered(WISH, 100)), [])
})

test('N6: sent again where it holds, unless the consumer said "later" or an operator asked for it', () => {
  const message = { calls: [accepted('a', HELD, 0)], changes: [change(HELD, 1, 'waiting', 0)] }
  const first = (status: number | null, ended: Partial<Change>): Partial<InboxEvidence> => ({
    changes: [change(HELD, 50, 'delivering', 1), change(HELD, 60, 'waiting', 1, ended)],
    stamps: [stamp(HELD, 51, 1)],
    consumed: consumed(HELD, 52, 1, status)
  })
  assert.deepEqual(found(message, first(null, { error: 'ECONNRESET' }), delivered(HELD, 100, 2)), ['N6'])
  assert.deepEqual(found(message, first(503, { status: 503, error: 'HTTP_503' }), delivered(HELD, 100, 2)), [])
  const asked = {
    changes: [
      change(HELD, 50, 'delivering', 1),
      change(HELD, 60, 'held', 1, { error: 'ECONNRESET' }),
      change(HELD, 80, 'waiting', 1, { tries: 0 })
    ],
    byHand: [{ record: idOf(HELD), atMs: 80, action: 'retry', state: 'held', attempt: 1 } as const],
    stamps: [stamp(HELD, 51, 1)],
    consumed: consumed(HELD, 52, 1, null)
  }
  assert.deepEqual(found(message, asked, delivered(HELD, 100, 2)), [])
})

test('N7: what the consumer got is not what was accepted', () => {
  const once = delivered(LOOSE, 100)
  assert.deepEqual(found(ACCEPTED, { ...once, consumed: consumed(LOOSE, 102, 1, 201, { print: 'another' }) }), ['N7'])
})

test('N8: states that say what nobody said', () => {
  const once = delivered(LOOSE, 100)
  assert.deepEqual(found(ACCEPTED, { ...once, consumed: consumed(LOOSE, 102, 1, 500) }), ['N8'], 'another status')
  assert.deepEqual(found(ACCEPTED, { ...once, consumed: consumed(LOOSE, 102, 1, null) }), ['N8'], 'no answer')
  assert.deepEqual(found(ACCEPTED, { ...once, consumed: consumed(LOOSE, 102, 1, 201, { afterMs: 500 }) }), ['N8'], 'before it was said')
  const ended = (more: Partial<Change>, state: Change['state'] = 'dead'): string[] => found(ACCEPTED, {
    changes: [change(LOOSE, 50, 'delivering', 1), change(LOOSE, 60, state, 1, more)],
    stamps: [stamp(LOOSE, 51, 1)],
    consumed: consumed(LOOSE, 52, 1, 500)
  })
  assert.deepEqual(ended({ status: 500, error: 'ATTEMPTS_SPENT HTTP_500' }), ['N8'], 'after one try')
  assert.deepEqual(ended({ status: 500, error: 'TOO_OLD HTTP_500' }), ['N8'], 'young')
  assert.deepEqual(ended({ error: 'ECONNRESET' }, 'held'), ['N8'], 'held on a route that does not')
  assert.deepEqual(ended({ error: 'UPSTREAM_TIMEOUT' }, 'waiting'), ['N9', 'N8'], 'at once')
  assert.deepEqual(found(ACCEPTED, { changes: [change(LOOSE, 50, 'discarded', 0)] }), ['N8'], 'discarded by nobody')
})

test('N8: an answer that a client would be given ends a message, and delivers none', () => {
  const message = { calls: [accepted('a', WISH, 0)], changes: [change(WISH, 1, 'waiting', 0)] }
  const ended = (state: Change['state'], status: number, error: string | null): string[] => found(message, {
    changes: [change(WISH, 50, 'delivering', 1), change(WISH, 60, state, 1, { status, error })],
    stamps: [stamp(WISH, 51, 1)],
    consumed: consumed(WISH, 52, 1, status)
  })
  assert.deepEqual(ended('dead', 500, 'HTTP_500'), [])
  assert.deepEqual(ended('delivered', 500, null), ['N8'])
  assert.ok(ended('waiting', 500, 'HTTP_500').includes('N8'))
  assert.deepEqual(ended('dead', 503, 'HTTP_503'), ['N8'], 'it was not processed')
})

// ---------------------------------------------------------------- targets, replays, times, pauses

const TARGETED = wish('targets', 'a', { group: 'g', topic: 'b' })

/** The request as one of its consumers gets it. */
function forTarget (all: Wish, target: string): Wish {
  return { ...all, parts: all.parts.filter(({ inbox }) => inbox === `targets::${target}`) }
}

const OF_TARGETS = {
  calls: [accepted('a', TARGETED, 0)],
  changes: ['books', 'mail', 'every'].map((target) => change(forTarget(TARGETED, target), 1, 'waiting', 0))
}

function deliveredTo (targets: readonly string[], all = TARGETED, atMs = 100, call = 'a'): Array<Partial<InboxEvidence>> {
  return targets.map((target, index) => delivered(forTarget(all, target), atMs + index * 20, 1, 10, call))
}

test('N10: one message for each consumer that takes the request, written together', () => {
  assert.deepEqual(found(OF_TARGETS, ...deliveredTo(['books', 'mail', 'every'])), [])
  const two = { ...OF_TARGETS, changes: OF_TARGETS.changes.slice(0, 2) }
  assert.deepEqual(found(two, ...deliveredTo(['books', 'mail'])), ['N1', 'N10'], 'one has none')
  const untold = { ...two, calls: [accepted('a', TARGETED, 0, { told: null, toldMs: null })] }
  assert.deepEqual(found(untold, ...deliveredTo(['books', 'mail'])), ['N10'], 'one has none, and nobody was told 202')
  const [first, ...others] = OF_TARGETS.changes
  const apart = { ...OF_TARGETS, changes: [{ ...first as Change, atMs: 2, beganMs: 2 }, ...others] }
  assert.deepEqual(found(apart, ...deliveredTo(['books', 'mail', 'every'])), ['N10'], 'one after another')
})

test('N10: a message for a consumer that does not take the request', () => {
  const some = wish('targets', 'a', { topic: 'd' })
  const message = { calls: [accepted('a', some, 0)], changes: [change(some, 1, 'waiting', 0)] }
  assert.deepEqual(found(message, delivered(some, 100)), [])
  const stray = change(some, 1, 'delivered', 0, { record: some.untaken[0] ?? '' })
  assert.ok(found(message, delivered(some, 100), { changes: [stray] }).includes('N10'))
})

test('N7: what one consumer should get goes to another', () => {
  const [books, ...others] = deliveredTo(['books', 'mail', 'every'])
  const { print = '' } = forTarget(TARGETED, 'mail').parts[0] ?? {}
  const wrong = { ...books, consumed: consumed(forTarget(TARGETED, 'books'), 102, 1, 201, { print }) }
  assert.deepEqual(found(OF_TARGETS, wrong, ...others), ['N7'])
})

test('N4: each consumer has an order of its own', () => {
  const next = wish('targets', 'b', { group: 'g', topic: 'b' })
  const two = {
    calls: [...OF_TARGETS.calls, accepted('b', next, 10)],
    changes: [
      ...OF_TARGETS.changes,
      ...['books', 'mail', 'every'].map((target) => change(forTarget(next, target), 11, 'waiting', 0, { call: 'b' }))
    ]
  }
  const [books, mail, every] = deliveredTo(['books', 'mail', 'every'])
  const late = delivered(forTarget(TARGETED, 'books'), 500)
  const nexts = deliveredTo(['books', 'mail', 'every'], next, 200, 'b')
  assert.ok(books !== undefined && mail !== undefined && every !== undefined)
  assert.deepEqual(found(two, books, mail, every, ...nexts), [])
  assert.deepEqual(found(two, late, mail, every, ...nexts), ['N4'])
  assert.deepEqual(found(two, books, delivered(forTarget(TARGETED, 'mail'), 500), every, ...nexts), [], 'in no order')
})

const KEPT = wish('kept', 'a', { group: 'g' })
const KEPT_MESSAGE = { calls: [accepted('a', KEPT, 0)], changes: [change(KEPT, 1, 'waiting', 0)] }

function replayed (wish: Wish, atMs: number, attempt = 1): Partial<InboxEvidence> {
  return {
    changes: [change(wish, atMs, 'waiting', attempt, { tries: 0, status: 201 })],
    byHand: [{ record: idOf(wish), atMs, action: 'replay', state: 'delivered', attempt }]
  }
}

function marked (parts: Partial<InboxEvidence>): Partial<InboxEvidence> {
  return { ...parts, stamps: (parts.stamps ?? []).map((each) => ({ ...each, replay: true })) }
}

test('N11: what was delivered comes again, and nobody replayed it', () => {
  const once = [KEPT_MESSAGE, delivered(KEPT, 100)]
  assert.deepEqual(found(...once, replayed(KEPT, 200), marked(delivered(KEPT, 300, 2))), [])
  assert.deepEqual(found(...once, { ...replayed(KEPT, 200), byHand: [] }, delivered(KEPT, 300, 2)), ['N8', 'N11'])
  const twice = [...once, replayed(KEPT, 200), marked(delivered(KEPT, 300, 2))]
  const again = { changes: [change(KEPT, 400, 'waiting', 2, { tries: 0 })] }
  assert.deepEqual(found(...twice, again, marked(delivered(KEPT, 500, 3))), ['N8', 'N11'], 'one replay is for one delivery')
})

test('N11: the header of a replay is on its deliveries, and on no others', () => {
  const once = delivered(KEPT, 100)
  assert.deepEqual(found(KEPT_MESSAGE, once, replayed(KEPT, 200), delivered(KEPT, 300, 2)), ['N11'])
  assert.deepEqual(found(KEPT_MESSAGE, marked(once)), ['N11'])
  const failed = {
    changes: [change(KEPT, 250, 'delivering', 2), change(KEPT, 260, 'waiting', 2, { status: 500, error: 'HTTP_500' })],
    stamps: [{ ...stamp(KEPT, 251, 2), replay: true as const }],
    consumed: consumed(KEPT, 252, 2, 500)
  }
  assert.deepEqual(found(KEPT_MESSAGE, once, replayed(KEPT, 200), failed, marked(delivered(KEPT, 300, 3))), [], 'and on their retries')
})

test('N4: a replay goes before what still waits, but for what was being taken at that moment', () => {
  const next = wish('kept', 'b', { group: 'g' })
  const two = {
    calls: [...KEPT_MESSAGE.calls, accepted('b', next, 10)],
    changes: [...KEPT_MESSAGE.changes, change(next, 11, 'waiting', 0, { call: 'b' })]
  }
  const asked = [two, delivered(KEPT, 100), replayed(KEPT, 200), marked(delivered(KEPT, 9_000, 2))]
  const late = delivered(next, 3_000, 1, 10, 'b')
  assert.deepEqual(found(...asked, late), ['N4'])
  assert.deepEqual(found(...asked, delivered(next, 300, 1, 10, 'b')), [])
  const [take, end] = late.changes
  const begun = { ...late, changes: [{ ...take as Change, beganMs: 190 }, end as Change] }
  assert.deepEqual(found(...asked, begun), [], 'its statement began before')
})

const AT = wish('later', 'a', { due: { kind: 'at', ms: 2_000 } })
const IN = wish('later', 'b', { due: { kind: 'in', ms: 2_000 } })

/** Accepted at 1, with this time. */
function scheduled (wish: Wish, dueFromMs: number | null, more: Partial<Change> = {}): Partial<InboxEvidence> {
  return { calls: [accepted('a', wish, -20)], changes: [change(wish, 1, 'waiting', 0, { dueFromMs, ...more })] }
}

test('N12: handed out before its time, unless an operator wants it now', () => {
  assert.deepEqual(found(scheduled(AT, 2_005), delivered(AT, 2_006)), [])
  assert.deepEqual(found(scheduled(AT, 2_005), delivered(AT, 1_900)), ['N12'])
  assert.deepEqual(found(scheduled(IN, 2_001), delivered(IN, 1_900)), ['N12'])
  const retried = {
    changes: [change(AT, 50, 'waiting', 0)],
    byHand: [{ record: idOf(AT), atMs: 50, action: 'retry', state: 'waiting', attempt: 0 } as const]
  }
  assert.deepEqual(found(scheduled(AT, 2_005), retried, delivered(AT, 100)), [], 'an operator retried it')
})

test('N12: another time than its sender named', () => {
  assert.deepEqual(found(scheduled(AT, null), delivered(AT, 2_100)), ['N12'], 'none')
  assert.deepEqual(found(scheduled(AT, 1_990), delivered(AT, 2_100)), ['N12'], 'an earlier one')
  assert.deepEqual(found(scheduled(AT, 2_021), delivered(AT, 2_100)), [], 'later by the way to the database')
  assert.deepEqual(found(scheduled(AT, 2_030), delivered(AT, 2_100)), ['N12'], 'later than that')
  assert.deepEqual(found(scheduled(IN, 2_010), delivered(IN, 2_100)), ['N12'], 'a delay counts from the acceptance')
  assert.deepEqual(found(scheduled(wish('later', 'a'), 2_005), delivered(wish('later', 'a'), 2_100)), ['N12'], 'nobody named one')
  const past = wish('later', 'a', { due: { kind: 'at', ms: -100 } })
  assert.deepEqual(found(scheduled(past, null), delivered(past, 100)), [], 'it was over')
})

const [BY_HAND, RESUMED] = [
  { atMs: 50, gone: false, route: 'loose', trialAtMs: null },
  { atMs: 5_000, gone: true, route: 'loose', trialAtMs: null }
]

test('N13: handed out while an operator paused the inbox, but for what was being taken at that moment', () => {
  const pauses = [BY_HAND, RESUMED]
  assert.deepEqual(found(ACCEPTED, { pauses }, delivered(LOOSE, 5_100)), [])
  assert.deepEqual(found(ACCEPTED, { pauses }, delivered(LOOSE, 3_000)), ['N13'])
  assert.deepEqual(found(ACCEPTED, { pauses }, delivered(LOOSE, 60)), [])
  const { changes: [take, end], ...rest } = delivered(LOOSE, 3_000)
  assert.deepEqual(found(ACCEPTED, { pauses }, { ...rest, changes: [{ ...take as Change, beganMs: 40 }, end as Change] }), [])
  const others = pauses.map((each) => ({ ...each, route: 'held' }))
  assert.deepEqual(found(ACCEPTED, { pauses: others }, delivered(LOOSE, 3_000)), [], 'another inbox')
})

test('N13: a gateway\'s pause lets out one message for each trial, and an operator\'s none', () => {
  const byGateway = { ...BY_HAND, trialAtMs: 1_000 }
  const trial = { ...byGateway, atMs: 1_900, trialAtMs: 3_000 }
  assert.deepEqual(found(ACCEPTED, { pauses: [byGateway, RESUMED] }, delivered(LOOSE, 2_000)), ['N13'])
  assert.deepEqual(found(ACCEPTED, { pauses: [byGateway, trial, RESUMED] }, delivered(LOOSE, 2_000)), [])
  const takenOver = [byGateway, trial, { ...BY_HAND, atMs: 1_950 }, RESUMED]
  assert.deepEqual(found(ACCEPTED, { pauses: takenOver }, delivered(LOOSE, 4_000)), ['N13'])
  const failed = {
    changes: [change(LOOSE, 2_000, 'delivering', 1), change(LOOSE, 2_010, 'waiting', 1, { status: 502, error: 'HTTP_502' })],
    stamps: [stamp(LOOSE, 2_001, 1)],
    consumed: consumed(LOOSE, 2_002, 1, 502)
  }
  const tried = [byGateway, trial, RESUMED]
  assert.deepEqual(found(ACCEPTED, { pauses: tried }, failed, delivered(LOOSE, 4_000, 2)), ['N13'], 'two of one trial')
})

test('N9: an inbox that stays paused', () => {
  assert.deepEqual(found(ACCEPTED, delivered(LOOSE, 40), { pauses: [BY_HAND] }), ['N9'])
})
