/**
 * The inbox in Postgres: its batchers, and which connection each statement uses. Accepting has connections of its own, so that
 * no delivery delays it. Operators and the sweeper use the background's.
 */
import type { BoundAnswer, BoundQuestion } from '../../core/inbox/bound.ts'
import type { HealthChange, RouteHealth } from '../../core/inbox/health.ts'
import type { Delivery, DeliveryToken, Depth, Fate, MessageDetail, NewMessage, PastDelivery } from '../../core/inbox/message.ts'
import type {
  AcceptResult,
  DroppedRequests,
  InboxStore,
  KeptBound,
  KeptRequests,
  KeptUntil,
  MessageAudit,
  MessageFilter,
  Recovered,
  TakeMessages
} from '../../ports/inbox.ts'
import { StoreUnavailable } from '../../ports/errors.ts'
import { Batcher } from '../shared/batcher.ts'
import { columnsOfFate, UNDECODABLE } from '../shared/message-fate.ts'
import { Shares } from '../shared/shares.ts'
import { SWEEP_FROM_START } from './background.ts'
import { BATCH_MAX, BATCHING, hex, QUEUE_MAX, resultOf, type Outcome } from './batching.ts'
import type { Connections } from './connections.ts'
import type { Session } from './statements.ts'
import { isDoubtful } from './durable.ts'
import { hasWaitedInVain } from './faults.ts'
import { Line } from './in-line.ts'
import { acceptWhole, lookAtMessages, lookAtMessagesDurably, type Groups, type WholeCall } from './inbox-accept.ts'
import { arrivalOf } from './inbox-arrivals.ts'
import { Called } from './inbox-called.ts'
import { dueInMs, takeMessages, type Looks } from './inbox-deliver.ts'
import { pastDeliveries } from './inbox-deliveries.ts'
import { changeHealth, routeHealth } from './inbox-health.ts'
import { dropRequests, keptRequests } from './inbox-kept.ts'
import { ACCEPT_BATCHES_MAX, ACCEPT_BYTES_MAX, acceptLane, messageSettleLane, SETTLE_BATCHES_MAX } from './inbox-lanes.ts'
import type { AcceptLane, MessageSettleLane } from './inbox-lanes.ts'
import { discardMessages, listMessages, messageDepths, replayMessages, retryMessages, sweepMessages } from './inbox-operator.ts'
import { allowDeliveries, postponeMessages } from './inbox-pressure.ts'
import { Reach } from './inbox-reach.ts'
import { tryMessages } from './inbox-trial.ts'
import { callGroups, uncalledGroups } from './inbox-turns.ts'
import { endWorker, keepAlive, keepAliveInLine, recoverMessages, type Living } from './inbox-workers.ts'

/** Three more connections: one for whole batches, one for looks, one for looks that write. A commit may hang. */
export const INBOX_CONNECTIONS = ACCEPT_BATCHES_MAX + 3
/**
 * One batch of calls each, for callers that wait and for those that do not. One connection each for a take (and before it for its bound), a
 * sign of life, a recovery, a look at what is next, and a tenant's pause.
 */
export const DELIVERY_CONNECTIONS = SETTLE_BATCHES_MAX + 2 + 5

export interface InboxPurposes {
  readonly inbox: Connections
  readonly deliveries: Connections
  readonly background: Connections
  /** For statements that wait for locked rows (in-line.ts). */
  readonly lines: Connections
}

export class PostgresInbox implements InboxStore {
  readonly #purposes: InboxPurposes
  readonly #accepts: AcceptLane
  readonly #whole: Batcher<WholeCall, Outcome<AcceptResult[]>>
  readonly #looks: Batcher<Buffer, MessageDetail | null>
  readonly #proofs: Batcher<Buffer, MessageDetail | null>
  readonly #settles: MessageSettleLane
  /** By group, as hex. */
  readonly #calls: Batcher<string, null>
  /** Groups to call for which no caller waits, as hex. Each is called once, however often it was added. */
  readonly #behind = new Set<string>()
  #isCalling = false
  readonly #looksForDue: Looks
  readonly #line: Line<Living>
  #sweepFromMs = SWEEP_FROM_START
  #arrivals = 0
  /** Where the next look for uncalled groups begins. null: with the first group. */
  #uncalledFrom: Buffer | null = null

  constructor (purposes: InboxPurposes) {
    const { inbox, deliveries, lines } = purposes
    const reach = new Reach()
    this.#purposes = purposes
    this.#looksForDue = { reach, called: new Called(reach), shares: new Shares() }
    this.#accepts = acceptLane(inbox, (work) => this.#calling(work))
    this.#whole = new Batcher({
      ...BATCHING,
      name: 'acceptances of batches',
      batchBytesMax: ACCEPT_BYTES_MAX,
      idOf: ({ messages: [first] }) => first === undefined ? '' : hex(first.id),
      bytesOf: ({ messages }) => messages.reduce((bytes, { request }) => bytes + request.body.length, 0),
      run: (calls) => this.#calling((groups) => inbox.use('message_accept_all', (session) => acceptWhole(session, calls, groups)))
    })
    this.#looks = new Batcher({
      ...BATCHING,
      name: 'looks at messages',
      idOf: hex,
      run: (ids) => inbox.use('message_look', async (session) => inOrder(ids, await lookAtMessages(session, ids)))
    })
    this.#proofs = new Batcher({
      ...BATCHING,
      name: 'looks at messages that write',
      idOf: hex,
      run: (ids) => inbox.use('message_look_durably', async (session) => inOrder(ids, await lookAtMessagesDurably(session, ids)))
    })
    this.#settles = messageSettleLane(deliveries, (work) => this.#callingNow(work))
    this.#calls = new Batcher<string, null>({
      ...BATCHING,
      name: 'calls of groups',
      idOf: (group) => group,
      run: (groups) => deliveries.use('message_call', (session) => this.#callEach(session, groups))
    })
    this.#line = new Line<Living>({
      againMs: lines.lockTimeoutMs / 2,
      idOf: ({ owner }) => hex(owner),
      wait: (living) => lines.use('worker_alive_in_line', (session) => keepAliveInLine(session, living))
    })
  }

  async accept (message: NewMessage): Promise<AcceptResult> {
    if (message.group !== null) this.#looksForDue.called.noteGroup()
    const accepted = Promise.withResolvers<Outcome<AcceptResult>>()
    this.#accepts.enter(arrivalOf(message, ++this.#arrivals), accepted)
    const result = resultOf(await accepted.promise)
    return result.kind === 'seen' ? this.#certain(result) : result
  }

  /**
   * One after another. If the queue takes longer than a sender waits, each sender retries, joins the end and waits as long
   * again. By then its messages may exist, and a look does not queue.
   */
  async acceptAll (messages: readonly NewMessage[]): Promise<AcceptResult[]> {
    if (messages.length === 0) return []
    if (messages.some(({ group }) => group !== null)) this.#looksForDue.called.noteGroup()
    // Now: a batch of looks ends in the order of ids.
    const number = this.#arrivals + 1
    this.#arrivals += messages.length
    if (this.#whole.idle) return this.#allOf(messages, number)
    const found = await Promise.all(messages.map(async ({ id, alongside }) =>
      (alongside === undefined ? null : await this.look(alongside)) ?? this.look(id)))
    const seen = found.flatMap((message): AcceptResult[] => message === null ? [] : [{ kind: 'seen', message }])
    return seen.length === messages.length ? seen : this.#allOf(messages, number)
  }

  async look (id: Buffer): Promise<MessageDetail | null> {
    const message = await this.#looks.push(id)
    return message !== null && isDoubtful(message) ? this.#proofs.push(id) : message
  }

  deliveries (id: Buffer): Promise<readonly PastDelivery[]> {
    return this.#purposes.background.use('message_deliveries', (session) => pastDeliveries(session, id))
  }

  /** If the worker's row is locked, this also waits in line for it. The next call finds the row written. */
  async alive (owner: Buffer, leaseMs: number): Promise<void> {
    try {
      await this.#purposes.deliveries.use('worker_alive', (session) => keepAlive(session, { owner, leaseMs }))
    } catch (error) {
      if (hasWaitedInVain(error)) this.#line.join([{ owner, leaseMs }])
      throw error
    }
  }

  gone (owner: Buffer): Promise<void> {
    this.#line.leave(hex(owner))
    return this.#purposes.deliveries.use('worker_gone', (session) => endWorker(session, owner))
  }

  async take (order: TakeMessages): Promise<Delivery[]> {
    const taken = await (order.trial === true
      ? this.#purposes.deliveries.use('message_try', (session) => tryMessages(session, order))
      : this.#purposes.deliveries.use('message_take', (session) => takeMessages(session, order, this.#looksForDue)))
    const isWhole = (delivery: typeof taken[number]): delivery is Delivery => delivery.request !== null
    // Whatever becomes of these, the others are handed out. If its settle fails, the message is taken again when this worker is no
    // longer alive.
    await Promise.allSettled(taken.filter((delivery) => !isWhole(delivery)).map(({ token }) => this.settle(token, UNDECODABLE)))
    return taken.filter(isWhole)
  }

  postpone (tenant: Buffer, forMs: number, limit: number): Promise<number> {
    return this.#purposes.deliveries.use('message_postpone', (session) => postponeMessages(session, tenant, forMs, limit))
  }

  allow (question: BoundQuestion): Promise<BoundAnswer> {
    return this.#purposes.deliveries.use('bound_write', (session) => allowDeliveries(session, question))
  }

  health (): Promise<RouteHealth[]> { return this.#purposes.background.use('route_health', routeHealth) }

  changeHealth (change: HealthChange): Promise<boolean> {
    return this.#purposes.background.use('change_health', (session) => changeHealth(session, change))
  }

  settle (token: DeliveryToken, fate: Fate): Promise<boolean> {
    const settled = Promise.withResolvers<boolean>()
    this.#settles.enter({ token, fate: columnsOfFate(fate) }, settled)
    return settled.promise
  }

  async recover (limit: number): Promise<Recovered> {
    const { deliveries } = this.#purposes
    const { count, held } = await this.#callingNow((groups) => deliveries.use(
      'message_recover',
      (session) => recoverMessages(session, limit, groups)
    ))
    const called = deliveries.use('message_uncalled', (session) => this.#callForgotten(session))
    // A look at the groups comes again. Held messages are reported here or never.
    return { count: count + await (held.length === 0 ? called : called.catch(() => 0)), held }
  }

  dueInMs (routes: readonly string[]): Promise<number | null> {
    return this.#purposes.deliveries.use('message_due', (session) => dueInMs(session, routes, this.#looksForDue))
  }

  depths (): Promise<Depth[]> { return this.#purposes.background.use('message_depths', messageDepths) }

  list (filter: MessageFilter): Promise<MessageDetail[]> {
    return this.#purposes.background.use('message_list', (session) => listMessages(session, filter))
  }

  async retry (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    const { background } = this.#purposes
    return this.#asCalled(
      await this.#callingNow((groups) => background.use('message_retry', (session) => retryMessages(session, filter, audit, groups)))
    )
  }

  discard (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#callingNow((groups) => this.#purposes.background.use(
      'message_discard',
      (session) => discardMessages(session, filter, audit, groups)
    ))
  }

  async replay (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    const { background } = this.#purposes
    return this.#asCalled(
      await this.#callingNow((groups) => background.use('message_replay', (session) => replayMessages(session, filter, audit, groups)))
    )
  }

  kept (bounds: readonly KeptBound[]): Promise<KeptRequests[]> {
    return this.#purposes.background.use('requests_kept', (session) => keptRequests(session, bounds))
  }

  dropRequests (beyond: readonly KeptUntil[], limit: number): Promise<DroppedRequests> {
    return this.#purposes.background.use('requests_drop', (session) => dropRequests(session, beyond, limit))
  }

  async sweep (limit: number): Promise<number> {
    const { count, latestMs } = await this.#callingNow((groups) => this.#purposes.background.use(
      'message_sweep',
      (session) => sweepMessages(session, limit, this.#sweepFromMs, groups)
    ))
    this.#sweepFromMs = count < limit ? SWEEP_FROM_START : latestMs
    return count
  }

  close (): void {
    this.#line.close()
    this.#accepts.close()
    this.#settles.close()
  }

  async #allOf (messages: readonly NewMessage[], number: number): Promise<AcceptResult[]> {
    return Promise.all(resultOf(await this.#whole.push({ messages, number })).map((result) => this.#certain(result)))
  }

  /** A message that was only seen gives no 202 until it is proven durable. */
  async #certain (result: AcceptResult): Promise<AcceptResult> {
    if (result.kind !== 'seen' || !isDoubtful(result.message)) return result
    const message = await this.#proofs.push(result.message.id)
    if (message === null) throw new StoreUnavailable('postgres', 'message_look', true, new Error('a message came and went'))
    return { kind: 'seen', message }
  }

  /**
   * The retry returns messages of groups as they were before their groups were called. It is committed, whether this look
   * succeeds or not.
   */
  async #asCalled (retried: MessageDetail[]): Promise<MessageDetail[]> {
    const ids = retried.filter(({ ordered }) => ordered).map(({ id }) => id)
    if (ids.length === 0) return retried
    const { background } = this.#purposes
    const found = await background
      .use('message_look', (session) => lookAtMessages(session, ids))
      .catch(() => new Map<string, MessageDetail>())
    return retried.map((message) => {
      const now = found.get(hex(message.id))
      return now?.state === 'waiting' && now.attempt === message.attempt ? { ...message, dueAtMs: now.dueAtMs } : message
    })
  }

  async #callForgotten (session: Session): Promise<number> {
    const { uncalled, next } = await uncalledGroups(session, this.#uncalledFrom)
    this.#uncalledFrom = next
    const called = await callGroups(session, uncalled)
    this.#looksForDue.called.note(called)
    return called.length
  }

  async #callEach (session: Session, groups: readonly string[]): Promise<null[]> {
    this.#looksForDue.called.note(await callGroups(session, groups.map((group) => Buffer.from(group, 'hex'))))
    return groups.map(() => null)
  }

  /**
   * A caller with an acknowledged commit does not wait for the call. The call changes something only if another message ended
   * meanwhile.
   */
  async #calling<Result> (work: (groups: Groups) => Promise<Result>): Promise<Result> {
    const groups: Groups = new Set()
    try {
      return await work(groups)
    } finally {
      for (const group of groups) if (this.#behind.size < QUEUE_MAX) this.#behind.add(group)
      if (!this.#isCalling) void this.#callBehind()
    }
  }

  async #callBehind (): Promise<void> {
    this.#isCalling = true
    while (this.#behind.size > 0) {
      const groups: string[] = []
      for (const group of this.#behind) {
        if (groups.length === BATCH_MAX) break
        groups.push(group)
        this.#behind.delete(group)
      }
      await this.#purposes.deliveries.use('message_call', (session) => this.#callEach(session, groups)).catch(leftToRecover)
    }
    this.#isCalling = false
  }

  /** Resolves when the groups have been called, so that the worker that ended a message may take the next one. */
  async #callingNow<Result> (work: (groups: Groups) => Promise<Result>): Promise<Result> {
    const groups: Groups = new Set()
    try {
      return await work(groups)
    } finally {
      await this.#call(groups)
    }
  }

  async #call (groups: Groups): Promise<void> {
    await Promise.allSettled(Array.from(groups, (group) => this.#calls.push(group)))
  }
}

/** `recover` mends a call that failed, as for a process that died. */
function leftToRecover (): void {}

function inOrder (ids: readonly Buffer[], found: ReadonlyMap<string, MessageDetail>): Array<MessageDetail | null> {
  return ids.map((id) => found.get(hex(id)) ?? null)
}
