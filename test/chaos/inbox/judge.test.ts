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
