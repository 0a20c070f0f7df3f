/**
 * The inbox in memory: what a driver must do, in the fewest words. For tests and for the conformance suite's own sake; a
 * gateway's inbox is in its database.
 */
import { WORKER_LOST } from '../core/message.ts'
import type { Delivery, DeliveryToken, Depth, Fate, MessageDetail, NewMessage } from '../core/message.ts'
import type { Token } from '../core/record.ts'
import type { AcceptResult, InboxStore, MessageAudit, MessageFilter, Recovered, TakeMessages } from '../ports.ts'
import type { BesideRecords } from './memory.ts'
import { errorOfRetried } from './message-fate.ts'
import { fitting } from './message-room.ts'

type Message = { -readonly [Name in keyof MessageDetail]: MessageDetail[Name] } & { given: NewMessage, readonly number: number, owner: Buffer | null, blocks: boolean, retriedAtMs: number | null }

/** The records in memory beside it. */
interface BesideMemory {
  readonly isRecorded: (id: Buffer) => boolean
  readonly isClaimed: (token: Token) => boolean
  readonly forget: (id: Buffer) => void
  readonly scheme: number
  beside: BesideRecords
}

export class MemoryInbox implements InboxStore {
  readonly audits: Array<MessageAudit & { readonly action: 'retry' | 'discard', readonly id: Buffer }> = []
  readonly #nowMs: () => number
  readonly #believedMs: () => number | null
  readonly #messages = new Map<string, Message>()
  readonly #workers = new Map<string, number>()
  readonly #records: BesideMemory | null
  #numbers = 0

  /** `records`: of the same gateway; each tests the other's from now on. */
  constructor ({ nowMs, believedMs = () => null, records = null }: { readonly nowMs: () => number, readonly believedMs?: () => number | null, readonly records?: BesideMemory | null }) {
    this.#nowMs = nowMs
    this.#believedMs = believedMs
    this.#records = records
    if (records === null) return
    records.beside = {
      messageOf: (id) => this.#told(id),
      forget: (id) => { this.#messages.delete(nameOf(id)) },
      standing: () => this.#all().map((message) => ({ ...message.given, past: this.#isPast(message) }))
    }
  }

  async accept (message: NewMessage): Promise<AcceptResult> {
    const [result] = await this.acceptAll([message])
    return result as AcceptResult
  }

  async acceptAll (messages: readonly NewMessage[]): Promise<AcceptResult[]> {
    const recorded = messages.map((message) => this.#isRecorded(message))
    const standing = messages.map(({ id }) => this.#standing(id))
    const moved = messages.map((message) => this.#isMoved(message))
    const none = messages.some((_, index) => (recorded[index] === true || moved[index] === true) && standing[index] === null) || standing.some((found, index) => found !== null && !sameFingerprint(found, messages[index] as NewMessage))
    return messages.map((message, index): AcceptResult => {
      const found = this.#standing(message.id)
      if (found !== null) return { kind: 'seen', message: detailOf(found) }
      if (recorded[index] === true) return { kind: 'recorded' }
      if (moved[index] === true) return { kind: 'moved' }
      // None of them: told as if it were not there, because it is not.
      if (!none) this.#put(message)
      return { kind: 'accepted' }
    })
  }

  #isRecorded ({ id, underClaim }: NewMessage): boolean {
    if (this.#records === null) return false
    return underClaim === undefined ? this.#records.isRecorded(id) : !this.#records.isClaimed({ id, ...underClaim })
  }

  /** As a claim is (ledger.ts). */
  #isMoved ({ scheme, earlierId, underClaim }: NewMessage): boolean {
    if (underClaim !== undefined) return false
    if (this.#records !== null && scheme !== this.#records.scheme) return true
    return earlierId !== null && (this.#records?.isRecorded(earlierId) === true || this.#standing(earlierId) !== null)
  }

  async look (id: Buffer): Promise<MessageDetail | null> {
    return this.#told(id)
  }

  async alive (owner: Buffer, leaseMs: number): Promise<void> {
    this.#workers.set(nameOf(owner), this.#nowMs() + leaseMs)
  }

  async gone (owner: Buffer): Promise<void> {
    this.#workers.delete(nameOf(owner))
  }

  async take ({ routes, owner, room }: TakeMessages): Promise<Delivery[]> {
    if (!this.#lives(owner)) return []
    const due = routes.flatMap(({ route, places }) => this.#due(route).filter((message) => this.#hasItsTurn(message)).slice(0, places)).sort(byTime)
    return fitting(due, room).map((message) => {
      Object.assign(message, { state: 'delivering', owner, attempt: message.attempt + 1, tries: message.tries + 1, dueAtMs: null })
      return this.#delivery(message, owner)
    })
  }

  async settle ({ id, owner, attempt }: DeliveryToken, fate: Fate): Promise<boolean> {
    const message = this.#messages.get(nameOf(id))
    if (message?.state !== 'delivering' || message.attempt !== attempt || message.owner?.equals(owner) !== true) return false
    const now = this.#nowMs()
    message.owner = null
    message.status = fate.kind === 'held' ? null : fate.status
    message.error = fate.kind === 'delivered' ? null : fate.error
    if ('counts' in fate && fate.counts === false) message.tries--
    if (fate.kind === 'again') Object.assign(message, { state: 'waiting', dueAtMs: now + fate.inMs })
    else this.#end(message, fate.kind, fate.kind === 'held' ? null : fate.answer)
    return true
  }

  async recover (limit: number): Promise<Recovered> {
    const lost = this.#all().filter((message) => message.state === 'delivering' && message.owner !== null && !this.#lives(message.owner)).slice(0, limit)
    for (const message of lost) {
      Object.assign(message, { owner: null, error: WORKER_LOST, status: null })
      if (message.given.holds) this.#end(message, 'held', null)
      else Object.assign(message, { state: 'waiting', dueAtMs: this.#nowMs() })
    }
    const held = lost.filter(({ state }) => state === 'held')
    return { count: lost.length, held: held.map(({ id, attempt, tries, about: { route, requestId } }) => ({ id, route, requestId, attempt, tries })) }
  }

  async dueInMs (routes: readonly string[]): Promise<number | null> {
    const due = this.#all().filter((message) => routes.includes(message.about.route) && message.state === 'waiting' && this.#hasItsTurn(message)).map(({ dueAtMs }) => dueAtMs ?? 0)
    return due.length === 0 ? null : Math.max(0, Math.min(...due) - this.#nowMs())
  }

  async depths (): Promise<Depth[]> {
    const routes = new Set(this.#all().filter(({ state }) => state !== 'delivered' && state !== 'discarded').map(({ about }) => about.route))
    return [...routes].map((route) => {
      const mine = this.#all().filter(({ about }) => about.route === route)
      const count = (state: string): number => mine.filter((message) => message.state === state).length
      const open = mine.filter(({ state }) => state === 'waiting' || state === 'delivering' || state === 'held')
      return {
        route,
        waiting: count('waiting'),
        delivering: count('delivering'),
        held: count('held'),
        dead: count('dead'),
        bytes: open.reduce((sum, { bytes }) => sum + bytes, 0),
        oldestMs: open.length === 0 ? null : this.#nowMs() - Math.min(...open.map(({ receivedAtMs }) => receivedAtMs))
      }
    })
  }

  async list (filter: MessageFilter): Promise<MessageDetail[]> {
    return this.#matching(filter).map(detailOf)
  }

  async retry (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#matching(filter, ['waiting', 'held', 'dead']).map((message) => {
      this.audits.push({ ...audit, action: 'retry', id: message.id })
      Object.assign(message, { state: 'waiting', tries: 0, retriedAtMs: this.#nowMs(), blocks: true, dueAtMs: this.#nowMs(), settledAtMs: null, expiresAtMs: null, error: errorOfRetried(message.error) })
      return detailOf(message)
    })
  }

  async discard (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#matching(filter, ['waiting', 'held', 'dead']).map((message) => {
      this.audits.push({ ...audit, action: 'discard', id: message.id })
      this.#end(message, 'discarded', message.answer)
      return detailOf(message)
    })
  }

  async sweep (limit: number): Promise<number> {
    const past = this.#all().filter((message) => this.#isPast(message)).slice(0, limit)
    for (const { id } of past) this.#messages.delete(nameOf(id))
    return past.length
  }

  /** What a database would have of its request; for tests. */
  requestBytes (id: Buffer): number {
    const { target, headers, body } = this.#messages.get(nameOf(id))?.given.request ?? NOTHING
    return target.length + headers.join('').length + body.length
  }

  #all (): Message[] {
    return [...this.#messages.values()]
  }

  #put (given: NewMessage): void {
    const { id, earlierId, underClaim, fingerprint, scopeHash, group, about, request } = given
    const now = this.#nowMs()
    if (earlierId !== null && underClaim === undefined) {
      this.#records?.forget(earlierId)
      this.#messages.delete(nameOf(earlierId))
    }
    this.#messages.set(nameOf(id), {
      given,
      number: ++this.#numbers,
      owner: null,
      blocks: true,
      retriedAtMs: null,
      id,
      state: 'waiting',
      fingerprint,
      scopeHash,
      ordered: group !== null,
      attempt: (underClaim?.attempt ?? 1) - 1,
      tries: 0,
      about,
      bytes: request.body.length,
      receivedAtMs: now,
      dueAtMs: now,
      settledAtMs: null,
      expiresAtMs: null,
      status: null,
      error: null,
      answer: null
    })
  }

  #end (message: Message, state: 'delivered' | 'held' | 'dead' | 'discarded', answer: MessageDetail['answer']): void {
    const { keepMs, deadKeepMs, stops, group } = message.given
    const now = this.#nowMs()
    const blocks = stops && (state === 'held' || state === 'dead')
    if (state === 'delivered') message.given = { ...message.given, request: NOTHING }
    Object.assign(message, { state, answer, blocks, dueAtMs: null, settledAtMs: now, expiresAtMs: blocks && group !== null ? null : now + (state === 'delivered' ? keepMs : deadKeepMs) })
  }

  #told (id: Buffer): MessageDetail | null {
    const found = this.#standing(id)
    return found === null ? null : detailOf(found)
  }

  #standing (id: Buffer): Message | null {
    const found = this.#messages.get(nameOf(id))
    return found === undefined || this.#isPast(found) ? null : found
  }

  #overMs (): number {
    return Math.min(this.#nowMs(), this.#believedMs() ?? Infinity)
  }

  #isPast ({ expiresAtMs }: Message): boolean {
    return expiresAtMs !== null && expiresAtMs <= this.#overMs()
  }

  #lives (owner: Buffer): boolean {
    return (this.#workers.get(nameOf(owner)) ?? 0) > this.#overMs()
  }

  #due (route: string): Message[] {
    return this.#all().filter((message) => message.about.route === route && message.state === 'waiting' && (message.dueAtMs ?? 0) <= this.#nowMs()).sort(byTime)
  }

  /** Nobody before it in its group is open, and nobody of it is being delivered. */
  #hasItsTurn ({ id, number, given: { group } }: Message): boolean {
    if (group === null) return true
    return !this.#all().some((other) => other.given.group?.equals(group) === true && !other.id.equals(id) && other.blocks && (other.number < number || other.state === 'delivering'))
  }

  #delivery ({ id, attempt, tries, about, error, receivedAtMs, retriedAtMs, given: { request } }: Message, owner: Buffer): Delivery {
    return { token: { id, owner, attempt }, route: about.route, tries, ageMs: this.#overMs() - (retriedAtMs ?? receivedAtMs), lastError: error, requestId: about.requestId, request }
  }

  #matching ({ id, keyHashes, route, state, olderMs, limit }: MessageFilter, states?: ReadonlyArray<Message['state']>): Message[] {
    const until = olderMs === undefined ? Infinity : this.#nowMs() - olderMs
    return this.#all().filter((message) => !this.#isPast(message) && (id === undefined || message.id.equals(id)) && (keyHashes === undefined || keyHashes.some((each) => each.equals(message.about.keyHash))) &&
      (route === undefined || message.about.route === route) && (state === undefined || message.state === state) && (states === undefined || states.includes(message.state)) &&
      message.receivedAtMs <= until).slice(0, limit)
  }
}

/** What was delivered is sent by nobody again. */
const NOTHING: NewMessage['request'] = { method: '', target: '', headers: [], body: Buffer.alloc(0) }

function nameOf (id: Buffer): string {
  return id.toString('latin1')
}

function sameFingerprint ({ fingerprint }: Message, message: NewMessage): boolean {
  return fingerprint.alg === message.fingerprint.alg && fingerprint.value.equals(message.fingerprint.value)
}

function detailOf ({ given, number, owner, blocks, retriedAtMs, ...detail }: Message): MessageDetail {
  return detail
}

function byTime (one: Message, other: Message): number {
  return (one.dueAtMs ?? 0) - (other.dueAtMs ?? 0) || one.number - other.number
}
