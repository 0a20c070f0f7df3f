/**
 * The table of the inbox as literals, cell by cell, and how each event goes through the port. It is independent of
 * core/inbox/transitions.ts. Every driver is checked against it, and the table too. Other fields that a cell writes are compared with the
 * table's own row, so that two drivers cannot differ in them.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { detailOf as shown } from '../../src/core/inbox/row.ts'
import type { MessageRow } from '../../src/core/inbox/row.ts'
import { messageTransition } from '../../src/core/inbox/transitions.ts'
import type { MessageEvent, Moment } from '../../src/core/inbox/transitions.ts'
import type { DeliveryToken, Fate, MessageDetail, NewMessage } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import { againIn, againOf, AUDIT, DEAD, DELIVERED, HELD, LONG_MS, messageOf, SHORT_MS, workerOf } from './inbox-world.ts'
import type { InboxWorld, OpenInbox } from './inbox-world.ts'
import { until } from './record-world.ts'

/**
 * `overtaken`: due, and an earlier message of its group is open again. `lapsed`: lost by time. `kept`: its request, after its delivery.
 * `…Stops`: longer than their retention.
 */
const ALONE = [
  'none', 'pausing', 'due', 'delivering', 'lost', 'lapsed', 'delivered', 'kept', 'keptOver', 'held', 'dead', 'discarded',
  'pastDelivered', 'pastHeld', 'pastDead', 'pastDiscarded'
] as const
const GROUPED = [...ALONE, 'behind', 'overtaken', 'heldStops', 'deadStops'] as const
type Place = typeof GROUPED[number]
type Cells = Readonly<Partial<Record<Place, string>>>

/** The message under test, and what is before it in its group. */
interface Brought {
  readonly place: Place
  readonly isGrouped: boolean
  readonly mine: NewMessage
  /** Dead, and before it in its group; for `overtaken`: due again. */
  readonly first: NewMessage
  /** Before it in its group, and due. Only `behind` has one. */
  readonly blocker: NewMessage | null
  /** Of its last delivery. */
  readonly token: DeliveryToken
}

interface EventCase {
  readonly event: string
  /** Of the messages under test. */
  readonly holds?: boolean
  /** A message that stops its group has a retention that is not over: the event begins another one. */
  readonly keepsLong?: boolean
  /** For all places at once, before `run`. */
  readonly once?: (store: InboxStore, all: readonly Brought[]) => Promise<void>
  /** Answers one word. */
  readonly run: (store: InboxStore, brought: Brought) => Promise<string>
  /** `word ·`: nothing was written. `word state attempt/tries`: the message after it; a waiting one is `due`, `pausing` or `behind`. */
  readonly cells: Cells
  /** Every place that `cells` does not name. */
  readonly otherwise: string
  /** The same event for the table. Absent: the table has no such event, as with a token that does not match. */
  readonly asTable?: (brought: Brought) => MessageEvent
  /** A group has no turn without one. */
  readonly onlyGrouped?: true
}

const OTHER = { fingerprint: { alg: 3, value: Buffer.alloc(32, 8) } }
const PAST = ['pastDelivered', 'pastHeld', 'pastDead', 'pastDiscarded'] as const
const ACCEPTED: Cells = cellsOf(['none', ...PAST], 'accepted due 0/0')
const AGAIN = againIn(LONG_MS)
/** Its request is kept for as long as it is itself. */
const KEPT: Fate = { ...DELIVERED, requestMs: LONG_MS }

function cellsOf (places: readonly Place[], cell: string): Cells {
  return Object.fromEntries(places.map((place) => [place, cell]))
}

/** Attempts and tries are 1/1, but for `lost`: it is in its second life, 2/1. */
const TAKEN_PLACES = ['delivering', 'lapsed'] as const

function settled (fate: Fate, word: string): EventCase {
  return {
    event: `settle ${fate.kind}${'requestMs' in fate ? ', and its request is kept' : ''}`,
    run: async (store, { token }) => `${await store.settle(token, fate)}`,
    cells: { ...cellsOf(TAKEN_PLACES, `true ${word} 1/1`), lost: `true ${word} 2/1` },
    otherwise: 'false ·',
    asTable: ({ token }) => ({ kind: 'settle', token, fate })
  }
}

/** Another owner's, of the next attempt, and of the one before. */
function otherTokens (token: DeliveryToken): DeliveryToken[] {
  return [{ ...token, owner: randomBytes(16) }, { ...token, attempt: token.attempt + 1 }, { ...token, attempt: token.attempt - 1 }]
}

/** At least one is lost by time: it is looked for until it is found. */
async function recoverAll (store: InboxStore, all: readonly Brought[]): Promise<void> {
  const lost = all.filter(({ place }) => place === 'lost' || place === 'lapsed')
  let count = 0
  await until(async () => (count += (await store.recover(100)).count) >= lost.length, 'all that is lost to be found')
  assert.equal(count, lost.length)
}

const CASES: readonly EventCase[] = [
  {
    event: 'accept',
    run: async (store, { mine }) => (await store.accept(againOf(mine))).kind,
    cells: ACCEPTED,
    otherwise: 'seen ·',
    asTable: ({ mine }) => ({ kind: 'accept', message: mine, number: 1, isBehind: false })
  },
  {
    event: 'accept of another request',
    run: async (store, { mine }) => (await store.accept(againOf(mine, OTHER))).kind,
    cells: ACCEPTED,
    otherwise: 'seen ·',
    asTable: ({ mine }) => ({ kind: 'accept', message: againOf(mine, OTHER), number: 1, isBehind: false })
  },
  {
    event: 'accept of a batch',
    run: async (store, { mine }) => acceptBeside(store, againOf(mine)),
    cells: cellsOf(['none', ...PAST], 'accepted, and its batch, due 0/0'),
    otherwise: 'seen, and its batch, ·'
  },
  {
    event: 'accept of a batch with another request',
    run: async (store, { mine }) => acceptBeside(store, againOf(mine, OTHER)),
    cells: cellsOf(['none', ...PAST], 'accepted, and its batch, due 0/0'),
    otherwise: 'seen, without its batch, ·'
  },
  {
    event: 'take',
    run: async (store, { mine }) => takeMine(store, mine, await workerOf(store)),
    cells: { due: 'taken delivering 1/1' },
    otherwise: 'none ·',
    asTable: ({ place }) => ({ kind: 'take', owner: TAKER, hasTurn: place !== 'overtaken', isPaused: false })
  },
  {
    event: 'take while its tenant is paused',
    run: async (store, { mine }) => {
      await store.postpone(tenantOf(mine), LONG_MS, 0)
      return takeMine(store, mine, await workerOf(store))
    },
    cells: {},
    otherwise: 'none ·'
  },
  {
    event: 'take while a gateway has paused its inbox',
    run: async (store, { mine }) => {
      await pauseInbox(store, mine)
      return takeMine(store, mine, await workerOf(store))
    },
    cells: {},
    otherwise: 'none ·'
  },
  {
    event: 'take in a trial, while a gateway has paused its inbox',
    run: async (store, { mine }) => {
      await pauseInbox(store, mine)
      return takeMine(store, mine, await workerOf(store), true)
    },
    cells: { due: 'taken delivering 1/1' },
    otherwise: 'none ·',
    asTable: ({ place }) => ({ kind: 'take', owner: TAKER, hasTurn: place !== 'overtaken', isPaused: false })
  },
  {
    event: 'take by a worker that has left',
    run: async (store, { mine }) => {
      const owner = await workerOf(store)
      await store.gone(owner)
      return takeMine(store, mine, owner)
    },
    cells: {},
    otherwise: 'none ·'
  },
  settled(DELIVERED, 'delivered'),
  settled(KEPT, 'delivered'),
  settled(AGAIN, 'pausing'),
  settled(HELD, 'held'),
  settled(DEAD, 'dead'),
  {
    event: 'settle dead of a delivery that does not count',
    run: async (store, { token }) => `${await store.settle(token, UNCOUNTED)}`,
    cells: { ...cellsOf(TAKEN_PLACES, 'true dead 1/0'), lost: 'true dead 2/0' },
    otherwise: 'false ·',
    asTable: ({ token }) => ({ kind: 'settle', token, fate: UNCOUNTED })
  },
  {
    event: 'settle by another owner, or of another attempt',
    run: async (store, { token }) => (await Promise.all(otherTokens(token).map(async (each) => store.settle(each, DELIVERED)))).join(),
    cells: {},
    otherwise: 'false,false,false ·'
  },
  {
    event: 'lapse',
    once: recoverAll,
    run: () => Promise.resolve('-'),
    cells: { lost: '- due 2/1', lapsed: '- due 1/1' },
    otherwise: '- ·',
    asTable: () => ({ kind: 'lapse' })
  },
  {
    event: 'lapse of one that holds',
    holds: true,
    once: recoverAll,
    run: () => Promise.resolve('-'),
    cells: { lost: '- held 2/1', lapsed: '- held 1/1' },
    otherwise: '- ·',
    asTable: () => ({ kind: 'lapse' })
  },
  {
    event: 'retry',
    run: async (store, { mine: { id } }) => changedWord(store, id, await store.retry({ id, limit: 1 }, AUDIT)),
    cells: {
      due: 'changed due 0/0',
      ...cellsOf(['pausing', 'held', 'dead', 'heldStops', 'deadStops'], 'changed due 1/0'),
      overtaken: 'changed behind 1/0',
      // It has the age of a new message, which nobody sees before it is delivered.
      behind: 'changed ·'
    },
    otherwise: 'none ·',
    asTable: () => ({ kind: 'retry' })
  },
  {
    event: 'discard',
    keepsLong: true,
    run: async (store, { mine: { id } }) => changedWord(store, id, await store.discard({ id, limit: 1 }, AUDIT)),
    cells: {
      ...cellsOf(['due', 'behind'], 'changed discarded 0/0'),
      ...cellsOf(['pausing', 'overtaken', 'held', 'dead', 'heldStops', 'deadStops'], 'changed discarded 1/1')
    },
    otherwise: 'none ·',
    asTable: () => ({ kind: 'discard' })
  },
  {
    event: 'replay',
    run: async (store, { mine: { id } }) => changedWord(store, id, await store.replay({ id, limit: 1 }, AUDIT)),
    cells: { kept: 'changed due 1/0' },
    otherwise: 'none ·',
    asTable: () => ({ kind: 'replay' })
  },
  {
    event: 'expiry of a request that was kept',
    once: async (store, all) => {
      const { expired } = await store.dropRequests([], 100)
      assert.equal(expired, all.filter(({ place }) => place === 'keptOver').length)
    },
    run: () => Promise.resolve('-'),
    cells: { keptOver: '- delivered 1/1' },
    otherwise: '- ·',
    asTable: () => ({ kind: 'expireRequest' })
  },
  {
    event: 'drop of a request that was kept',
    once: async (store, all) => {
      const routes = all.map(({ mine: { about: { route } } }) => route)
      const { expired, beyond } = await store.dropRequests(routes.map((route) => ({ route, untilMs: Number.MAX_SAFE_INTEGER })), 100)
      const count = beyond.reduce((sum, each) => sum + each.count, 0)
      assert.equal(expired + count, all.filter(({ place }) => place.startsWith('kept')).length)
    },
    run: () => Promise.resolve('-'),
    cells: cellsOf(['kept', 'keptOver'], '- delivered 1/1'),
    otherwise: '- ·',
    asTable: () => ({ kind: 'dropRequest' })
  },
  {
    event: 'turn: nothing before it blocks any more',
    onlyGrouped: true,
    run: async (store, { blocker, first }) => `${(await store.discard({ id: (blocker ?? first).id, limit: 1 }, AUDIT)).length}`,
    cells: { none: '0 ·', behind: '1 due 0/0' },
    otherwise: '1 ·',
    asTable: () => ({ kind: 'turn' })
  },
  {
    event: 'recall: an earlier one is retried',
    onlyGrouped: true,
    run: async (store, { first }) => `${(await store.retry({ id: first.id, limit: 1 }, AUDIT)).length}`,
    cells: { none: '0 ·', pausing: '1 behind 1/1', due: '1 behind 0/0', overtaken: '1 behind 1/1' },
    otherwise: '1 ·',
    asTable: () => ({ kind: 'recall' })
  },
  {
    event: 'postpone: a pause for its tenant',
    run: async (store, { mine }) => `${await store.postpone(tenantOf(mine), 2 * LONG_MS, 9)}`,
    cells: { pausing: '1 pausing 1/1', due: '1 pausing 0/0', overtaken: '1 pausing 1/1' },
    otherwise: '0 ·',
    asTable: ({ mine }) => ({ kind: 'postpone', untilMs: mine.keepMs * 4 })
  },
  {
    event: 'sweep',
    once: async (store, all) => { assert.equal(await store.sweep(100), all.filter(({ place }) => place.startsWith('past')).length) },
    run: () => Promise.resolve('-'),
    cells: {},
    otherwise: '- ·',
    asTable: () => ({ kind: 'sweep' })
  }
]

function tenantOf ({ tenant }: NewMessage): Buffer {
  assert.ok(tenant !== null)
  return tenant
}

const TAKER = randomBytes(16)
const UNCOUNTED: Fate = { kind: 'dead', status: null, error: 'ATTEMPTS_SPENT WORKER_LOST', answer: null, counts: false }

async function acceptBeside (store: InboxStore, message: NewMessage): Promise<string> {
  const free = messageOf()
  const [result] = await store.acceptAll([message, free])
  return `${result?.kind}, ${await store.look(free.id) === null ? 'without' : 'and'} its batch,`
}

async function pauseInbox (store: InboxStore, { about: { route } }: NewMessage): Promise<void> {
  await store.changeHealth({ kind: 'failing', route, gapMs: LONG_MS })
  assert.ok(await store.changeHealth({ kind: 'pause', route, afterMs: 0, trialMs: LONG_MS, why: 'it fails' }))
}

async function takeMine (store: InboxStore, { id, about: { route } }: NewMessage, owner: Buffer, trial = false): Promise<string> {
  const taken = await store.take({ routes: [{ route, places: 9 }], owner, trial })
  return taken.some(({ token }) => token.id.equals(id)) ? 'taken' : 'none'
}

/** What a change by hand returns is the message as it is after it. */
async function changedWord (store: InboxStore, id: Buffer, changed: readonly MessageDetail[]): Promise<string> {
  if (changed.length > 0) assert.deepEqual(changed, await store.list({ id, limit: 2 }))
  return changed.length > 0 ? 'changed' : 'none'
}

export function inboxCells (open: OpenInbox): void {
  for (const eventCase of CASES) {
    const { event, cells, otherwise, onlyGrouped = false } = eventCase
    test(`${event}: every state of a message${onlyGrouped ? ' of a group' : ', in a group and in none'}`, async (t) => {
      const world = await open(t)
      const actual = await walk(world, eventCase)
      for (const [isGrouped, places] of onlyGrouped ? [[true, GROUPED]] as const : [[false, ALONE], [true, GROUPED]] as const) {
        const expected = Object.fromEntries(places.map((place) => [place, cells[place] ?? otherwise]))
        const walked = actual.filter(({ brought }) => brought.isGrouped === isGrouped).map(({ brought: { place }, cell }) => [place, cell])
        assert.deepEqual(Object.fromEntries(walked), expected, isGrouped ? 'in a group' : 'in none')
      }
    })
  }

  for (const [how, end] of Object.entries(ENDS)) {
    test(`the turn of a group goes on when the one before ${how}, unless it stops the group`, async (t) => {
      const { store } = await open(t)
      for (const stops of [false, true]) {
        const group = `${how}, ${stops ? 'stops' : 'goes on'}`
        const [before, mine] = [messageOf({ route: 'before', group, stops, holds: true }), messageOf({ group })]
        for (const message of [before, mine]) await store.accept(message)
        assert.equal((await snapshot(store, mine))?.dueAtMs, null)
        await end(store, before)
        const blocks = stops && how !== 'is delivered' && how !== 'is discarded'
        assert.equal((await snapshot(store, mine))?.dueAtMs === null, blocks)
        assert.equal(await takeMine(store, mine, await workerOf(store)), blocks ? 'none' : 'taken')
      }
    })
  }
}

const ENDS: Readonly<Record<string, (store: InboxStore, message: NewMessage) => Promise<unknown>>> = {
  'is delivered': async (store, message) => store.settle((await take(store, message)).token, DELIVERED),
  'is dead': async (store, message) => store.settle((await take(store, message)).token, DEAD),
  'is held': async (store, message) => store.settle((await take(store, message)).token, HELD),
  'is held because its worker is lost': async (store, message) => {
    await store.gone((await take(store, message)).token.owner)
    await until(async () => (await store.recover(1)).count === 1, 'it to be found')
  },
  'is discarded': async (store, { id }) => store.discard({ id, limit: 1 }, AUDIT)
}

async function take (store: InboxStore, { id, about: { route } }: NewMessage, leaseMs = LONG_MS): Promise<{ token: DeliveryToken }> {
  // A short lease may be over before the message is taken.
  for (let lease = leaseMs; ; lease *= 2) {
    const taken = await store.take({ routes: [{ route, places: 9 }], owner: await workerOf(store, lease) })
    const mine = taken.find(({ token }) => token.id.equals(id))
    if (mine !== undefined) return mine
    assert.ok(lease < 2 * LONG_MS, 'it may be taken')
  }
}

const FATES: Readonly<Partial<Record<Place, Fate>>> = {
  pausing: AGAIN,
  delivered: DELIVERED,
  kept: KEPT,
  keptOver: { ...DELIVERED, requestMs: SHORT_MS },
  held: HELD,
  dead: DEAD,
  heldStops: HELD,
  deadStops: DEAD,
  discarded: DEAD,
  pastDelivered: DELIVERED,
  pastHeld: HELD,
  pastDead: DEAD,
  pastDiscarded: DEAD
}

type Given = Pick<EventCase, 'holds' | 'keepsLong'>

async function bring (store: InboxStore, place: Place, isGrouped: boolean, { holds = false, keepsLong = false }: Given): Promise<Brought> {
  const route = randomBytes(8).toString('hex')
  const stops = place.endsWith('Stops')
  const isShort = place.startsWith('past') || (stops && !keepsLong)
  const kept = isShort ? { keepMs: SHORT_MS, deadKeepMs: SHORT_MS } : { keepMs: LONG_MS, deadKeepMs: 2 * LONG_MS }
  const group = isGrouped ? { group: route } : {}
  const before = { route: `${route}-before`, ...group }
  const mine = messageOf({ route, tenant: route, stops, holds, ...kept, ...group })
  const first = messageOf(before)
  const brought = { place, isGrouped, mine, first, blocker: place === 'behind' ? messageOf(before) : null }
  if (place === 'none') return { ...brought, token: { id: mine.id, owner: randomBytes(16), attempt: 1 } }
  if (isGrouped) {
    await store.accept(first)
    await store.settle((await take(store, first)).token, DEAD)
  }
  if (brought.blocker !== null) await store.accept(brought.blocker)
  await store.accept(mine)
  return { ...brought, token: await deliver(store, brought) }
}

/** Answers the token of its last delivery. */
async function deliver (store: InboxStore, { place, mine, first }: Omit<Brought, 'token'>): Promise<DeliveryToken> {
  if (place === 'due' || place === 'behind') return { id: mine.id, owner: randomBytes(16), attempt: 0 }
  const { token } = await take(store, mine, place === 'lapsed' ? SHORT_MS : LONG_MS)
  if (place === 'overtaken') {
    await store.retry({ id: first.id, limit: 1 }, AUDIT)
    await store.settle(token, againIn(0))
  }
  if (place === 'lost') return loseAgain(store, mine, token)
  const fate = FATES[place]
  if (fate !== undefined) await store.settle(token, fate)
  if (place.toLowerCase().endsWith('discarded')) await store.discard({ id: mine.id, limit: 1 }, AUDIT)
  return token
}

/** A second life, which begins with the answer of the first. */
async function loseAgain (store: InboxStore, mine: NewMessage, first: DeliveryToken): Promise<DeliveryToken> {
  await store.settle(first, DEAD)
  await store.retry({ id: mine.id, limit: 1 }, AUDIT)
  const { token } = await take(store, mine)
  await store.gone(token.owner)
  return token
}

async function snapshot (store: InboxStore, { id }: Pick<NewMessage, 'id'>): Promise<MessageDetail | null> {
  return (await store.list({ id, limit: 1 }))[0] ?? null
}

/** Every place of one event, side by side: what happened, in the words of `cells`. */
async function walk (world: InboxWorld, eventCase: EventCase): Promise<Array<{ readonly brought: Brought, readonly cell: string }>> {
  const { once, run, asTable, onlyGrouped = false } = eventCase
  const { store } = world
  const alone = onlyGrouped ? [] : ALONE.map(async (place) => bring(store, place, false, eventCase))
  const all = await Promise.all([...alone, ...GROUPED.map(async (place) => bring(store, place, true, eventCase))])
  await untilOver(world, all)
  const befores = await Promise.all(all.map(async ({ mine }) => snapshot(store, mine)))
  await once?.(store, all)
  return Promise.all(all.map(async (brought, index) => {
    const before = befores[index] ?? null
    const word = await run(store, brought)
    const after = await snapshot(store, brought.mine)
    if (asTable !== undefined) await compare(world, brought, asTable(brought), { before, after })
    return { brought, cell: `${word} ${isDeepStrictEqual(before, after) ? '·' : wordsOf(after)}` }
  }))
}

/** Until retentions and leases are over that are to be. */
async function untilOver ({ store, advance }: InboxWorld, all: readonly Brought[]): Promise<void> {
  advance?.(10 * SHORT_MS)
  for (const { mine } of all.filter(({ place }) => place.startsWith('past'))) {
    await until(async () => await snapshot(store, mine) === null, 'it to be past')
  }
  if (advance === undefined) await sleep(SHORT_MS)
}

function wordsOf (after: MessageDetail | null): string {
  if (after === null) return 'gone'
  const { state, dueAtMs, receivedAtMs, attempt, tries } = after
  const name = dueAtMs === null ? 'behind' : dueAtMs - receivedAtMs < LONG_MS / 2 ? 'due' : 'pausing'
  return `${state === 'waiting' ? name : state} ${attempt}/${tries}`
}

interface Around { readonly before: MessageDetail | null, readonly after: MessageDetail | null }

/** Two readings of a database's clock in one statement. */
const APART_MS_MAX = 1_000

/** The message after the event is the table's: all of its fields, which of its times are set, and how long it is kept. */
async function compare (world: InboxWorld, brought: Brought, event: MessageEvent, { before, after }: Around): Promise<void> {
  const { place, mine, token } = brought
  if (before === null && (place !== 'none' || event.kind !== 'accept')) return
  const nowMs = (before?.receivedAtMs ?? 0) + LONG_MS / 2
  const moment: Moment = { nowMs, overMs: nowMs, lives: (owner) => place === 'delivering' || !owner.equals(token.owner) }
  const row = before === null ? null : rowOf(before, mine, token)
  const change = messageTransition(row, event, moment)
  if (change.kind === 'removed') return assert.equal(after, null, place)
  if (change.kind === 'refused') return assert.deepEqual(after, before, place)
  assert.ok(after !== null, place)
  const expected = event.kind === 'retry' || event.kind === 'replay' ? turned(change.row, place, moment) : change.row
  assert.deepEqual(untimed(after), untimed(shown(expected)), place)
  const keptMs = (after.expiresAtMs ?? 0) - (after.settledAtMs ?? 0)
  const keepMs = after.state === 'delivered' ? mine.keepMs : mine.deadKeepMs
  if (after.expiresAtMs !== null) assert.ok(Math.abs(keptMs - keepMs) < APART_MS_MAX, `${place} is kept for ${keptMs} ms`)
  if (after.state === 'delivered' && after.requestUntilMs === null) assert.equal(await world.requestBytes(mine.id), 0, place)
  else assert.ok(await world.requestBytes(mine.id) > 0, place)
}

/** A retry is followed by the turn of its group, unless an earlier message blocks. */
function turned (row: MessageRow, place: Place, moment: Moment): MessageRow {
  const change = messageTransition(row, { kind: place === 'behind' || place === 'overtaken' ? 'recall' : 'turn' }, moment)
  return change.kind === 'written' ? change.row : row
}

function rowOf (detail: MessageDetail, mine: NewMessage, { owner }: DeliveryToken): MessageRow {
  const { scheme, group, tenant, holds, stops, keepMs, deadKeepMs, request } = mine
  const given = { scheme, group, tenant, holds, stops, keepMs, deadKeepMs, request }
  return { ...detail, ...given, number: 1, owner: detail.state === 'delivering' ? owner : null, notBeforeMs: null, retriedAtMs: null }
}

function untimed ({ receivedAtMs, dueAtMs, settledAtMs, expiresAtMs, requestUntilMs, replayedAtMs, ...detail }: MessageDetail): object {
  const marks = { isKept: requestUntilMs !== null, isReplayed: replayedAtMs !== null }
  return { ...detail, ...marks, isDue: dueAtMs !== null, isSettled: settledAtMs !== null, expires: expiresAtMs !== null }
}
