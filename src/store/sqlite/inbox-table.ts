/**
 * The inbox of one SQLite connection, inside the worker's transaction. It is the only writer, so a group's turn (`due_at` of
 * its message) is set together with its cause.
 */
import { claimedId } from '../../core/inbox/message.ts'
import type { HealthChange, RouteHealth } from '../../core/inbox/health.ts'
import { changeHealth, routeHealth } from './inbox-health.ts'
import { decodeHeaders } from '../../core/protocol/codec.ts'
import { answerBound } from '../../core/inbox/bound.ts'
import type { BoundAnswer, BoundQuestion, BoundState } from '../../core/inbox/bound.ts'
import { NO_REPLY, WORKER_LOST } from '../../core/inbox/message.ts'
import type { Delivery, DeliveryToken, Depth, MessageDetail, PastDelivery, Reply } from '../../core/inbox/message.ts'
import type {
  AcceptResult,
  DroppedRequests,
  KeptBound,
  KeptRequests,
  KeptUntil,
  Recovered,
  TakeMessages
} from '../../ports/inbox.ts'
import { columnsOfFate, UNDECODABLE } from '../shared/message-fate.ts'
import type { FateColumns, LetterColumns } from '../shared/message-fate.ts'
import { fitting } from '../shared/message-room.ts'
import { alternately, Shares } from '../shared/shares.ts'
import type { Kind } from '../shared/shares.ts'
import { bytesOf, preparedOnce, type Columns } from './columns.ts'
import { listDelivery, pastDeliveries } from './inbox-deliveries.ts'
import { dropRequests, keptRequests } from './inbox-kept.ts'
import { InboxOperator, type Prepare } from './inbox-operator.ts'
import { ageFrom, detailOf, heldOf, isOtherRequest, isPast } from './inbox-rows.ts'
import {
  alive,
  bound,
  call,
  claims,
  delivering,
  depths,
  due,
  end,
  find,
  firstOf,
  forget,
  forgetRecord,
  gone,
  insert,
  insertLetter,
  isAlive,
  isBehind,
  isClaimed,
  isRecorded,
  lost,
  noBounds,
  noOne,
  pauseOf,
  pauseTenant,
  postpone,
  putOff,
  setBound,
  strays,
  sweep,
  sweepTenants,
  sweepWorkers,
  take,
  takeableOfGroups,
  takeableSingle,
  triable
} from './inbox-statements.ts'
import type { Arrival } from './worker-protocol.ts'
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'

/** No limit, to SQLite. Of a dead process' deliveries there are as many as were under way. */
const ALL = -1

/** A worker that died so long ago owns nothing. */
const DEAD_FOR_MS = 3_600_000

export class InboxTable {
  /** How far the clock is trusted: nothing later than this is over. Unix milliseconds. */
  believedMs = Infinity
  /** At most sixty-four statements differ by filter. The others are constants. */
  readonly #prepare: Prepare
  readonly byHand: InboxOperator
  readonly #shares = new Shares()

  constructor (database: DatabaseSync) {
    this.#prepare = preparedOnce(database)
    this.byHand = new InboxOperator(this.#prepare, (nowMs) => this.#over(nowMs), (group, nowMs) => { this.#call(group, nowMs) })
  }

  accept (arrival: Arrival, nowMs: number): AcceptResult {
    const found = this.#live(arrival.id, nowMs)
    if (found !== null) return { kind: 'seen', message: detailOf(found) }
    const refused = this.#refusal(arrival, nowMs)
    if (refused !== null) return { kind: refused }
    this.#put(arrival, nowMs)
    return { kind: 'accepted' }
  }

  acceptAll (arrivals: readonly Arrival[], nowMs: number): AcceptResult[] {
    const live = arrivals.map(({ id, alongside }) =>
      (alongside === undefined ? null : this.#live(alongside, nowMs)) ?? this.#live(id, nowMs))
    const refused = arrivals.map((arrival, index) => live[index] === null ? this.#refusal(arrival, nowMs) : null)
    const isNone = refused.some((why) => why !== null) ||
      live.some((found, index) => found !== null && isOtherRequest(found, arrivals[index] as Arrival))
    return arrivals.map((arrival, index): AcceptResult => {
      const found = live[index] ?? null
      if (found !== null) return { kind: 'seen', message: detailOf(found) }
      const why = refused[index] ?? null
      if (why !== null) return { kind: why }
      if (!isNone) this.#put(arrival, nowMs)
      return { kind: 'accepted' }
    })
  }

  look (id: Buffer, nowMs: number): MessageDetail | null {
    const found = this.#live(id, nowMs)
    return found === null ? null : detailOf(found)
  }

  deliveries (id: Buffer): readonly PastDelivery[] {
    return pastDeliveries(this.#prepare, id)
  }

  alive (owner: Buffer, leaseMs: number, nowMs: number): null {
    this.#prepare(alive).run(owner, nowMs + Math.round(leaseMs))
    return null
  }

  gone (owner: Buffer): null {
    this.#prepare(gone).run(owner)
    return null
  }

  /** No other gateway lives here. All workers are dead, so their leases end at once. */
  endWorkers (nowMs: number): Recovered {
    this.#prepare(noOne).run()
    this.#prepare(noBounds).run()
    return this.recover(ALL, nowMs)
  }

  take ({ routes, owner, room, trial = false }: TakeMessages, nowMs: number): Delivery[] {
    if (this.#prepare(isAlive).get(owner, nowMs) === undefined) return []
    const due = routes.flatMap(({ route, places }) => trial ? this.#trialsOf(route, places, nowMs) : this.#dueOf(route, places, nowMs))
    due.sort((one, other) => one.due_at - other.due_at || one.number - other.number)
    const taken = fitting(due, room)
    for (const { route } of routes) this.#shares.note(route, taken.filter((each) => each.route === route).map(({ kind }) => kind))
    return taken.flatMap(({ number }) => this.#deliveryOf(this.#prepare(take).get(owner, number) as Columns, owner, nowMs))
  }

  postpone (tenant: Buffer, forMs: number, limit: number, nowMs: number): number {
    const { until } = this.#prepare(pauseTenant).get(tenant, nowMs + Math.round(forMs)) as { readonly until: number }
    return Number(this.#prepare(postpone).run(tenant, until, limit).changes)
  }

  allow (question: BoundQuestion, nowMs: number): BoundAnswer {
    const found = this.#prepare(bound).get(question.route) as { readonly state: string } | undefined
    const { state, answer } = answerBound(found === undefined ? null : JSON.parse(found.state) as BoundState, question, nowMs)
    this.#prepare(setBound).run(question.route, JSON.stringify(state))
    return answer
  }

  health (nowMs: number): RouteHealth[] { return routeHealth(this.#prepare, nowMs) }

  changeHealth (change: HealthChange, nowMs: number): boolean { return changeHealth(this.#prepare, change, nowMs) }

  settle (
    { id, owner, attempt }: DeliveryToken,
    { state, inMs, status, error, answer, requestMs, untried, reply, letter }: FateColumns,
    nowMs: number
  ): boolean {
    const found = this.#prepare(delivering).get(id)
    if (found === undefined || found.attempt !== attempt || !owner.equals(found.owner as Uint8Array)) return false
    const dueAtMs = state === 'waiting' ? nowMs + inMs : null
    this.#write(found, { state, status, error, dueAtMs, answer, requestMs, untried, reply }, nowMs)
    if (letter !== null) this.#putLetter(found, letter, nowMs)
    if (state !== 'delivered') listDelivery(this.#prepare, id, { ...reply, attempt, atMs: nowMs, error })
    return true
  }

  recover (limit: number, nowMs: number): Recovered {
    const found = this.#prepare(lost).all(this.#over(nowMs), limit)
    for (const columns of found) {
      const state = columns.holds === 1 ? 'held' : 'waiting'
      // A held message has ended: the answer of an earlier life is no longer its last one.
      this.#write(columns, { state, status: null, error: WORKER_LOST, dueAtMs: state === 'waiting' ? nowMs : null, answer: null }, nowMs)
      const delivery = { ...NO_REPLY, attempt: columns.attempt as number, atMs: nowMs, error: WORKER_LOST }
      listDelivery(this.#prepare, columns.id as Uint8Array, delivery)
    }
    return { count: found.length, held: found.filter(({ holds }) => holds === 1).map(heldOf) }
  }

  dueInMs (routes: readonly string[], nowMs: number): number | null {
    const { due_at: dueAt } = this.#prepare(due).get(JSON.stringify(routes)) as { due_at: number | null }
    return dueAt === null ? null : Math.max(0, dueAt - nowMs)
  }

  depths (nowMs: number): Depth[] {
    const rows = this.#prepare(depths).all() as unknown as Array<Omit<Depth, 'oldestMs'> & { readonly since: number | null }>
    return rows.map(({ since, ...depth }) => ({ ...depth, oldestMs: since === null ? null : Math.max(0, nowMs - since) }))
  }

  kept (bounds: readonly KeptBound[]): KeptRequests[] {
    return keptRequests(this.#prepare, bounds)
  }

  dropRequests (beyond: readonly KeptUntil[], limit: number, nowMs: number): DroppedRequests {
    return dropRequests(this.#prepare, beyond, limit, this.#over(nowMs))
  }

  /** What is past under this id makes room. */
  forget (id: Buffer, nowMs: number): void {
    const past = this.#prepare(find).get(id)
    if (past === undefined) return
    this.#prepare(forget).run(id)
    this.#call(past.group_id, nowMs)
  }

  sweep (limit: number, nowMs: number): number {
    this.#prepare(putOff).run(nowMs, this.#over(nowMs))
    const swept = this.#prepare(sweep).all(this.#over(nowMs), limit)
    for (const { group_id: group, blocks } of swept) if (blocks === 1) this.#call(group, nowMs)
    this.#prepare(sweepWorkers).run(this.#over(nowMs) - DEAD_FOR_MS)
    this.#prepare(sweepTenants).run(this.#over(nowMs))
    return swept.length
  }

  #dueOf (route: string, places: number, nowMs: number): Due[] {
    const rowsOf = (statement: string, kind: Kind): Due[] => {
      const rows = this.#prepare(statement).all(route, nowMs, places) as unknown as Array<Omit<Due, 'route' | 'kind'>>
      return rows.map((row) => ({ ...row, route, kind }))
    }
    const kinds = { single: rowsOf(takeableSingle, 'single'), group: rowsOf(takeableOfGroups, 'group') }
    return alternately(kinds, this.#shares.first(route), places)
  }

  #trialsOf (route: string, places: number, nowMs: number): Due[] {
    const rows = this.#prepare(triable).all(route, nowMs, places) as unknown as Array<Omit<Due, 'route' | 'kind'> & { isGroup: number }>
    return rows.map(({ isGroup, ...row }) => ({ ...row, route, kind: isGroup === 1 ? 'group' : 'single' }))
  }

  #over (nowMs: number): number {
    return Math.min(nowMs, this.believedMs)
  }

  /** The message under this id that is not past. */
  #live (id: Buffer, nowMs: number): Columns | null {
    const found = this.#prepare(find).get(id)
    return found === undefined || isPast(found, this.#over(nowMs)) ? null : found
  }

  /** Of one that no message stands in the way of. */
  #refusal (arrival: Arrival, nowMs: number): 'recorded' | 'moved' | null {
    if (this.#isRecorded(arrival, nowMs)) return 'recorded'
    return this.#isMoved(arrival, nowMs) ? 'moved' : null
  }

  #isRecorded (arrival: Arrival, nowMs: number): boolean {
    const { id, underClaim } = arrival
    if (underClaim === undefined) return this.#prepare(isRecorded).get(id, this.#over(nowMs)) !== undefined
    return this.#prepare(isClaimed).get(claimedId(arrival), underClaim.owner, underClaim.attempt) === undefined
  }

  /** As a claim is (record-table.ts). */
  #isMoved ({ scheme, earlierId, underClaim }: Arrival, nowMs: number): boolean {
    if (underClaim !== undefined) return false
    if (scheme !== this.#prepare(claims).get()?.scheme) return true
    return earlierId !== null &&
      (this.#prepare(isRecorded).get(earlierId, this.#over(nowMs)) !== undefined || this.#live(earlierId, nowMs) !== null)
  }

  #put (
    {
      id, scheme, earlierId, underClaim, fingerprint, scopeHash, group, tenant, delayMs, holds, stops, keepMs, deadKeepMs,
      method, target, headers, body, about
    }: Arrival,
    nowMs: number
  ): void {
    this.forget(id, nowMs)
    if (earlierId !== null && underClaim === undefined) {
      this.forget(earlierId, nowMs)
      this.#prepare(forgetRecord).run(earlierId)
    }
    const notBefore = delayMs > 0 ? nowMs + Math.round(delayMs) : null
    const pause = tenant === null ? undefined : this.#prepare(pauseOf).get(tenant) as { readonly until: number } | undefined
    const isCalled = group === null || this.#prepare(isBehind).get(group) === undefined
    const dueAt = isCalled ? Math.max(nowMs, notBefore ?? 0, pause?.until ?? 0) : null
    this.#prepare(insert).run(
      id, (underClaim?.attempt ?? 1) - 1, dueAt, nowMs, about.route, group, holds ? 1 : 0, stops ? 1 : 0,
      Math.round(keepMs), Math.round(deadKeepMs), body.length, fingerprint.alg, fingerprint.value, scopeHash,
      method, about.path, about.requestId, about.instance, about.keyHash, about.keyText, target, headers, body, scheme, tenant, notBefore
    )
  }

  #putLetter (dead: Columns, { id, route, target, headers, deadKeepMs }: LetterColumns, nowMs: number): void {
    this.#prepare(insertLetter).run(id, nowMs, route, deadKeepMs, target, headers, dead.id as Uint8Array)
  }

  /**
   * A delivered message is not sent again, so its bytes are removed, and with them a token in its query, unless they are kept for a
   * replay. A message that is given up keeps them for an operator's retry.
   */
  #write (
    columns: Columns,
    to: {
      state: 'waiting' | 'delivered' | 'dead' | 'held'
      status: number | null
      error: string | null
      dueAtMs: number | null
      answer: Uint8Array | null
      requestMs?: number
      untried?: boolean
      reply?: Reply
    },
    nowMs: number
  ): void {
    const { state, status, error, dueAtMs, answer, requestMs = 0, untried = false, reply } = to
    const blocks = state === 'waiting' || (columns.stops === 1 && state !== 'delivered')
    const keepMs = (state === 'delivered' ? columns.keep_ms : columns.dead_keep_ms) as number
    const isOver = state !== 'waiting'
    const listed = state === 'delivered' ? reply : undefined
    this.#prepare(end).run(
      state,
      untried ? 1 : 0,
      status,
      error,
      blocks ? 1 : 0,
      dueAtMs,
      isOver ? nowMs : null,
      isOver ? nowMs + keepMs : null,
      answer,
      requestMs > 0 ? nowMs + Math.min(requestMs, keepMs) : null,
      listed?.ms ?? null,
      listed?.contentType ?? null,
      state === 'delivered' && requestMs === 0 ? 1 : 0,
      columns.id as Uint8Array
    )
    if (!blocks) this.#call(columns.group_id, nowMs)
  }

  /** The first open message of its group is due if it waits for its turn. A later one that was called before it waits anew. */
  #call (group: SQLOutputValue | undefined, nowMs: number): void {
    if (group === null || group === undefined) return
    const first = this.#prepare(firstOf).get(group)
    if (first === undefined) return
    this.#prepare(strays).run(group, first.number as number)
    if (first.state === 'waiting' && first.due_at === null) this.#prepare(call).run(nowMs, first.number as number)
  }

  #deliveryOf (columns: Columns, owner: Buffer, nowMs: number): Delivery[] {
    const token = { id: bytesOf(columns.id), owner, attempt: columns.attempt as number }
    const headers = decodeHeaders(bytesOf(columns.headers))
    if (headers === null) {
      this.settle(token, columnsOfFate(UNDECODABLE), nowMs)
      return []
    }
    return [{
      token,
      route: columns.route as string,
      tries: columns.tries as number,
      ageMs: this.#over(nowMs) - ageFrom(columns),
      lastError: columns.error as string | null,
      isReplay: columns.replayed_at !== null,
      requestId: columns.request_id as string,
      tenant: columns.tenant_id === null ? null : bytesOf(columns.tenant_id),
      request: {
        method: columns.method as string,
        target: bytesOf(columns.target).toString('latin1'),
        headers,
        body: bytesOf(columns.body)
      }
    }]
  }
}

interface Due {
  readonly number: number
  readonly due_at: number
  readonly bytes: number
  readonly route: string
  readonly kind: Kind
}
