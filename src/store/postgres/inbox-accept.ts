/**
 * Accepting messages: inserted in the order of their ids, numbered in the order of their arrival. An existing message is looked
 * at, and an expired one makes room.
 */
import type { MessageDetail, NewMessage } from '../../core/inbox/message.ts'
import type { AcceptResult } from '../../ports/inbox.ts'
import { byteas, texts } from './arrays.ts'
import { hex, type Outcome } from './batching.ts'
import { movedOf } from './claims.ts'
import type { Session } from './statements.ts'
import { doubted } from './durable.ts'
import { isUniqueViolation, RolledBack } from './faults.ts'
import { hasEarlier } from './identities.ts'
import {
  arrivalOf,
  MESSAGE_ACCEPT,
  MESSAGE_ACCEPT_ALL,
  MESSAGE_ACCEPT_ALL_BESIDES,
  MESSAGE_ACCEPT_BESIDES,
  MESSAGE_FORGET,
  MESSAGE_LOOK,
  MESSAGE_LOOK_DURABLY,
  MESSAGE_REFUSED,
  valuesOf,
  type Arrival
} from './inbox-arrivals.ts'
import { toMessage, type MessageColumns } from './inbox-rows.ts'

/** Groups whose turn may have to be called, as hex: the statement saw an earlier message, or deleted one. */
export type Groups = Set<string>

/**
 * A row may vanish between the insert that lost and the look, or expire. Each round is some round trips. Three in a row are no
 * accident.
 */
const ROUNDS_MAX = 3
/** In a batch any of many rows may do so. */
const WHOLE_ROUNDS_MAX = 10

interface Inserted { readonly id: string, readonly behind: string | null }

/** By id as hex, without expired ones. A doubtful one is no reason for a 202. */
export async function lookAtMessages (session: Session, ids: readonly Buffer[]): Promise<Map<string, MessageDetail>> {
  return (await look(session, ids)).standing
}

/** The same. The messages survive any promotion that loses no acknowledged commit (durable.ts). */
export async function lookAtMessagesDurably (session: Session, ids: readonly Buffer[]): Promise<Map<string, MessageDetail>> {
  const rows = await session.run<MessageColumns & { readonly horizon: string }>(MESSAGE_LOOK_DURABLY, [byteas(ids)])
  for (const { horizon } of rows.slice(0, 1)) session.horizon.reached(horizon)
  return new Map(rows.map((row) => [hex(row.id), toMessage(row)]))
}

async function look (
  session: Session,
  ids: readonly Buffer[]
): Promise<{ readonly standing: Map<string, MessageDetail>, readonly past: Buffer[] }> {
  const rows = await session.run<MessageColumns & { readonly past: boolean, readonly may_be_lost: boolean }>(
    MESSAGE_LOOK,
    [byteas(ids), session.horizon.value]
  )
  return {
    standing: new Map(rows.filter(({ past }) => !past).map((row) => [hex(row.id), doubted(toMessage(row), row)])),
    past: rows.filter(({ past }) => past).map(({ id }) => id)
  }
}

/** If the first insert fails, the whole batch fails. */
export async function acceptEach (session: Session, arrivals: readonly Arrival[], groups: Groups): Promise<Array<Outcome<AcceptResult>>> {
  const outcomes = new Map<string, Outcome<AcceptResult>>()
  await insertOnce(session, arrivals, outcomes, groups)
  return acceptOthers(session, arrivals, outcomes, groups)
}

/**
 * After an insert. `inserted`: ids as hex. From here on, steps fail for single items: they must not put in doubt what was already
 * accepted.
 */
export async function acceptRest (
  session: Session,
  arrivals: readonly Arrival[],
  inserted: readonly string[],
  groups: Groups
): Promise<Array<Outcome<AcceptResult>>> {
  return acceptOthers(session, arrivals, new Map(inserted.map((id) => [id, ACCEPTED])), groups)
}

export const ACCEPTED: Outcome<AcceptResult> = { result: { kind: 'accepted' } }

/** Those without an outcome. */
async function acceptOthers (
  session: Session,
  arrivals: readonly Arrival[],
  outcomes: Map<string, Outcome<AcceptResult>>,
  groups: Groups
): Promise<Array<Outcome<AcceptResult>>> {
  const openOf = (): Arrival[] => arrivals.filter((arrival) => !outcomes.has(idText(arrival)))
  let open = openOf()
  try {
    for (let round = 1; open.length > 0; round++) {
      const { standing, past } = await look(session, open.map(({ message }) => message.id))
      for (const [id, message] of standing) outcomes.set(id, { result: { kind: 'seen', message } })
      open = openOf()
      if (open.length === 0) break
      for (const [id, result] of await refusals(session, open.map(({ message }) => message), past)) outcomes.set(id, { result })
      open = openOf()
      if (open.length === 0) break
      if (round === ROUNDS_MAX) {
        throw new RolledBack('message_accept', new Error('a message came and went between every insert and the look after it'))
      }
      await forget(session, past, groups)
      await insertOnce(session, open, outcomes, groups)
      open = openOf()
    }
  } catch (error) {
    for (const arrival of open) outcomes.set(idText(arrival), { error })
  }
  return arrivals.map((arrival) => outcomes.get(idText(arrival)) ?? { error: new Error('an acceptance without an outcome') })
}

/** By id as hex. Under a claim, only an expired message in `past` can keep a message out while the claim stands. */
async function refusals (
  session: Session,
  messages: readonly NewMessage[],
  past: readonly Buffer[] = []
): Promise<Map<string, AcceptResult>> {
  const refused = new Map<string, AcceptResult>()
  for (const { id, underClaim } of messages) {
    if (underClaim !== undefined && !past.some((each) => each.equals(id))) refused.set(hex(id), { kind: 'recorded' })
  }
  const unclaimed = messages.filter(({ underClaim }) => underClaim === undefined)
  if (unclaimed.length === 0) return refused
  const rows = await session.run<{ id: string, recorded: boolean }>(MESSAGE_REFUSED, [
    byteas(unclaimed.map(({ id }) => id)),
    texts(unclaimed.map(({ about }) => about.route))
  ])
  const moved = await movedOf(session, unclaimed)
  for (const id of moved) refused.set(id, { kind: 'moved' })
  // A record under the id itself goes before a record or message under the earlier id. After 'moved' the route is tested again.
  for (const { id, recorded } of rows) if (recorded || !refused.has(id)) refused.set(id, { kind: recorded ? 'recorded' : 'contended' })
  return refused
}

async function insertOnce (
  session: Session,
  arrivals: readonly Arrival[],
  outcomes: Map<string, Outcome<AcceptResult>>,
  groups: Groups
): Promise<void> {
  const inserted = await session.run<Inserted>(
    hasEarlier(arrivals.map(({ message }) => message)) ? MESSAGE_ACCEPT_BESIDES : MESSAGE_ACCEPT,
    valuesOf(arrivals, session.lockTimeout)
  )
  for (const { id } of inserted) outcomes.set(id, ACCEPTED)
  addGroups(groups, inserted)
}

/** A call. `number`: the order of its arrival in this process, as for a single message. Those of its messages follow. */
export interface WholeCall { readonly messages: readonly NewMessage[], readonly number: number }

/**
 * Several calls, each of which is accepted as a whole. Those of which nothing stands yet share a statement. If it writes nothing, because
 * something stands in the way of one of them, each is tried alone. From then on they fail one by one: what was accepted stays so.
 */
export async function acceptWhole (
  session: Session,
  calls: readonly WholeCall[],
  groups: Groups
): Promise<Array<Outcome<AcceptResult[]>>> {
  // The lane sorts them by their ids.
  const inTurn = calls.toSorted((one, other) => one.number - other.number)
  const fresh = calls.length > 1 ? await acceptFresh(session, inTurn, groups) : new Set<WholeCall>()
  const outcomes = new Map<WholeCall, Outcome<AcceptResult[]>>()
  for (const call of inTurn) {
    const { messages, number } = call
    outcomes.set(call, fresh.has(call)
      ? { result: messages.map(() => ({ kind: 'accepted' })) }
      : await acceptAll(session, messages, groups, number).then((result) => ({ result }), (error: unknown) => ({ error })))
  }
  return calls.map((call) => outcomes.get(call) ?? { error: new Error('a call without an outcome') })
}

/** Returns the calls that it accepted. */
async function acceptFresh (session: Session, calls: readonly WholeCall[], groups: Groups): Promise<ReadonlySet<WholeCall>> {
  const { standing, past } = await look(session, calls.flatMap(({ messages }) => messages.map(({ id }) => id)))
  const isOld = new Set([...standing.keys(), ...past.map(hex)])
  const fresh = calls.filter(({ messages }) => !messages.some(({ id, underClaim }) => underClaim !== undefined || isOld.has(hex(id))))
  const arrivals = fresh.flatMap(({ messages, number }) => numbered(messages, number))
  if (arrivals.length === 0) return new Set()
  try {
    return await insertAll(session, arrivals, groups) === arrivals.length ? new Set(fresh) : new Set()
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    return new Set()
  }
}

/** All of them, or none. Returns how many. */
async function insertAll (session: Session, arrivals: readonly Arrival[], groups: Groups): Promise<number> {
  const inserted = await session.run<Inserted>(
    hasEarlier(arrivals.map(({ message }) => message)) ? MESSAGE_ACCEPT_ALL_BESIDES : MESSAGE_ACCEPT_ALL,
    valuesOf(arrivals, session.lockTimeout)
  )
  addGroups(groups, inserted)
  return inserted.length
}

/**
 * Accepts all missing messages in one statement that any conflict undoes. Accepts none if another request has one of the ids.
 */
export async function acceptAll (
  session: Session,
  messages: readonly NewMessage[],
  groups: Groups,
  number = 0
): Promise<AcceptResult[]> {
  for (let round = 1; ; round++) {
    // First, so that as little as possible changes between the look and the insert.
    const refused = await refusals(session, messages.filter(({ underClaim }) => underClaim === undefined))
    const { standing, past } = await look(session, messages.map(({ id }) => id))
    const results = messages.map((message): AcceptResult => {
      const found = foundOf(standing, message)
      return found !== undefined ? { kind: 'seen', message: found } : refused.get(hex(message.id)) ?? { kind: 'accepted' }
    })
    const isForeign = messages.some((message) => isOtherRequest(foundOf(standing, message), message))
    const missing = messages.filter((message) => foundOf(standing, message) === undefined)
    const isRecorded = missing.some(({ id }) => refused.has(hex(id)))
    if (isForeign || isRecorded || missing.length === 0) return results
    await forget(session, past, groups)
    try {
      // If none was inserted, a record has come between, or a gateway that executes.
      if (await insertAll(session, numbered(missing, number), groups) === missing.length) return results
      // Or the claim is over. Whatever has come between, nothing is accepted under it any more.
      if (missing.some(({ underClaim }) => underClaim !== undefined)) {
        return results.map((result) => result.kind === 'accepted' ? { kind: 'recorded' } : result)
      }
      if (round === WHOLE_ROUNDS_MAX) {
        throw new RolledBack('message_accept_all', new Error('records came and went between every look and the insert after it'))
      }
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      if (round === WHOLE_ROUNDS_MAX) throw new RolledBack('message_accept_all', error)
    }
  }
}

function numbered (messages: readonly NewMessage[], number: number): Arrival[] {
  return messages.map((message, index) => arrivalOf(message, number + index))
}

/** The one that keeps this message out. `standing`: by id as hex. */
function foundOf (
  standing: ReadonlyMap<string, MessageDetail>,
  { id, alongside }: Pick<NewMessage, 'id' | 'alongside'>
): MessageDetail | undefined {
  return (alongside === undefined ? undefined : standing.get(hex(alongside))) ?? standing.get(hex(id))
}

function isOtherRequest (found: MessageDetail | undefined, { fingerprint }: NewMessage): boolean {
  return found !== undefined && (found.fingerprint.alg !== fingerprint.alg || !found.fingerprint.value.equals(fingerprint.value))
}

async function forget (session: Session, past: readonly Buffer[], groups: Groups): Promise<void> {
  if (past.length === 0) return
  addGroups(groups, await session.run<Pick<Inserted, 'behind'>>(MESSAGE_FORGET, [byteas(past), session.lockTimeout]))
}

export function addGroups (groups: Groups, rows: ReadonlyArray<{ readonly behind: string | null }>): void {
  for (const { behind } of rows) if (behind !== null) groups.add(behind)
}

export function idText ({ message }: Pick<Arrival, 'message'>): string { return hex(message.id) }
