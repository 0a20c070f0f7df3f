/**
 * The arbiter on Postgres: the lanes, and which connection each statement goes by. Opens nothing (open.ts) and says
 * nothing in SQL (claims.ts, settles.ts, renewals.ts, background.ts, operator.ts).
 */
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { ProbeNote } from '../../core/probe/probe.ts'
import type { Claim, RecordDetail, Row, Seen, Settlement, Token } from '../../core/record/record.ts'
import type { Schemes } from '../../core/record/schemes.ts'
import type { Durability } from '../../core/protocol/durability.ts'
import { StoreUnavailable } from '../../ports/errors.ts'
import type {
  AuditEntry,
  Beaten,
  ClaimResult,
  DueProbe,
  Lapsed,
  LapseOrder,
  LostQuestion,
  MessageStands,
  OperatorResult,
  ProbeOrder,
  RecordFilter,
  RecordStore,
  RenewResult,
  Resolution,
  SettleResult,
  SignOfLife,
  Swept,
  TakeResult
} from '../../ports/records.ts'
import type { RecordCounts } from '../../ports/record-counts.ts'
import type { Unresolved } from '../../ports/telemetry.ts'
import { Batcher } from '../shared/batcher.ts'
import type { TimeSeen } from '../shared/time-seen.ts'
import { countUnresolved, lapseLeases, SWEEP_FROM_START, sweepPast } from './background.ts'
import { beatOnce, readTimeSeen, sweepGateways } from './sign-of-life.ts'
import { confirmClaims, insertClaims, lookAt, lookDurably, movedOf, outdatedOf, takeClaims, type TakeOrder } from './claims.ts'
import type { Connections, Session } from './connections.ts'
import { addCounts, sweepCounts } from './counts.ts'
import { isDoubtful } from './durable.ts'
import { provenRolledBack } from './faults.ts'
import { Line } from './in-line.ts'
import { lookAtMessages } from './inbox-accept.ts'
import { PostgresInbox, type InboxPurposes } from './inbox.ts'
import { expireRecord, listRecords, resolveRecord } from './operator.ts'
import { PostgresMarks, sweepMarks } from './marks.ts'
import { noteProbe, takeProbes } from './probes.ts'
import { PostgresRegistry } from './registry.ts'
import { renewInLine, renewLeases, type Renewal } from './renewals.ts'
import { endEarlierScheme, lostAlgorithms, mayBeLost, readSchemes } from './schemes.ts'
import { insertLost, lookAtRefused, settleRows, type LostOrder } from './settles.ts'
import { StandingReader } from './durability.ts'
import type { PostgresSubscriptions } from './subscriptions.ts'

/** By purpose, so that none ever waits for another (P8). */
export interface Purposes extends InboxPurposes {
  readonly claims: Connections
  readonly settles: Connections
  readonly renewals: Connections
  readonly beats: Connections
  readonly background: Connections
  readonly marks: Connections
}

/**
 * Insert batches under way at once, where a commit takes long; take, confirm and look have one connection each beside
 * them. Four hide a commit of 3 ms behind the others'; more would only wait for the same disk.
 */
export const INSERT_BATCHES_MAX = 4
export const CLAIM_CONNECTIONS = INSERT_BATCHES_MAX + 3
/** Settle batches under way at once, and one connection for settles whose row vanished. */
export const SETTLE_BATCHES_MAX = 4
export const SETTLE_CONNECTIONS = SETTLE_BATCHES_MAX + 1

/** A commit of half a millisecond (a local disk) is best served by one batch at a time, one of 2.4 ms by three or four. */
const BATCH_MS_PER_LANE = 0.8
/** Measured: batches of 32 cost a tenth per row of single ones; beyond 64 the gain is gone and the wait is not. */
const BATCH_MAX = 64
/** A renewal is a few dozen bytes a row, and one round trip must do for all of a process. */
const RENEWALS_MAX = 1_000
/** Above every default limit on executions: the gateway refuses first. */
const QUEUE_MAX = 20_000
/** Answers of a batch of settles: one large one must not hold up the small ones behind it for long. */
const SETTLE_BYTES_MAX = 4 * 1024 * 1024
/** A row may go between the insert that lost and the look. Each round is one round trip; a third in a row is no accident. */
const ROUNDS_MAX = 3

/** What became of one item of a batch that as a whole was acknowledged. */
type Outcome<Result> = { readonly result: Result } | { readonly error: unknown }

export class PostgresRecords implements RecordStore {
  readonly #standing = new StandingReader()
  readonly name = 'postgres'
  readonly installation: string
  readonly marks: PostgresMarks
  readonly inbox: PostgresInbox
  readonly registry: PostgresRegistry
  readonly counts: RecordCounts
  readonly wakes: PostgresSubscriptions
  readonly #purposes: Purposes
  readonly #inserts: Batcher<Claim, Outcome<ClaimResult>>
  readonly #takes: Batcher<TakeOrder, TakeResult>
  readonly #confirms: Batcher<Claim, Outcome<ClaimResult>>
  readonly #looks: Batcher<Buffer, Row | null>
  /** On its own: a commit that hangs holds up no look that needs none. */
  readonly #proofs: Batcher<Buffer, Row | null>
  readonly #renewals: Batcher<Token, Renewal>
  readonly #line: Line<Token>
  readonly #settles: Batcher<Settlement, Outcome<SettleResult>>
  readonly #lost: Batcher<LostOrder, SettleResult>
  #sweepFromMs = SWEEP_FROM_START

  constructor (installation: string, purposes: Purposes, wakes: PostgresSubscriptions) {
    const { claims, settles, renewals, marks, lines } = purposes
    this.installation = installation
    this.#purposes = purposes
    this.wakes = wakes
    this.marks = new PostgresMarks(marks, (limit) => this.#background('mark_sweep', (session) => sweepMarks(session, limit)))
    this.inbox = new PostgresInbox(purposes)
    this.registry = new PostgresRegistry(purposes.background)
    this.counts = {
      add: (counts) => this.#background('counts_add', (session) => addCounts(session, counts)),
      sweep: (limit) => this.#background('counts_sweep', (session) => sweepCounts(session, limit))
    }
    const shared = { batchMax: BATCH_MAX, batchesMax: 1, queueMax: QUEUE_MAX, provenRolledBack }
    this.#inserts = new Batcher<Claim, Outcome<ClaimResult>>({
      ...shared,
      name: 'claims',
      batchesMax: INSERT_BATCHES_MAX,
      batchMsPerLane: BATCH_MS_PER_LANE,
      idOf: idText,
      run: (batch) => claims.use('claim_insert', (session) => claimAll(session, batch, insertWon))
    })
    this.#confirms = new Batcher<Claim, Outcome<ClaimResult>>({
      ...shared,
      name: 'confirms',
      idOf: idText,
      run: (batch) => claims.use('claim_confirm', (session) => claimAll(session, batch, confirmWon))
    })
    this.#takes = new Batcher({
      ...shared,
      name: 'takes',
      idOf: ({ claim }) => idText(claim),
      run: (batch) => claims.use('claim_take', (session) => takeAll(session, batch))
    })
    this.#looks = new Batcher({
      ...shared,
      name: 'looks',
      idOf: hex,
      run: (batch) => claims.use('claim_look', async (session) => inOrder(batch, await lookAt(session, batch)))
    })
    this.#proofs = new Batcher({
      ...shared,
      name: 'looks that write',
      idOf: hex,
      run: (batch) => claims.use('claim_look_durably', async (session) => inOrder(batch, await lookDurably(session, batch)))
    })
    this.#settles = new Batcher({
      ...shared,
      name: 'settles',
      batchesMax: SETTLE_BATCHES_MAX,
      batchMsPerLane: BATCH_MS_PER_LANE,
      idOf: ({ token }) => idText(token),
      bytesOf: answerBytes,
      batchBytesMax: SETTLE_BYTES_MAX,
      run: (batch) => settles.use('settle', (session) => settleAll(session, batch))
    })
    this.#lost = new Batcher({
      ...shared,
      name: 'settles of lost rows',
      batchMax: 1,
      idOf: ({ claim }) => idText(claim),
      run: (batch) => settles.use('settle_lost', (session) => settleLostAll(session, batch))
    })
    this.#renewals = new Batcher<Token, Renewal>({
      ...shared,
      name: 'renewals',
      batchMax: RENEWALS_MAX,
      idOf: idText,
      provenRolledBack: () => false,
      run: (batch) => renewals.use('renew', (session) => renewLeases(session, batch))
    })
    this.#line = new Line<Token>({
      againMs: lines.lockTimeoutMs / 2,
      idOf: idText,
      wait: (tokens) => lines.use('renew_in_line', (session) => renewInLine(session, tokens))
    })
  }

  async insert (claim: Claim): Promise<ClaimResult> { return this.#certain(resultOf(await this.#inserts.push(claim))) }

  async confirm (claim: Claim): Promise<ClaimResult> { return this.#certain(resultOf(await this.#confirms.push(claim))) }

  async take (seen: Seen, claim: Claim, mayRetry: boolean): Promise<TakeResult> {
    const taken = await this.#takes.push({ seen, claim, mayRetry })
    return taken.kind === 'message' ? this.#certainMessage(taken) : taken
  }

  async look (id: Buffer): Promise<Row | null> {
    const row = await this.#looks.push(id)
    return row !== null && mustBeProven(row) ? this.#prove(id) : row
  }

  /** What somebody holds locked is waited for behind this, for as long as it is asked for. */
  async renew (tokens: readonly Token[]): Promise<RenewResult[]> {
    const renewals = await Promise.all(tokens.map((token) => this.#renewals.push(token)))
    this.#line.stand(tokens.filter((_, index) => renewals[index] === 'skipped'))
    return renewals.map((renewal) => renewal === 'none' ? 'skipped' : renewal)
  }

  async settle (settlement: Settlement): Promise<SettleResult> { return resultOf(await this.#settles.push(settlement)) }

  settleLost (settlement: Settlement, claim: Claim, ageMs: number): Promise<SettleResult> {
    return this.#lost.push({ settlement, claim, ageMs })
  }

  lapse (order: LapseOrder): Promise<Lapsed[]> { return this.#background('lapse', (session) => lapseLeases(session, order)) }

  /** A full batch leaves a backlog, which the next one goes on with; after it everything is looked at again, for what was locked. */
  async sweep (limit: number): Promise<Swept[]> {
    const { swept, latestMs } = await this.#background('sweep', async (session) => {
      await sweepGateways(session, limit)
      return sweepPast(session, limit, this.#sweepFromMs)
    })
    const count = swept.reduce((sum, each) => sum + each.count, 0)
    this.#sweepFromMs = count < limit ? SWEEP_FROM_START : latestMs
    return swept
  }

  takeProbes (order: ProbeOrder): Promise<DueProbe[]> { return this.#background('probe_take', (session) => takeProbes(session, order)) }

  noteProbe (note: ProbeNote): Promise<boolean> { return this.#background('probe_note', (session) => noteProbe(session, note)) }

  unresolved (): Promise<Unresolved> { return this.#background('unresolved', countUnresolved) }

  list (filter: RecordFilter): Promise<RecordDetail[]> { return this.#background('list', (session) => listRecords(session, filter)) }

  resolve (resolution: Resolution): Promise<OperatorResult> {
    return this.#background('resolve', (session) => resolveRecord(session, resolution))
  }

  expire (token: Token, audit: AuditEntry): Promise<OperatorResult> {
    return this.#background('expire', (session) => expireRecord(session, token, audit))
  }

  beat (sign: SignOfLife): Promise<Beaten> { return this.#purposes.beats.use('beat', (session) => beatOnce(session, sign)) }

  /** Requests wait for it. */
  schemes (): Promise<Schemes> { return this.#purposes.claims.use('schemes', readSchemes) }

  lostAlgorithms (lost: number, route: string): Promise<number[]> {
    return this.#purposes.claims.use('lost_algorithms', (session) => lostAlgorithms(session, lost, route))
  }

  mayBeLost (question: LostQuestion): Promise<boolean> {
    return this.#purposes.claims.use('lost_question', (session) => mayBeLost(session, question))
  }

  endEarlierScheme (): Promise<void> { return this.#background('scheme_end', endEarlierScheme) }

  /** The database's time, and the last one at which a gateway that found it right has given a sign of life. */
  timeSeen (): Promise<TimeSeen> { return this.#background('time_seen', readTimeSeen) }

  /** What the server's settings leave of the promise, for sessions like the store's own. */
  standing (): Promise<Durability> { return this.#background('standing', async (session) => this.#standing.read(session)) }

  async close (): Promise<void> {
    this.#line.close()
    this.inbox.close()
    await Promise.all([this.wakes, ...Object.values<Connections>({ ...this.#purposes })].map((each) => each.close()))
  }

  async #certain (result: ClaimResult): Promise<ClaimResult> {
    if (result.kind === 'message') return this.#certainMessage(result)
    return result.kind === 'seen' && mustBeProven(result.row) ? { kind: 'seen', row: await found(this.#prove(result.row.id)) } : result
  }

  async #certainMessage (result: MessageStands): Promise<MessageStands> {
    return isDoubtful(result.message) ? { kind: 'message', message: await found(this.inbox.look(result.message.id)) } : result
  }

  async #prove (id: Buffer): Promise<Row | null> {
    try {
      return await this.#proofs.push(id)
    } catch (error) {
      throw unseen(error)
    }
  }

  #background<Result> (operation: string, work: (session: Session) => Promise<Result>): Promise<Result> {
    return this.#purposes.background.use(operation, work)
  }
}

/** Writes claims and answers which were won: insert or confirm. */
type WriteClaims = (session: Session, claims: readonly Claim[]) => Promise<Map<string, number>>

const insertWon: WriteClaims = async (session, claims) =>
  new Map((await insertClaims(session, claims)).map((id) => [id, 1]))

const confirmWon: WriteClaims = async (session, claims) =>
  new Map((await confirmClaims(session, claims)).map(({ id, attempt }) => [id, attempt]))

/**
 * The first write is the batch's: if it fails, all of it fails. What is lost or acknowledged after it is each item's
 * own: a look that breaks must not put claims in doubt that were already won.
 */
async function claimAll (session: Session, claims: readonly Claim[], write: WriteClaims): Promise<Array<Outcome<ClaimResult>>> {
  const outcomes = new Map<string, Outcome<ClaimResult>>()
  let open = await writeOnce(session, claims, write, outcomes)
  try {
    for (let round = 1; open.length > 0; round++) {
      for (const row of await lookAt(session, open.map(({ id }) => id))) outcomes.set(hex(row.id), { result: { kind: 'seen', row } })
      open = open.filter((claim) => !outcomes.has(idText(claim)))
      if (open.length === 0) break
      for (const [id, message] of await lookAtMessages(session, open.map(({ id }) => id))) {
        outcomes.set(id, { result: { kind: 'message', message } })
      }
      open = open.filter((claim) => !outcomes.has(idText(claim)))
      if (open.length === 0) break
      for (const id of await movedOf(session, open)) outcomes.set(id, { result: { kind: 'moved' } })
      open = open.filter((claim) => !outcomes.has(idText(claim)))
      if (open.length === 0) break
      if (round === ROUNDS_MAX) throw new Error('a row came and went between every insert and the look after it')
      open = await writeOnce(session, open, write, outcomes)
    }
  } catch (error) {
    for (const claim of open) outcomes.set(idText(claim), { error: unseen(error) })
  }
  return claims.map((claim) => outcomes.get(idText(claim)) ?? { error: new Error('a claim without an outcome') })
}

/** A row stood in the way of the insert, whatever became of the look at it: nobody may say that there is none. */
function unseen (error: unknown): unknown {
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
  // One that breaks must not put in doubt what was won: whoever has lost without a word looks at the row again.
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

async function found<Found> (looking: Promise<Found | null>): Promise<Found> {
  const seen = await looking
  if (seen === null) throw new StoreUnavailable('postgres', 'claim_look', true, new Error('a row came and went'))
  return seen
}

/** An answer would be given from it. Whatever else a row says ends in a write, or in asking again. */
function mustBeProven (row: Row): boolean {
  return (row.state === 'completed' || row.state === 'consumed') && !row.past && isDoubtful(row)
}

const NO_MESSAGES: ReadonlyMap<string, MessageDetail> = new Map()

function inOrder (ids: readonly Buffer[], found: readonly Row[]): Array<Row | null> {
  const rows = new Map(found.map((row) => [hex(row.id), row]))
  return ids.map((id) => rows.get(hex(id)) ?? null)
}

async function settleAll (session: Session, settlements: readonly Settlement[]): Promise<Array<Outcome<SettleResult>>> {
  const settled = await settleRows(session, settlements)
  const outcomes = new Map<string, Outcome<SettleResult>>(settled.map(({ id, keep_left_ms: keepLeftMs }) => [
    id,
    { result: { kind: 'settled', keepLeftMs } }
  ]))
  const refused = settlements.map(({ token }) => token.id).filter((id) => !outcomes.has(hex(id)))
  if (refused.length > 0) await noteRefused(session, refused, outcomes)
  return settlements.map(({ token }) => outcomes.get(idText(token)) ?? { result: { kind: 'refused', row: null } })
}

/** A refusal without its row says nothing: where the look fails, the settle is tried again like any that failed. */
async function noteRefused (session: Session, ids: readonly Buffer[], outcomes: Map<string, Outcome<SettleResult>>): Promise<void> {
  try {
    for (const row of await lookAtRefused(session, ids)) outcomes.set(hex(row.id), { result: { kind: 'refused', row } })
  } catch (error) {
    for (const id of ids) outcomes.set(hex(id), { error })
  }
}

async function settleLostAll (session: Session, orders: readonly LostOrder[]): Promise<SettleResult[]> {
  const results: SettleResult[] = []
  for (const order of orders) {
    const { token, keepMs } = order.settlement
    const inserted = await insertLost(session, order)
    results.push(
      inserted ? { kind: 'settled', keepLeftMs: keepMs } : { kind: 'refused', row: (await lookAtRefused(session, [token.id]))[0] ?? null }
    )
  }
  return results
}

function resultOf<Result> (outcome: Outcome<Result>): Result {
  if ('result' in outcome) return outcome.result
  throw outcome.error
}

function answerBytes ({ headers, body }: Settlement): number { return (headers?.length ?? 0) + (body?.length ?? 0) }

function idText ({ id }: { readonly id: Buffer }): string { return hex(id) }

function hex (id: Buffer): string { return id.toString('hex') }
