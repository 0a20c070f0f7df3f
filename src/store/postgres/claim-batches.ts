/** Batches of claims: the statements of one batch, on one connection, and the outcome of each claim in it. */
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { Claim, Row } from '../../core/record/record.ts'
import { StoreUnavailable } from '../../ports/errors.ts'
import type { ClaimReply, ClaimResult, TakeResult } from '../../ports/records.ts'
import { Batcher } from '../shared/batcher.ts'
import { BATCHING, hex, idBytes, idText, MS_PER_PARALLEL_BATCH, type Outcome } from './batching.ts'
import {
  confirmClaims,
  INSERT_OWN,
  insertClaims,
  lookAt,
  lookDurably,
  movedOf,
  outdatedOf,
  takeClaims,
  type TakeOrder
} from './claims.ts'
import type { Connections } from './connections.ts'
import type { Session } from './statements.ts'
import { HeldLane, type Written } from './held-lane.ts'
import { hasEarlier } from './identities.ts'
import { provenRolledBack } from './faults.ts'
import { lookAtMessages } from './inbox-accept.ts'

/**
 * Insert batches in flight at once, where a commit takes long. Four hide a commit of 3 ms behind the others'. More would only wait for
 * the same disk. Takes, confirms, looks and looks that write have one connection each beside them.
 */
export const INSERT_BATCHES_MAX = 4
export const CLAIM_CONNECTIONS = INSERT_BATCHES_MAX + 4

export interface ClaimBatchers {
  readonly takes: Batcher<TakeOrder, TakeResult>
  readonly confirms: Batcher<Claim, Outcome<ClaimResult>>
  readonly looks: Batcher<Buffer, Row | null>
  /** Looks that write (durable.ts), on their own: a commit that hangs must not hold up looks that need none. */
  readonly proofs: Batcher<Buffer, Row | null>
}

export function claimBatchers (claims: Connections): ClaimBatchers {
  return {
    takes: new Batcher({
      ...BATCHING,
      name: 'takes',
      idOf: ({ claim }) => idText(claim),
      run: (batch) => claims.use('claim_take', (session) => takeAll(session, batch))
    }),
    confirms: new Batcher<Claim, Outcome<ClaimResult>>({
      ...BATCHING,
      name: 'confirms',
      idOf: idText,
      run: (batch) => claims.use('claim_confirm', (session) => claimAll(session, batch, confirmWon))
    }),
    looks: new Batcher({
      ...BATCHING,
      name: 'looks',
      idOf: hex,
      run: (batch) => claims.use('claim_look', async (session) => inOrder(batch, await lookAt(session, batch)))
    }),
    proofs: new Batcher({
      ...BATCHING,
      name: 'looks that write',
      idOf: hex,
      run: (batch) => claims.use('claim_look_durably', async (session) => inOrder(batch, await lookDurably(session, batch)))
    })
  }
}

export type ClaimLane = HeldLane<Claim, Outcome<ClaimResult>, ClaimReply>

export function claimLane (connections: Connections, succeed: (reply: ClaimReply, outcome: Outcome<ClaimResult>) => void): ClaimLane {
  return new HeldLane({
    ...BATCHING,
    name: 'claims',
    batchesMax: INSERT_BATCHES_MAX,
    msPerParallelBatch: MS_PER_PARALLEL_BATCH,
    idOf: idBytes,
    succeed,
    fail: (reply, error) => { reply.claimFailed(error) },
    connections,
    statement: INSERT_OWN,
    isUsual: (claims) => !hasEarlier(claims),
    written: () => WON,
    finish: claimRest,
    afterNothing: lookThenClaim,
    otherwise: (session, claims) => claimAll(session, claims, insertWon)
  })
}

const WON: Outcome<ClaimResult> = { result: { kind: 'won', attempt: 1 } }

/**
 * Fewer rows were inserted than asked for. The inserted ones have their claim's own owner, which nobody else has drawn, and their number
 * is the row count. If more rows have it, an earlier insert without a reply has written one of them. Then all of them are in doubt, and
 * so they are if the look fails.
 */
async function claimRest (session: Session, claims: readonly Claim[], count: number): Promise<Array<Outcome<ClaimResult>>> {
  const outcomes = new Map<string, Outcome<ClaimResult>>()
  try {
    await lookAtLost(session, claims, outcomes)
  } catch (error) {
    return claims.map(() => ({ error: unseen(error) }))
  }
  const mine = count === 0 ? [] : claims.filter((claim) => isOwn(claim, outcomes.get(idText(claim))))
  const won = mine.length === count ? WON : { error: new StoreUnavailable('postgres', 'claim_insert', true, SEVERAL) }
  for (const claim of mine) outcomes.set(idText(claim), won)
  return finishClaims(session, claims, insertWon, outcomes)
}

/**
 * Nothing of the batch before was inserted: retries are what comes, so the look goes first. What it does not find is claimed as ever. If
 * it fails, its claims are in doubt like those of an insert: most of them have a row, so nothing may conclude that there is none. A row
 * that it has found is an outcome, whatever becomes of the others.
 */
async function lookThenClaim (session: Session, claims: readonly Claim[]): Promise<Written<Outcome<ClaimResult>>> {
  const outcomes = new Map<string, Outcome<ClaimResult>>()
  try {
    await lookAtLost(session, claims, outcomes)
  } catch (error) {
    return { results: claims.map(() => ({ error: unseen(error) })), wroteNothing: false }
  }
  const wroteNothing = outcomes.size === claims.length
  const rest = claims.filter((claim) => !outcomes.has(idText(claim)))
  const results = wroteNothing ? [] : await claimOrFail(session, rest)
  rest.forEach((claim, index) => outcomes.set(idText(claim), results[index] as Outcome<ClaimResult>))
  return { results: claims.map((claim) => outcomes.get(idText(claim)) as Outcome<ClaimResult>), wroteNothing }
}

async function claimOrFail (session: Session, claims: readonly Claim[]): Promise<Array<Outcome<ClaimResult>>> {
  try {
    return await claimAll(session, claims, insertWon)
  } catch (error) {
    return claims.length > 1 && provenRolledBack(error) ? claimEach(session, claims) : claims.map(() => ({ error }))
  }
}

/** As a lane does it after a failure that is certain: one by one, until nothing is certain any more. */
async function claimEach (session: Session, claims: readonly Claim[]): Promise<Array<Outcome<ClaimResult>>> {
  const outcomes: Array<Outcome<ClaimResult>> = []
  for (const claim of claims) {
    const last = outcomes.at(-1)
    const isLost = last !== undefined && 'error' in last && !provenRolledBack(last.error)
    outcomes.push(...isLost ? [last] : await claimOrFail(session, [claim]))
  }
  return outcomes
}

function isOwn ({ owner }: Claim, outcome: Outcome<ClaimResult> | undefined): boolean {
  return outcome !== undefined && 'result' in outcome && outcome.result.kind === 'seen' && outcome.result.row.owner.equals(owner)
}

const SEVERAL = new Error('the rows of these claims are not those that were inserted')

/** A row may vanish between the insert that lost and the look. Each round is one round trip. Three in a row are no accident. */
const ROUNDS_MAX = 3

/** Writes claims and returns the attempts of those that were won: insert or confirm. */
type WriteClaims = (session: Session, claims: readonly Claim[]) => Promise<Map<string, number>>

const insertWon: WriteClaims = async (session, claims) =>
  new Map((await insertClaims(session, claims)).map((id) => [id, 1]))

const confirmWon: WriteClaims = async (session, claims) =>
  new Map((await confirmClaims(session, claims)).map(({ id, attempt }) => [id, attempt]))

/**
 * If the first write fails, the whole batch fails. Later steps fail for single items: a look that breaks must not put claims in
 * doubt that were already won.
 */
async function claimAll (session: Session, claims: readonly Claim[], write: WriteClaims): Promise<Array<Outcome<ClaimResult>>> {
  const outcomes = new Map<string, Outcome<ClaimResult>>()
  const open = await writeOnce(session, claims, write, outcomes)
  try {
    await lookAtLost(session, open, outcomes)
  } catch (error) {
    for (const claim of open) outcomes.set(idText(claim), { error: unseen(error) })
  }
  return finishClaims(session, claims, write, outcomes)
}

async function lookAtLost (session: Session, claims: readonly Claim[], outcomes: Map<string, Outcome<ClaimResult>>): Promise<void> {
  if (claims.length === 0) return
  for (const row of await lookAt(session, claims.map(({ id }) => id))) outcomes.set(hex(row.id), { result: { kind: 'seen', row } })
}

/** For the claims without an outcome no row was found. */
async function finishClaims (
  session: Session,
  claims: readonly Claim[],
  write: WriteClaims,
  outcomes: Map<string, Outcome<ClaimResult>>
): Promise<Array<Outcome<ClaimResult>>> {
  const openOf = (): Claim[] => claims.filter((claim) => !outcomes.has(idText(claim)))
  let open = openOf()
  try {
    for (let round = 1; open.length > 0; round++) {
      for (const [id, message] of await lookAtMessages(session, open.map(({ id }) => id))) {
        outcomes.set(id, { result: { kind: 'message', message } })
      }
      open = openOf()
      if (open.length === 0) break
      for (const id of await movedOf(session, open)) outcomes.set(id, { result: { kind: 'moved' } })
      open = openOf()
      if (open.length === 0) break
      if (round === ROUNDS_MAX) throw new Error('a row came and went between every insert and the look after it')
      await lookAtLost(session, await writeOnce(session, open, write, outcomes), outcomes)
      open = openOf()
    }
  } catch (error) {
    for (const claim of open) outcomes.set(idText(claim), { error: unseen(error) })
  }
  return claims.map((claim) => outcomes.get(idText(claim)) ?? { error: new Error('a claim without an outcome') })
}

/** A row blocked the insert. Whatever the look at it found, nothing may conclude that there is no row. */
export function unseen (error: unknown): unknown {
  return error instanceof StoreUnavailable ? new StoreUnavailable('postgres', 'claim_look', true, error, error.answered) : error
}

async function writeOnce (
  session: Session,
  claims: readonly Claim[],
  write: WriteClaims,
  outcomes: Map<string, Outcome<ClaimResult>>
): Promise<readonly Claim[]> {
  const won = await write(session, claims)
  for (const [id, attempt] of won) outcomes.set(id, { result: { kind: 'won', attempt } })
  return won.size === claims.length ? [] : claims.filter((claim) => !won.has(idText(claim)))
}

async function takeAll (session: Session, orders: readonly TakeOrder[]): Promise<TakeResult[]> {
  const won = new Map((await takeClaims(session, orders)).map(({ id, attempt }) => [id, attempt]))
  const lost = orders.map(({ claim }) => claim).filter((claim) => !won.has(idText(claim)))
  // A look that breaks must not put won takes in doubt. A take that lost without a reason looks at the row again.
  const messages = lost.length === 0 ? NO_MESSAGES : await lookAtMessages(session, lost.map(({ id }) => id)).catch(() => NO_MESSAGES)
  const outdated = lost.length === 0 ? [] : await outdatedOf(session, lost).catch(() => [])
  return orders.map(({ claim }): TakeResult => {
    const attempt = won.get(idText(claim))
    if (attempt !== undefined) return { kind: 'won', attempt }
    const message = messages.get(idText(claim))
    if (message !== undefined) return { kind: 'message', message }
    return { kind: outdated.includes(claim) ? 'moved' : 'lost' }
  })
}

const NO_MESSAGES: ReadonlyMap<string, MessageDetail> = new Map()

function inOrder (ids: readonly Buffer[], found: readonly Row[]): Array<Row | null> {
  const rows = new Map(found.map((row) => [hex(row.id), row]))
  return ids.map((id) => rows.get(hex(id)) ?? null)
}
