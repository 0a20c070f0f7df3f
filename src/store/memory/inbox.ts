/**
 * The inbox in memory: executes the table (core/inbox/transitions.ts), one synchronous step at a time. For tests and for the
 * conformance suite. A gateway's inbox is in its database.
 */
import { claimedId } from '../../core/inbox/message.ts'
import type { HealthChange, RouteHealth } from '../../core/inbox/health.ts'
import { answerBound } from '../../core/inbox/bound.ts'
import type { BoundAnswer, BoundQuestion, BoundState } from '../../core/inbox/bound.ts'
import {
  blocks,
  deliveryOf,
  detailOf,
  firstDueAtMs,
  isPast,
  letterRow,
  listedOf,
  NO_REQUEST,
  replyOfFate,
  violation
} from '../../core/inbox/row.ts'
import type { MessageRow } from '../../core/inbox/row.ts'
import { hasItsTurn, messageTransition, POSTPONE_SLACK_MS, turnsOf } from '../../core/inbox/transitions.ts'
import type { MessageChange, MessageEvent, Moment } from '../../core/inbox/transitions.ts'
import { NO_REPLY, WORKER_LOST } from '../../core/inbox/message.ts'
import type { Delivery, DeliveryToken, Depth, Fate, MessageDetail, NewMessage, PastDelivery, Reply } from '../../core/inbox/message.ts'
import type { Token } from '../../core/record/record.ts'
import type {
  AcceptResult,
  DroppedRequests,
  HeldMessage,
  InboxStore,
  KeptBound,
  KeptRequests,
  KeptUntil,
  MessageAudit,
  MessageFilter,
  Recovered,
  TakeMessages
} from '../../ports/inbox.ts'
import type { SiblingInbox } from './records.ts'
import { keptOf } from '../shared/kept-requests.ts'
import { fitting } from '../shared/message-room.ts'
import { alternately, Shares } from '../shared/shares.ts'
import type { Kind } from '../shared/shares.ts'

/** The records in memory that belong to the same gateway. */
interface SiblingRecords {
  readonly isRecorded: (id: Buffer) => boolean
  readonly isClaimed: (token: Token) => boolean
  readonly forget: (id: Buffer) => void
  readonly scheme: number
  siblingInbox: SiblingInbox
}

type EventOf = (row: MessageRow) => MessageEvent

const LAPSE: MessageEvent = { kind: 'lapse' }

interface MemoryInboxOptions {
  readonly nowMs: () => number
  readonly believedMs?: () => number | null
  /** Of the same gateway. From now on each tests the other's rows. */
  readonly records?: SiblingRecords | null
}

export class MemoryInbox implements InboxStore {
  readonly audits: Array<MessageAudit & { readonly action: 'retry' | 'discard' | 'replay', readonly id: Buffer }> = []
  readonly #nowMs: () => number
  readonly #believedMs: () => number | null
  /** In the order of acceptance. */
  readonly #messages = new Map<string, MessageRow>()
  /** By message, and by their attempts. */
  readonly #deliveries = new Map<string, readonly PastDelivery[]>()
  readonly #workers = new Map<string, number>()
  readonly #records: SiblingRecords | null
  readonly #shares = new Shares()
  /** Until when tenants are paused. */
  readonly #pauses = new Map<string, number>()
  readonly #bounds = new Map<string, BoundState>()
  /** Since when consumers fail, and when the trial of a paused one is. Memory has no pauses of operators. */
  readonly #failing = new Map<string, { readonly sinceMs: number, readonly lastMs: number }>()
  readonly #trials = new Map<string, number>()
  #numbers = 0

  constructor ({ nowMs, believedMs = () => null, records = null }: MemoryInboxOptions) {
    this.#nowMs = nowMs
    this.#believedMs = believedMs
    this.#records = records
    if (records === null) return
    records.siblingInbox = {
      messageOf: (id) => this.#unexpired(id),
      forget: (id) => { this.#forget(id) },
      stored: () => this.#all().map((row) => ({ ...row, past: isPast(row, this.#overMs()) }))
    }
  }

  async accept (message: NewMessage): Promise<AcceptResult> {
    const [result] = await this.acceptAll([message])
    return result as AcceptResult
  }

  async acceptAll (messages: readonly NewMessage[]): Promise<AcceptResult[]> {
    const left = messages.map(({ alongside }) => alongside === undefined ? null : this.#unexpired(alongside))
    const changes = messages.map((message) => this.#change(message.id, this.#acceptanceOf(message)))
    const results = messages.map((message, index): AcceptResult => {
      const first = left[index] ?? null
      if (first !== null) return { kind: 'seen', message: first }
      return changes[index]?.kind === 'written' ? this.#entranceOf(message) : this.#seen(message)
    })
    const isForeign = changes.some((change) => change.kind === 'refused' && change.why === 'fingerprint')
    // Then none of the batch is accepted. The others get the result that they would have alone.
    const isNone = isForeign || results.some(({ kind }) => kind === 'recorded' || kind === 'moved')
    if (!isNone) for (const message of messages.filter((_, index) => results[index]?.kind === 'accepted')) this.#put(message)
    return results
  }

  async look (id: Buffer): Promise<MessageDetail | null> {
    return this.#unexpired(id)
  }

  async deliveries (id: Buffer): Promise<readonly PastDelivery[]> {
    return this.#deliveries.get(nameOf(id)) ?? []
  }

  async alive (owner: Buffer, leaseMs: number): Promise<void> {
    this.#workers.set(nameOf(owner), Math.max(this.#workers.get(nameOf(owner)) ?? 0, this.#nowMs() + leaseMs))
  }

  async gone (owner: Buffer): Promise<void> {
    this.#workers.delete(nameOf(owner))
  }

  async take ({ routes, owner, room, trial = false }: TakeMessages): Promise<Delivery[]> {
    const takeOf = (row: MessageRow): MessageEvent =>
      ({ kind: 'take', owner, hasTurn: this.#hasItsTurn(row), isPaused: this.#isPaused(row) })
    const ofRoute = (route: string): MessageRow[] => this.#all().filter(({ about }) => about.route === route)
    const dueOf = (route: string): MessageRow[] => this.#changing(ofRoute(route), takeOf).sort(byTime)
    const due = routes.filter(({ route }) => trial || !this.#trials.has(route)).flatMap(({ route, places }) => {
      const rows = dueOf(route)
      if (trial) return rows.sort((one, other) => one.attempt - other.attempt || byTime(one, other)).slice(0, places)
      const kinds = { single: rows.filter(({ group }) => group === null), group: rows.filter(({ group }) => group !== null) }
      return alternately(kinds, this.#shares.first(route), places)
    }).sort(byTime)
    const taken = this.#write(fitting(due, room), takeOf)
    for (const { route } of routes) this.#shares.note(route, taken.filter(({ about }) => about.route === route).map(kindOf))
    return taken.map((row) => deliveryOf(row, owner, this.#overMs()))
  }

  async postpone (tenant: Buffer, forMs: number, limit: number): Promise<number> {
    const untilMs = Math.max(this.#pauses.get(nameOf(tenant)) ?? 0, this.#nowMs() + forMs)
    this.#pauses.set(nameOf(tenant), untilMs)
    const postponed = this.#all().filter(({ tenant: own, dueAtMs }) =>
      own?.equals(tenant) === true && dueAtMs !== null && dueAtMs < untilMs - POSTPONE_SLACK_MS)
    return this.#write(postponed.slice(0, limit), () => ({ kind: 'postpone', untilMs })).length
  }

  async allow (question: BoundQuestion): Promise<BoundAnswer> {
    const { state, answer } = answerBound(this.#bounds.get(question.route) ?? null, question, this.#nowMs())
    this.#bounds.set(question.route, state)
    return answer
  }

  async health (): Promise<RouteHealth[]> {
    const nowMs = this.#nowMs()
    return [...new Set([...this.#failing.keys(), ...this.#trials.keys()])].map((route) => {
      const [failing, trialAtMs] = [this.#failing.get(route), this.#trials.get(route)]
      return {
        route,
        failing: failing === undefined ? null : { forMs: nowMs - failing.sinceMs, lastMs: nowMs - failing.lastMs },
        pause: trialAtMs === undefined ? null : { trialInMs: trialAtMs - nowMs }
      }
    })
  }

  async changeHealth (change: HealthChange): Promise<boolean> {
    const { route } = change
    const nowMs = this.#nowMs()
    const [failing, trialAtMs] = [this.#failing.get(route), this.#trials.get(route)]
    switch (change.kind) {
      case 'failing': {
        const goesOn = failing !== undefined && failing.lastMs >= nowMs - change.gapMs
        this.#failing.set(route, { sinceMs: goesOn ? failing.sinceMs : nowMs, lastMs: nowMs })
        return true
      }
      case 'well':
        this.#failing.delete(route)
        return this.#trials.delete(route)
      case 'pause':
        if (failing === undefined || failing.sinceMs > nowMs - change.afterMs || trialAtMs !== undefined) return false
        this.#trials.set(route, nowMs + change.trialMs)
        return true
      case 'trial':
        if (trialAtMs === undefined || trialAtMs > nowMs) return false
        this.#trials.set(route, nowMs + change.trialMs)
        return true
    }
  }

  async settle (token: DeliveryToken, fate: Fate): Promise<boolean> {
    const row = this.#messages.get(nameOf(token.id))
    if (row === undefined || this.#write([row], () => ({ kind: 'settle', token, fate })).length === 0) return false
    const letter = fate.kind === 'dead' ? fate.letter : undefined
    if (letter !== undefined) this.#save(letterRow(row, letter, ++this.#numbers, this.#nowMs()))
    this.#list(row, fate.kind === 'delivered' ? null : fate.error, replyOfFate(fate))
    return true
  }

  async recover (limit: number): Promise<Recovered> {
    const rows = this.#write(this.#changing(this.#all(), () => LAPSE).slice(0, limit), () => LAPSE)
    for (const row of rows) this.#list(row, WORKER_LOST, NO_REPLY)
    const held = rows.filter(({ state }) => state === 'held').map(heldOf)
    return { count: rows.length, held }
  }

  async dueInMs (routes: readonly string[]): Promise<number | null> {
    const open = routes.filter((route) => !this.#trials.has(route))
    const next = this.#all().filter((row) => open.includes(row.about.route) && this.#hasItsTurn(row))
    const due = next.flatMap(({ dueAtMs }) => dueAtMs ?? [])
    return due.length === 0 ? null : Math.max(0, Math.min(...due) - this.#nowMs())
  }

  async depths (): Promise<Depth[]> {
    const counted = this.#all().filter(({ state }) => state !== 'delivered' && state !== 'discarded')
    return [...new Set(counted.map(({ about }) => about.route))].map((route) => {
      const mine = this.#all().filter(({ about }) => about.route === route)
      const count = (state: string): number => mine.filter((row) => row.state === state).length
      const open = mine.filter(({ state }) => state === 'waiting' || state === 'delivering' || state === 'held')
      return {
        route,
        waiting: count('waiting'),
        delivering: count('delivering'),
        held: count('held'),
        dead: count('dead'),
        bytes: bytesOf(mine.filter(({ state }) => state !== 'delivered' && state !== 'discarded')),
        deadBytes: bytesOf(mine.filter(({ state }) => state === 'dead')),
        oldestMs: open.length === 0 ? null : Math.max(0, this.#nowMs() - Math.min(...open.map(firstDueAtMs)))
      }
    })
  }

  async list (filter: MessageFilter): Promise<MessageDetail[]> {
    return this.#matching(filter).slice(0, filter.limit).map(detailOf)
  }

  async retry (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#byHand('retry', filter, audit)
  }

  async discard (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#byHand('discard', filter, audit)
  }

  async replay (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#byHand('replay', filter, audit)
  }

  async kept (bounds: readonly KeptBound[]): Promise<KeptRequests[]> {
    return bounds.map((bound) => keptOf(bound, this.#keptBy(bound.route)))
  }

  async dropRequests (beyond: readonly KeptUntil[], limit: number): Promise<DroppedRequests> {
    const over = this.#changing(this.#all(), () => ({ kind: 'expireRequest' })).slice(0, limit)
    const expired = this.#write(over, () => ({ kind: 'expireRequest' })).length
    return {
      expired,
      beyond: beyond.map(({ route, untilMs }) => {
        const dropped = this.#keptBy(route).filter(({ untilMs: each }) => each <= untilMs).slice(0, limit).map(({ row }) => row)
        return { route, count: this.#write(dropped, () => ({ kind: 'dropRequest' })).length }
      })
    }
  }

  async sweep (limit: number): Promise<number> {
    const past = this.#all().filter(({ id }) => this.#isSwept(id)).slice(0, limit)
    for (const { id } of past) this.#forget(id)
    for (const [tenant, untilMs] of this.#pauses) if (untilMs <= this.#nowMs()) this.#pauses.delete(tenant)
    return past.length
  }

  /** The bytes of a message's request, as a database would keep them. For tests. */
  requestBytes (id: Buffer): number {
    const { target, headers, body } = this.#messages.get(nameOf(id))?.request ?? NO_REQUEST
    return target.length + headers.join('').length + body.length
  }

  #all (): MessageRow[] {
    return [...this.#messages.values()]
  }

  #moment (): Moment {
    return { nowMs: this.#nowMs(), overMs: this.#overMs(), lives: (owner, atMs) => (this.#workers.get(nameOf(owner)) ?? 0) > atMs }
  }

  #change (id: Buffer, event: MessageEvent): MessageChange {
    return messageTransition(this.#messages.get(nameOf(id)) ?? null, event, this.#moment())
  }

  /** Those of `rows` that the event changes, before the change. */
  #changing (rows: readonly MessageRow[], eventOf: EventOf): MessageRow[] {
    return rows.filter((row) => this.#change(row.id, eventOf(row)).kind === 'written')
  }

  /** Writes what the event changes, and returns it after the change. */
  #write (rows: readonly MessageRow[], eventOf: EventOf): MessageRow[] {
    return rows.flatMap((row) => {
      const change = this.#change(row.id, eventOf(row))
      if (change.kind !== 'written') return []
      this.#save(change.row)
      // A message that no longer blocks passes the turn to the next one of its group.
      if (!blocks(change.row)) this.#call(change.row.group)
      return [change.row]
    })
  }

  #save (row: MessageRow): void {
    const violated = violation(row)
    if (violated !== null) throw new TypeError(violated)
    this.#messages.set(nameOf(row.id), row)
  }

  #list ({ id, attempt }: MessageRow, error: string | null, reply: Reply): void {
    const listed = this.#deliveries.get(nameOf(id)) ?? []
    this.#deliveries.set(nameOf(id), listedOf([...listed, { attempt, atMs: this.#nowMs(), error, ...reply }]))
  }

  #call (group: Buffer | null): void {
    if (group === null) return
    for (const { row, event } of turnsOf(this.#groupOf(group))) for (const called of this.#write([row], () => event)) this.#holdBack(called)
  }

  /** Oldest first. */
  #keptBy (route: string): Array<{ readonly row: MessageRow, readonly bytes: number, readonly untilMs: number }> {
    return this.#all()
      .filter(({ about }) => about.route === route)
      .flatMap((row) => row.requestUntilMs === null ? [] : [{ row, bytes: row.bytes, untilMs: row.requestUntilMs }])
      .sort((one, other) => one.untilMs - other.untilMs)
  }

  #byHand (action: 'retry' | 'discard' | 'replay', filter: MessageFilter, audit: MessageAudit): MessageDetail[] {
    const event: MessageEvent = { kind: action }
    const changed = this.#write(this.#changing(this.#matching(filter), () => event).slice(0, filter.limit), () => event)
    for (const { id, group } of changed) {
      this.audits.push({ ...audit, action, id })
      this.#call(group)
    }
    return changed.map((row) => detailOf(this.#messages.get(nameOf(row.id)) ?? row))
  }

  #groupOf (group: Buffer): MessageRow[] {
    return this.#all().filter((row) => row.group?.equals(group) === true)
  }

  #isPaused (row: MessageRow): boolean {
    return this.#pausedUntilMs(row) > this.#nowMs()
  }

  /** It is not due before the end of a pause of its tenant. */
  #holdBack (row: MessageRow): void {
    const untilMs = this.#pausedUntilMs(row)
    if (untilMs > this.#nowMs()) this.#write([row], () => ({ kind: 'postpone', untilMs }))
  }

  #pausedUntilMs ({ tenant }: MessageRow): number {
    return tenant === null ? 0 : this.#pauses.get(nameOf(tenant)) ?? 0
  }

  #hasItsTurn (row: MessageRow): boolean {
    return row.group === null || hasItsTurn(row, this.#groupOf(row.group))
  }

  #acceptanceOf (message: NewMessage): MessageEvent {
    const isBehind = message.group !== null && this.#groupOf(message.group).some(blocks)
    return { kind: 'accept', message, number: this.#numbers + 1, isBehind }
  }

  #seen ({ id }: NewMessage): AcceptResult {
    const found = this.#messages.get(nameOf(id))
    if (found === undefined) throw new TypeError('the table accepts a message where none stands')
    return { kind: 'seen', message: detailOf(found) }
  }

  /** For a message that the table accepts. */
  #entranceOf (message: NewMessage): AcceptResult {
    if (this.#isRecorded(message)) return { kind: 'recorded' }
    return { kind: this.#isMoved(message) ? 'moved' : 'accepted' }
  }

  #isRecorded (message: NewMessage): boolean {
    const { id, underClaim } = message
    if (this.#records === null) return false
    return underClaim === undefined ? this.#records.isRecorded(id) : !this.#records.isClaimed({ id: claimedId(message), ...underClaim })
  }

  /** As for a claim (record-table.ts). */
  #isMoved ({ scheme, earlierId, underClaim }: NewMessage): boolean {
    if (underClaim !== undefined) return false
    if (this.#records !== null && scheme !== this.#records.scheme) return true
    return earlierId !== null && (this.#records?.isRecorded(earlierId) === true || this.#unexpired(earlierId) !== null)
  }

  #put (message: NewMessage): void {
    const { id, earlierId, underClaim } = message
    if (earlierId !== null && underClaim === undefined) {
      this.#records?.forget(earlierId)
      this.#forget(earlierId)
    }
    const change = this.#change(id, this.#acceptanceOf(message))
    if (change.kind !== 'written') throw new TypeError('a message stands where none stood')
    this.#numbers = change.row.number
    // An expired message makes room, and the new one comes last.
    this.#remove(id)
    this.#save(change.row)
    this.#holdBack(change.row)
  }

  #isSwept (id: Buffer): boolean {
    return this.#change(id, { kind: 'sweep' }).kind === 'removed'
  }

  #forget (id: Buffer): void {
    if (this.#isSwept(id)) this.#remove(id)
  }

  #remove (id: Buffer): void {
    this.#messages.delete(nameOf(id))
    this.#deliveries.delete(nameOf(id))
  }

  #unexpired (id: Buffer): MessageDetail | null {
    const found = this.#messages.get(nameOf(id))
    return found === undefined || isPast(found, this.#overMs()) ? null : detailOf(found)
  }

  #overMs (): number {
    return Math.min(this.#nowMs(), this.#believedMs() ?? Infinity)
  }

  #matching ({ id, keyHashes, route, state, attempt, olderMs }: MessageFilter): MessageRow[] {
    const until = olderMs === undefined ? Infinity : this.#nowMs() - olderMs
    return this.#all().filter((row) => !isPast(row, this.#overMs()) && row.receivedAtMs <= until &&
      (id === undefined || row.id.equals(id)) && (keyHashes === undefined || keyHashes.some((each) => each.equals(row.about.keyHash))) &&
      (route === undefined || row.about.route === route) && (state === undefined || row.state === state) &&
      (attempt === undefined || row.attempt === attempt))
  }
}

function nameOf (id: Buffer): string {
  return id.toString('latin1')
}

function heldOf ({ id, attempt, tries, about: { route, requestId } }: MessageRow): HeldMessage {
  return { id, route, requestId, attempt, tries }
}

function bytesOf (rows: readonly MessageRow[]): number {
  return rows.reduce((sum, { bytes }) => sum + bytes, 0)
}

function kindOf ({ group }: MessageRow): Kind {
  return group === null ? 'single' : 'group'
}

function byTime (one: MessageRow, other: MessageRow): number {
  return (one.dueAtMs ?? 0) - (other.dueAtMs ?? 0) || one.number - other.number
}
