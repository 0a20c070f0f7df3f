/** The suite of the operators' port: whatever is searched, page by page, is what a plain filter over all rows finds. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { MessageDetail, MessageState } from '../../src/core/inbox/message.ts'
import type { AuditRow } from '../../src/core/record/audit.ts'
import { RECORD_STATES } from '../../src/core/record/record.ts'
import type { RecordDetail, RecordState } from '../../src/core/record/record.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import type { AuditSearch, MessageSearch, OperatorStore, Order, Page, Position, RecordSearch } from '../../src/ports/operator.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { DEAD, DELIVERED, HELD, messageOf, takeFrom, workerOf } from './inbox-world.ts'
import { claimOf, resolutionOf, settlementOf, tokenOf } from './record-world.ts'

export interface OperatorWorld {
  readonly store: RecordStore & { readonly inbox: InboxStore, readonly operator: OperatorStore }
  /** Moves the store's clock. Absent: real time passes. */
  readonly advance?: (ms: number) => void
}

export type OpenOperators = (t: TestContext) => Promise<OperatorWorld>

const WITHIN_MS = 10_000
const ALL = 10_000
const ROUTES = ['charges', 'refunds'] as const
const PATHS = ['/v1/charges', '/v1/charges/7/capture', '/v1/100%_off', '/v1/1000_off'] as const
const RECORDS = 120
const SHARED_HASH = randomBytes(32)

type Paged = Omit<RecordSearch, 'order' | 'limit' | 'after' | 'withinMs'>

/** Each turn has another order of the statements. */
const REPLAYED = 30
const MOVING = 100

export function operators (open: OpenOperators): void {
  test('records: every search, in either order and by pages of any size, finds what a plain filter finds', async (t) => {
    const world = await open(t)
    await fill(world)
    const all = await world.store.list({ limit: ALL })
    assert.equal(all.length, RECORDS)
    const times = all.map(({ claimedAtMs }) => claimedAtMs).sort((one, other) => one - other)
    const [early = 0, late = 0] = [times[30], times[90]]
    const searches: Paged[] = [
      {},
      ...RECORD_STATES.flatMap((state) => [{ state }, { state, route: 'charges' }]),
      { route: 'refunds' },
      { requestId: 'req-7' },
      { requestId: 'req-7', state: 'claimed' },
      { path: '/v1/charges' },
      { path: '/v1/charges*' },
      { path: '/v1/100%_off' },
      { path: '/v1/100*' },
      { path: '*' },
      { stage: 'hop' },
      { fromMs: early },
      { toMs: late },
      { fromMs: early, toMs: late, state: 'completed' },
      { settledToMs: late },
      { keyHashes: [SHARED_HASH] },
      { keyHashes: [SHARED_HASH, all[5]?.about.keyHash ?? SHARED_HASH] },
      { keyHashes: [SHARED_HASH], state: 'completed' },
      { keyHashes: [randomBytes(32)] },
      { id: all[3]?.id ?? SHARED_HASH },
      { id: randomBytes(32) }
    ]
    for (const search of searches) {
      const wanted = all.filter((each) => matches(each, search)).map(nameOf).sort()
      for (const [order, limit] of [['newest', 7], ['oldest', 50], ['newest', ALL]] as const) {
        const found = await pagesOf((page) => world.store.operator.searchRecords({ ...search, ...page }), order, limit)
        assert.deepEqual(found.map(nameOf).sort(), wanted, JSON.stringify({ search, order, limit }))
        const at = found.map(({ claimedAtMs }) => claimedAtMs)
        assert.deepEqual(at, at.toSorted((one, other) => order === 'newest' ? other - one : one - other))
      }
    }
  })

  test('records: a list shows everything but the answer', async (t) => {
    const world = await open(t)
    await fill(world)
    const { rows } = await world.store.operator.searchRecords({ order: 'newest', limit: ALL, after: null, withinMs: WITHIN_MS })
    for (const row of rows) {
      const [detail] = await world.store.list({ id: row.id, limit: 1 })
      assert.ok(detail !== undefined)
      const { headers, body, ageMs: _a, leaseLeftMs: _b, keepLeftMs: _c, ...shown } = detail
      const { ageMs: _d, leaseLeftMs: _e, keepLeftMs: _f, bodyBytes, ...summary } = row
      assert.deepEqual({ ...summary, bodyBytes }, { ...shown, bodyBytes: body?.length ?? null })
      assert.equal(headers === null, body === null)
    }
  })

  test('records: a search whose time is over says so, and the next page goes on from there', async (t) => {
    const world = await open(t)
    await fill(world)
    const rare = { requestId: 'req-7' }
    const over = await world.store.operator.searchRecords({ ...rare, order: 'newest', limit: 50, after: null, withinMs: 0 })
    assert.deepEqual([over.rows, over.isWhole], [[], false])
    const rest = await pagesOf(
      (page) => world.store.operator.searchRecords({ ...rare, ...page, after: page.after ?? over.next }),
      'newest',
      50
    )
    assert.equal(rest.length, (await world.store.list({ limit: ALL })).filter((each) => matches(each, rare)).length)
  })

  test('unknown outcomes are counted by route and age', async (t) => {
    const { store } = await open(t)
    assert.deepEqual(await store.operator.unknownByRoute(), [])
    for (const route of ['charges', 'charges', 'refunds']) {
      const claim = claimOf({ about: { ...claimOf().about, route } })
      await store.insert(claim)
      await store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
    }
    const [charges, refunds, ...more] = await store.operator.unknownByRoute()
    assert.deepEqual([charges?.route, charges?.count, charges?.ages], ['charges', 2, [2, 0, 0, 0]])
    assert.deepEqual([refunds?.route, refunds?.count, more], ['refunds', 1, []])
    assert.ok(Math.abs((charges?.oldestMs ?? 0) - await store.operator.nowMs()) < 60_000)
  })

  test('messages: every search, in either order and by pages of any size, finds what a plain filter finds', async (t) => {
    const world = await open(t)
    await fillInbox(world)
    const all = await world.store.inbox.list({ limit: ALL })
    const states: MessageState[] = ['waiting', 'delivering', 'delivered', 'held', 'dead', 'discarded']
    assert.deepEqual(states.filter((state) => !all.some((each) => each.state === state)), [])
    const at = all.map(({ receivedAtMs }) => receivedAtMs).sort((one, other) => one - other)[20] ?? 0
    const searches: Array<Partial<MessageSearch>> = [
      {},
      ...states.flatMap((state) => [{ state }, { state, route: 'refunds' }]),
      { route: 'charges' },
      { fromMs: at },
      { toMs: at },
      { settledToMs: at },
      { keyHashes: [SHARED_HASH] },
      { path: '/hooks' },
      { path: '/other' },
      { id: all[3]?.id ?? SHARED_HASH },
      { id: randomBytes(32) }
    ]
    for (const search of searches) {
      const wanted = all.filter((each) => messageMatches(each, search)).map(nameOf).sort()
      for (const [order, limit] of [['newest', 7], ['oldest', ALL]] as const) {
        const found = await pagesOf((page) => world.store.operator.searchMessages({ ...search, ...page }), order, limit)
        assert.deepEqual(found.map(nameOf).sort(), wanted, JSON.stringify({ search, order, limit }))
      }
    }
  })

  test('messages of one group are found, open and ended ones, and can be replayed in their order', async (t) => {
    const { store } = await open(t)
    const route = 'charges'
    const messages = ['a', 'b', 'a', 'a', 'b', null].map((group) => messageOf({ route, ...group !== null && { group } }))
    const owner = await workerOf(store.inbox)
    for (const message of messages) await store.inbox.accept(message)
    const ofA = [messages[0], messages[2], messages[3]].flatMap((message) => message ?? [])
    const group = ofA[0]?.group ?? assert.fail('it has a group')
    const find = (search: Partial<MessageSearch>) =>
      pagesOf((page) => store.operator.searchMessages({ route, group, ...search, ...page }), 'oldest', 2)
    assert.deepEqual((await find({})).map(nameOf), ofA.map(nameOf))
    for (let turn = 0; turn < messages.length; turn++) {
      const taken = await takeFrom(store.inbox, owner, 10, route)
      for (const { token } of taken) await store.inbox.settle(token, { ...DELIVERED, requestMs: 600_000 })
    }
    assert.deepEqual((await find({ state: 'delivered' })).map(nameOf), ofA.map(nameOf))
    for (const { id } of await find({ state: 'delivered' })) await store.inbox.replay({ id, limit: 1 }, { who: 'ops', why: 'once more' })
    const again = await takeFrom(store.inbox, owner, 10, route)
    assert.deepEqual(again.map(({ token }) => token.id), [ofA[0]?.id], 'one after another')
  })

  test('messages of more routes than a step reads at once are found all the same, and so are those of a route that has most of them', async (t) => {
    const world = await open(t)
    await fillRoutes(world)
    const all = await world.store.inbox.list({ limit: ALL })
    const searches: Array<Partial<MessageSearch>> = [
      {},
      { state: 'waiting' },
      { state: 'dead' },
      { state: 'delivered' },
      { route: 'route-7' },
      { route: BUSY },
      { route: BUSY, state: 'waiting' },
      { route: 'none' },
      { keyHashes: [SHARED_HASH] },
      { keyHashes: [randomBytes(32)] }
    ]
    for (const search of searches) {
      const wanted = all.filter((each) => messageMatches(each, search)).map(nameOf).sort()
      for (const [order, limit] of [['newest', 200], ['oldest', ALL]] as const) {
        const found = await pagesOf((page) => world.store.operator.searchMessages({ ...search, ...page }), order, limit)
        assert.deepEqual(found.map(nameOf).sort(), wanted, JSON.stringify({ search, order, limit }))
        const at = found.map(({ receivedAtMs }) => receivedAtMs)
        assert.deepEqual(at, at.toSorted((one, other) => order === 'newest' ? other - one : one - other))
      }
    }
  })

  test('a message is found while it is accepted, taken and given up', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store.inbox)
    for (let turn = 0; turn < MOVING; turn++) {
      const message = messageOf({ route: 'charges' })
      await store.inbox.accept(message)
      const search = { keyHashes: [message.about.keyHash], order: 'newest', limit: 10, after: null, withinMs: WITHIN_MS } as const
      const move = async (): Promise<void> => {
        for (const { token } of await takeFrom(store.inbox, owner, 1, 'charges')) await store.inbox.settle(token, DEAD)
      }
      const [first, , second] = await Promise.all([
        store.operator.searchMessages(search), move(), store.operator.searchMessages(search)
      ])
      for (const { rows } of [first, second]) assert.deepEqual(rows.map(nameOf), [nameOf(message)], `turn ${turn}`)
      await store.inbox.discard({ id: message.id, limit: 1 }, { who: 'ops', why: 'for the next one' })
    }
  })

  test('all messages of a route are found while they are delivered, replayed and delivered once more', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store.inbox)
    const by = { who: 'ops', why: 'once more' }
    const messages = Array.from({ length: REPLAYED }, () => messageOf({ route: 'charges' }))
    const deliver = async (): Promise<void> => {
      for (const { token } of await takeFrom(store.inbox, owner, REPLAYED, 'charges')) {
        await store.inbox.settle(token, { ...DELIVERED, requestMs: 600_000 })
      }
    }
    for (const message of messages) await store.inbox.accept(message)
    const over = new AbortController()
    const moving = (async () => {
      while (!over.signal.aborted) {
        await deliver()
        for (const { id } of messages) await store.inbox.replay({ id, limit: 1 }, by)
      }
    })()
    const wanted = messages.map(nameOf).sort()
    for (let turn = 0; turn < MOVING; turn++) {
      const search: Partial<MessageSearch> = turn % 2 === 0 ? {} : { route: 'charges' }
      const limit = turn % 3 === 0 ? 7 : ALL
      const found = await pagesOf((page) => store.operator.searchMessages({ ...search, ...page }), 'newest', limit)
      assert.deepEqual(found.map(nameOf).sort(), wanted, `turn ${turn}`)
    }
    over.abort()
    await moving
  })

  test('messages: a list shows the headers of an answer and the size of its body, however large', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store.inbox)
    const answers = [
      { status: 200, headers: ['Content-Type', 'text/plain', 'X-Long', 'x'.repeat(70_000)], body: Buffer.alloc(1_000_000, 'body ') },
      { status: 200, headers: [], body: randomBytes(1_000_000) },
      { status: 204, headers: [], body: Buffer.alloc(0) },
      null
    ]
    for (const answer of answers) {
      await store.inbox.accept(messageOf({ route: 'charges' }))
      const [delivery] = await takeFrom(store.inbox, owner, 1, 'charges')
      assert.ok(delivery !== undefined && await store.inbox.settle(delivery.token, { ...DELIVERED, answer }))
    }
    const { rows } = await store.operator.searchMessages({ order: 'oldest', limit: ALL, after: null, withinMs: WITHIN_MS })
    assert.deepEqual(rows.map(({ answer }) => answer), answers.map((answer) =>
      answer === null ? null : { status: answer.status, headers: answer.headers, bodyBytes: answer.body.length }))
    for (const row of rows) {
      const [detail] = await store.inbox.list({ id: row.id, limit: 1 })
      assert.deepEqual({ ...row, answer: null }, { ...detail, answer: null })
    }
  })

  test('a selection of messages is of its time: none joins that was dead or delivered then, and was retried or replayed afterwards', async (t) => {
    const { store, advance } = await open(t)
    const owner = await workerOf(store.inbox)
    const by = { who: 'ops@example.com', why: 'the consumer is mended' }
    const [dead, delivered, given, waiting, later] = Array.from({ length: 5 }, () => messageOf({ route: 'charges' }))
    assert.ok(dead !== undefined && delivered !== undefined && given !== undefined && waiting !== undefined && later !== undefined)
    const fates = [[dead, DEAD], [delivered, { ...DELIVERED, requestMs: 600_000 }], [given, DEAD]] as const
    for (const [message, fate] of fates) {
      await store.inbox.accept(message)
      for (const { token } of await takeFrom(store.inbox, owner, 1, 'charges')) await store.inbox.settle(token, fate)
    }
    advance?.(5)
    await store.inbox.retry({ id: given.id, limit: 1 }, by)
    await store.inbox.accept(waiting)
    advance?.(5)
    const asOfMs = await store.operator.nowMs()
    const selected = async (over: Partial<MessageSearch>): Promise<string[]> => (await pagesOf(
      (page) => store.operator.searchMessages({ toMs: asOfMs, settledToMs: asOfMs, ...over, ...page }), 'oldest', 50
    )).map(nameOf)
    assert.deepEqual(await selected({ state: 'waiting' }), [given, waiting].map(nameOf))
    assert.deepEqual(await selected({ state: 'dead' }), [nameOf(dead)])
    advance?.(5)
    await store.inbox.retry({ id: dead.id, limit: 1 }, by)
    await store.inbox.replay({ id: delivered.id, limit: 1 }, by)
    await store.inbox.accept(later)
    assert.deepEqual(await selected({ state: 'waiting' }), [given, waiting].map(nameOf))
    const all = await pagesOf((page) => store.operator.searchMessages({ state: 'waiting', ...page }), 'oldest', 50)
    assert.equal(all.length, 5)
    await store.inbox.discard({ id: waiting.id, limit: 1 }, by)
    assert.deepEqual(await selected({}), [nameOf(given)])
  })

  test('the audit is one list, and says who, how recognised, what, why, before and after', async (t) => {
    const world = await open(t)
    const { store } = world
    const unknown = claimOf()
    await store.insert(unknown)
    await store.settle(settlementOf(tokenOf(unknown), 'indeterminate'))
    const by = { who: 'ops@example.com', via: 'oidc', why: 'looked it up' }
    const resolution = resolutionOf(tokenOf(unknown), 'completed')
    await store.resolve({ ...resolution, audit: { action: 'resolve', ...by } })
    await store.expire(tokenOf(unknown), { action: 'delete', who: 'tool', why: 'a test' })
    const message = messageOf({ route: 'charges' })
    await store.inbox.accept(message)
    await store.inbox.discard({ id: message.id, limit: 1 }, by)
    assert.equal(await store.operator.pause('charges', by), true)
    assert.equal(await store.operator.pause('charges', by), false)
    assert.equal(await store.operator.resume('charges', by), true)
    assert.equal(await store.operator.resume('charges', by), false)
    const audit = (search: Partial<AuditSearch>, order: Order = 'oldest', limit = 2): Promise<AuditRow[]> =>
      pagesOf((page) => store.operator.searchAudit({ ...search, ...page }), order, limit)
    const rows = await audit({})
    assert.deepEqual(rows.map(({ about, action, who, via, state }) => [about, action, who, via, state]), [
      ['record', 'resolve', 'ops@example.com', 'oidc', 'completed'],
      ['record', 'delete', 'tool', null, 'completed'],
      ['message', 'discard', 'ops@example.com', 'oidc', 'discarded'],
      ['route', 'pause', 'ops@example.com', 'oidc', 'paused'],
      ['route', 'resume', 'ops@example.com', 'oidc', 'delivers']
    ])
    const [resolved, deleted, discarded, paused] = rows
    assert.deepEqual(
      [resolved?.before?.state, resolved?.before?.reason, resolved?.after?.state, resolved?.after?.status],
      ['indeterminate', 'during/ECONNRESET', 'completed', resolution.status]
    )
    assert.ok(Number(deleted?.after?.expiresAtMs) <= Number(deleted?.before?.expiresAtMs))
    assert.deepEqual([discarded?.before?.state, discarded?.after?.state], ['waiting', 'discarded'])
    assert.deepEqual([paused?.before, paused?.after], [{ state: 'delivers' }, { state: 'paused' }])
    assert.deepEqual((await audit({}, 'newest', 1)).map(numbered), rows.map(numbered).toReversed())
    assert.deepEqual((await audit({ id: unknown.id })).map(({ action }) => action), ['resolve', 'delete'])
    assert.deepEqual((await audit({ who: 'tool' })).map(({ action }) => action), ['delete'])
    assert.deepEqual((await audit({ action: 'pause' })).map(({ route }) => route), ['charges'])
    assert.deepEqual((await audit({ route: 'charges' }, 'newest', 50)).map(numbered), rows.map(numbered).toReversed())
    assert.deepEqual(await audit({ toMs: resolved?.atMs ?? 0 }), [])
  })

  test('a probe can be asked for now: of an unknown outcome that has a question, as it was shown', async (t) => {
    const { store, advance } = await open(t)
    const audit = { action: 'probe', who: 'ops@example.com', via: 'token', why: 'it is mended' } as const
    const [asks, mute, done] = [claimOf({ question: Buffer.from('question') }), claimOf(), claimOf({ question: Buffer.from('question') })]
    for (const claim of [asks, mute, done]) await store.insert(claim)
    for (const claim of [asks, mute]) await store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
    await store.settle(settlementOf(tokenOf(done), 'completed'))
    const order = { routes: [asks.about.route], withinMs: 600_000, limit: 10 }
    assert.equal((await store.takeProbes(order)).length, 1)
    assert.equal((await store.takeProbes(order)).length, 0, 'somebody asks already')
    assert.equal((await store.operator.askNow(tokenOf(asks), audit)).kind, 'done')
    advance?.(1)
    assert.deepEqual((await store.takeProbes(order)).map(({ tries }) => tries), [2])
    for (const refused of [tokenOf(mute), tokenOf(done), tokenOf(asks, 2), { ...tokenOf(asks), owner: randomBytes(16) }]) {
      assert.equal((await store.operator.askNow(refused, audit)).kind, 'refused')
    }
    const { rows } = await store.operator.searchAudit({ order: 'newest', limit: 10, after: null, withinMs: WITHIN_MS })
    assert.deepEqual(rows.map(({ action, via, id }) => [action, via, id]), [['probe', 'token', asks.id]])
  })

  test('groups of a route, those with the most open messages first, and who goes first in them', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store.inbox)
    const [busy, calm, other] = [
      { route: 'charges', group: 'busy' },
      { route: 'charges', group: 'calm' },
      { route: 'refunds', group: 'busy' }
    ]
    const accepted = []
    for (const over of [calm, busy, busy, busy, other, { route: 'charges' }]) {
      const message = messageOf({ ...over, stops: true })
      await store.inbox.accept(message)
      accepted.push(message)
    }
    for (const { token } of await takeFrom(store.inbox, owner, 1, 'charges')) await store.inbox.settle(token, DEAD)
    const groups = await store.operator.groups('charges', 10)
    assert.deepEqual(groups?.map(({ group, open: count, first }) => [group, count, first.id, first.state]), [
      [accepted[1]?.group, 3, accepted[1]?.id, 'waiting'],
      [accepted[0]?.group, 1, accepted[0]?.id, 'dead']
    ])
    assert.ok(groups.every(({ oldestMs }) => oldestMs >= 0))
    assert.equal((await store.operator.groups('charges', 1))?.length, 1)
    assert.deepEqual(await store.operator.groups('nothing', 10), [])
  })

  test('a paused route accepts and does not deliver; what is in flight goes on', async (t) => {
    const { store } = await open(t)
    const by = { who: 'ops@example.com', why: 'their server is down' }
    const owner = await workerOf(store.inbox)
    await store.inbox.accept(messageOf({ route: 'charges' }))
    const [inFlight] = await takeFrom(store.inbox, owner, 1, 'charges')
    await store.operator.pause('charges', by)
    assert.deepEqual((await store.operator.paused()).map(({ route, who, why }) => ({ route, who, why })), [{ route: 'charges', ...by }])
    const message = messageOf({ route: 'charges' })
    assert.deepEqual(await store.inbox.accept(message), { kind: 'accepted' })
    await store.inbox.accept(messageOf({ route: 'refunds' }))
    assert.deepEqual(await takeFrom(store.inbox, owner, 1, 'charges'), [])
    const trial = await store.inbox.take({ routes: [{ route: 'charges', places: 1 }], owner, trial: true })
    assert.deepEqual(trial, [], 'a trial passes no pause of an operator')
    assert.equal(await store.inbox.dueInMs(['charges']), null)
    assert.equal((await takeFrom(store.inbox, owner, 1, 'refunds')).length, 1)
    assert.ok(inFlight !== undefined && await store.inbox.settle(inFlight.token, DELIVERED))
    await store.operator.resume('charges', by)
    assert.deepEqual(await store.operator.paused(), [])
    assert.deepEqual((await takeFrom(store.inbox, owner, 1, 'charges')).map(({ token }) => token.id), [message.id])
  })
}

/** Of each of the two audits, by SQL. The oldest one of each is by RARE_WHO, and about RARE_ID. Several have the same time. */
export const AUDIT_ROWS = 10_000
export const RARE_WHO = 'rare'
export const RARE_ID = Buffer.alloc(32, 0xcd)
/** Some steps of a search. */
const SHORT_MS = 4
const TRIES_MAX = 1_000

/** A search that finds little goes on from page to page, and each row of both audits is on one page. */
export async function auditIsReadInSteps ({ searchAudit }: Pick<OperatorStore, 'searchAudit'>): Promise<void> {
  for (const order of ['newest', 'oldest'] as const) {
    const all = await pagesOf((page) => searchAudit(page), order, 500)
    assert.deepEqual([all.length, new Set(all.map(({ about, number }) => `${about} ${number}`)).size], [2 * AUDIT_ROWS, 2 * AUDIT_ROWS])
    const at = all.map(({ atMs }) => atMs)
    assert.deepEqual(at, at.toSorted((one, other) => order === 'newest' ? other - one : one - other))
    const rare = await pagesOf((page) => searchAudit({ id: RARE_ID, ...page }), order, 1)
    assert.deepEqual(rare.map(({ about }) => about), order === 'newest' ? ['message', 'record'] : ['record', 'message'])
    const rows: AuditRow[] = []
    let [after, withinMs, broken]: [Position | null, number, number] = [null, SHORT_MS, 0]
    for (let tries = 0; ; tries++) {
      assert.ok(tries < TRIES_MAX, 'the pages come to an end')
      const page: Page<AuditRow> = await searchAudit({ who: RARE_WHO, order, limit: 50, after, withinMs })
      rows.push(...page.rows)
      if (page.isWhole && page.next === null) break
      const isSame = page.next === null || (after !== null && page.next.at === after.at && page.next.id.equals(after.id))
      // On a busy machine not even the first steps are done by then.
      if (isSame) withinMs *= 2
      else [after, broken] = [page.next, broken + 1]
    }
    assert.deepEqual(rows.map(numbered), rare.map(numbered))
    assert.ok(broken > 0, 'its time was over before it had looked at all')
  }
}

function nameOf ({ id }: { readonly id: Buffer }): string {
  return id.toString('hex')
}

function numbered ({ about, number }: AuditRow): string {
  return `${about} ${number}`
}

interface PageOrder { readonly order: Order, readonly limit: number, readonly after: Position | null, readonly withinMs: number }

/** All pages, one after the other. */
async function pagesOf<Row> (search: (page: PageOrder) => Promise<Page<Row>>, order: Order, limit: number): Promise<Row[]> {
  const rows: Row[] = []
  for (let after: Position | null = null; ;) {
    const page: Page<Row> = await search({ order, limit, after, withinMs: WITHIN_MS })
    assert.ok(page.isWhole && page.rows.length <= limit)
    rows.push(...page.rows)
    if (page.next === null) return rows
    after = page.next
  }
}

const OUTCOMES = ['completed', 'completed', 'completed', 'consumed', 'released', 'indeterminate'] as const

async function fill ({ store, advance }: OperatorWorld): Promise<void> {
  for (let index = 0; index < RECORDS; index++) {
    const claim = claimOf({
      about: {
        ...claimOf().about,
        route: ROUTES[index % ROUTES.length] ?? '',
        path: PATHS[index % PATHS.length] ?? '',
        requestId: `req-${index % 10}`,
        ...(index % 17 === 0 && { keyHash: SHARED_HASH })
      }
    })
    await store.insert(claim)
    const outcome: RecordState | undefined = index % 7 === 6 ? undefined : OUTCOMES[index % OUTCOMES.length]
    if (outcome !== undefined) {
      const reason = { stage: index % 2 === 0 ? 'hop' : 'during', code: 'X' } as const
      await store.settle(settlementOf(tokenOf(claim), outcome, outcome === 'indeterminate' ? { reason } : {}))
    }
    // Several have the same time.
    if (index % 3 === 0) advance?.(index % 5 === 0 ? 700_000 : 1)
  }
}

function matches (
  record: RecordDetail,
  { id, keyHashes, route, state, requestId, path, stage, fromMs, toMs, settledToMs }: Paged
): boolean {
  const { about } = record
  return (id === undefined || id.equals(record.id)) &&
    (keyHashes === undefined || keyHashes.some((hash) => hash.equals(about.keyHash))) &&
    (route === undefined || route === about.route) && (state === undefined || state === record.state) &&
    (requestId === undefined || requestId === about.requestId) && (path === undefined || fits(path, about.path)) &&
    (stage === undefined || stage === record.reason?.stage) &&
    (fromMs === undefined || record.claimedAtMs >= fromMs) && (toMs === undefined || record.claimedAtMs < toMs) &&
    (settledToMs === undefined || (record.settledAtMs !== null && record.settledAtMs < settledToMs))
}

function messageMatches (
  message: MessageDetail,
  { id, keyHashes, route, state, path, fromMs, toMs, settledToMs }: Partial<MessageSearch>
): boolean {
  const { about } = message
  return (id === undefined || id.equals(message.id)) &&
    (keyHashes === undefined || keyHashes.some((hash) => hash.equals(about.keyHash))) &&
    (route === undefined || route === about.route) && (state === undefined || state === message.state) &&
    (path === undefined || fits(path, about.path)) &&
    (settledToMs === undefined || Math.max(message.receivedAtMs, message.settledAtMs ?? 0, message.replayedAtMs ?? 0) < settledToMs) &&
    (fromMs === undefined || message.receivedAtMs >= fromMs) && (toMs === undefined || message.receivedAtMs < toMs)
}

function fits (pattern: string, path: string): boolean {
  return pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern
}

const MESSAGES = 40

async function fillInbox ({ store, advance }: OperatorWorld): Promise<void> {
  const owner = await workerOf(store.inbox)
  for (let index = 0; index < MESSAGES; index++) {
    const route = ROUTES[index % ROUTES.length] ?? ''
    const message = messageOf({ route, ...(index % 11 === 0 && { keyHash: SHARED_HASH }) })
    await store.inbox.accept(message)
    if (index % 2 === 0) advance?.(3)
    const fate = [DELIVERED, DEAD, HELD, null, undefined, 'discard'][index % 6]
    if (fate === undefined) continue
    if (fate === 'discard') {
      await store.inbox.discard({ id: message.id, limit: 1 }, { who: 'ops', why: 'a test' })
      continue
    }
    const [delivery] = await takeFrom(store.inbox, owner, 1, route)
    if (delivery !== undefined && fate !== null && typeof fate !== 'string') await store.inbox.settle(delivery.token, fate)
  }
}

/** More than a step of an open state reads rows of each (src/store/postgres/open-messages.ts). */
const MANY_ROUTES = 120
const BUSY = 'route-60'
const BUSY_MORE = 150

/** Each route has a message in each open state, and one that is delivered. */
async function fillRoutes ({ store, advance }: OperatorWorld): Promise<void> {
  const owner = await workerOf(store.inbox)
  const routes = Array.from({ length: MANY_ROUTES }, (_, index) => `route-${index}`)
  const accept = async (which: readonly string[], over = {}): Promise<void> => {
    await Promise.all(which.map((route) => store.inbox.accept(messageOf({ route, ...over }))))
    advance?.(2)
  }
  for (const fate of [DEAD, HELD, DELIVERED, null]) {
    await accept(routes)
    const taken = await store.inbox.take({ routes: routes.map((route) => ({ route, places: 1 })), owner })
    assert.equal(taken.length, MANY_ROUTES)
    if (fate !== null) await Promise.all(taken.map(({ token }) => store.inbox.settle(token, fate)))
  }
  await accept(routes.slice(0, MANY_ROUTES / 2))
  await accept([BUSY], { keyHash: SHARED_HASH })
  for (let count = 0; count < BUSY_MORE; count += 30) await accept(Array.from({ length: 30 }, () => BUSY))
  await accept(routes)
}
