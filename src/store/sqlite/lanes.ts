/**
 * The way of every first request to the embedded store: claims and settles that call back. What arrives while the worker commits goes out
 * as one transaction at the end of the event loop's turn in which the reply came, settles before claims. So a request makes no promise and
 * no message, and a claim and a settle share one commit. There is one writer, so that they cannot deadlock, as they would between gateways.
 */
import { StoreOverloaded, StoreUnavailable } from '../../ports/errors.ts'
import { errorOf, type Fault } from './faults.ts'
import { BATCH_MAX, isUsualClaim, isUsualSettle, type LaneWriter } from './lane-buffer.ts'
import type { WorkerClient } from './worker-client.ts'
import type { Unusual } from './worker-protocol.ts'
import type { Claim, Settlement } from '../../core/record/record.ts'
import type { ClaimReply, ClaimResult, RecordLanes, SettleReply, SettleResult } from '../../ports/records.ts'
import type { Meter } from '../../ports/telemetry.ts'

/**
 * A settle waits for the claims of the transaction before and for those of its own (P8). Both together are as many as one batch of claims
 * alone.
 */
const CLAIMS_BESIDE_SETTLES = BATCH_MAX / 2
/**
 * Of either kind. Twice the default of limits.executions: an execution has at most one claim and one settle under way. Claims that were
 * given up wait here too.
 */
const QUEUE_MAX = 20_000

const WON: ClaimResult = { kind: 'won', attempt: 1 }

export interface LaneOptions {
  readonly client: WorkerClient
  readonly clock: { readonly nowMs: () => number, readonly believedMs: () => number | null }
  readonly meter: Pick<Meter, 'store'> | undefined
  /** For calls that do not go through shared memory: large answers, unknown outcomes. */
  readonly alone: RecordLanes
}

/** Calls of one kind with their replies, oldest first: those that wait, and those of the batch under way. */
class Lane<Call, Reply> {
  calls: Call[] = []
  replies: Reply[] = []
  sentCalls: Call[] = []
  sentReplies: Reply[] = []

  /** The first `count` that wait are under way now. The arrays change places, so that a batch makes none. */
  send (count: number): void {
    if (count < this.calls.length) {
      this.sentCalls = this.calls.splice(0, count)
      this.sentReplies = this.replies.splice(0, count)
      return
    }
    [this.calls, this.sentCalls] = [this.sentCalls, this.calls];
    [this.replies, this.sentReplies] = [this.sentReplies, this.replies]
  }

  forget (): void {
    this.sentCalls.length = 0
    this.sentReplies.length = 0
  }
}

export class SqliteLanes implements RecordLanes {
  readonly #client: WorkerClient
  readonly #clock: LaneOptions['clock']
  readonly #meter: Pick<Meter, 'store'> | undefined
  readonly #alone: RecordLanes
  readonly #claims = new Lane<Claim, ClaimReply>()
  readonly #settles = new Lane<Settlement, SettleReply>()
  #scheduled = false
  #underWay = false
  #sentAt = 0
  #isClosed = false
  #onIdle: (() => void) | null = null

  constructor ({ client, clock, meter, alone }: LaneOptions) {
    this.#client = client
    this.#clock = clock
    this.#meter = meter
    this.#alone = alone
  }

  insert (claim: Claim, reply: ClaimReply): void {
    const refusal = this.#refusal('insert', 'sqlite claims', this.#claims)
    if (refusal !== null) return failClaim(reply, refusal)
    if (!isUsualClaim(claim)) return this.#alone.insert(claim, reply)
    this.#claims.calls.push(claim)
    this.#claims.replies.push(reply)
    this.#schedule()
  }

  settle (settlement: Settlement, reply: SettleReply): void {
    const refusal = this.#refusal('settle', 'sqlite settles', this.#settles)
    if (refusal !== null) return failSettle(reply, refusal)
    if (!isUsualSettle(settlement)) return this.#alone.settle(settlement, reply)
    this.#settles.calls.push(settlement)
    this.#settles.replies.push(reply)
    this.#schedule()
  }

  /** New calls fail at once. Resolves when every call has its reply. */
  close (): Promise<void> {
    this.#isClosed = true
    if (!this.#underWay && !this.#scheduled) return Promise.resolve()
    return new Promise((resolve) => { this.#onIdle = resolve })
  }

  /** Why a call cannot wait here. null: it can. */
  #refusal (operation: string, queue: string, { calls }: Lane<unknown, unknown>): Error | null {
    if (this.#isClosed) return new StoreUnavailable('sqlite', operation, false, new Error('closed'))
    return calls.length < QUEUE_MAX ? null : new StoreOverloaded(queue)
  }

  #schedule (): void {
    if (this.#scheduled || this.#underWay) return
    this.#scheduled = true
    setImmediate(this.#flush)
  }

  /** One function for all turns: a batch makes no closure. */
  readonly #flush = (): void => {
    this.#scheduled = false
    const { ended } = this.#client
    if (ended !== null) return this.#refuse(ended)
    const writer = this.#client.writer
    writer.begin()
    const settles = this.#writeSettles(writer)
    const claims = this.#writeClaims(writer, settles === 0 ? BATCH_MAX : CLAIMS_BESIDE_SETTLES)
    writer.end(settles, claims, this.#clock.nowMs(), this.#clock.believedMs() ?? Infinity)
    this.#settles.send(settles)
    this.#claims.send(claims)
    this.#underWay = true
    this.#sentAt = performance.now()
    this.#client.runBatch(this)
  }

  #writeSettles (writer: LaneWriter): number {
    const { calls } = this.#settles
    let count = 0
    while (count < calls.length && count < BATCH_MAX && !writer.full) writer.settle(calls[count++] as Settlement)
    return count
  }

  #writeClaims (writer: LaneWriter, most: number): number {
    const { calls } = this.#claims
    let count = 0
    while (count < calls.length && count < most && !writer.full) writer.claim(calls[count++] as Claim)
    return count
  }

  /** The commit is acknowledged. Every call that is not in `unusual` has won or settled. */
  committed (unusual: readonly Unusual[]): void {
    const { sentCalls: settlements, sentReplies: settleReplies } = this.#settles
    const { sentReplies: claimReplies } = this.#claims
    const firstClaim = settlements.length
    this.#meterBatch(
      !unusual.some((each) => isFault(each) && each.index < firstClaim),
      !unusual.some((each) => isFault(each) && each.index >= firstClaim)
    )
    this.#underWay = false
    let next = 0
    for (let index = 0; index < firstClaim; index++) {
      const other = unusual[next]?.index === index ? unusual[next++] : undefined
      const reply = settleReplies[index] as SettleReply
      if (other === undefined) reply.settled({ kind: 'settled', keepLeftMs: (settlements[index] as Settlement).keepMs })
      else if (isFault(other)) reply.settleFailed(errorOf(other.fault, 'settle'))
      else reply.settled(other.result as SettleResult)
    }
    for (let index = 0; index < claimReplies.length; index++) {
      const other = unusual[next]?.index === firstClaim + index ? unusual[next++] : undefined
      const reply = claimReplies[index] as ClaimReply
      if (other === undefined) reply.claimed(WON)
      else if (isFault(other)) reply.claimFailed(errorOf(other.fault, 'insert'))
      else reply.claimed(other.result as ClaimResult)
    }
    this.#done()
  }

  /** Nothing was committed, or the commit itself failed (in doubt). */
  failed (fault: Fault): void {
    this.#meterBatch(false, false)
    this.#underWay = false
    for (const reply of this.#settles.sentReplies) reply.settleFailed(errorOf(fault, 'settle'))
    for (const reply of this.#claims.sentReplies) reply.claimFailed(errorOf(fault, 'insert'))
    this.#done()
  }

  /** The worker is gone. What waits was never sent. */
  #refuse (reason: Error): void {
    this.#settles.send(this.#settles.calls.length)
    this.#claims.send(this.#claims.calls.length)
    for (const reply of this.#settles.sentReplies) reply.settleFailed(new StoreUnavailable('sqlite', 'settle', false, reason))
    for (const reply of this.#claims.sentReplies) reply.claimFailed(new StoreUnavailable('sqlite', 'insert', false, reason))
    this.#done()
  }

  #done (): void {
    this.#settles.forget()
    this.#claims.forget()
    if (this.#settles.calls.length + this.#claims.calls.length > 0) this.#schedule()
    else if (!this.#scheduled) this.#onIdle?.()
  }

  #meterBatch (isSettled: boolean, isClaimed: boolean): void {
    if (this.#meter === undefined) return
    const tookMs = performance.now() - this.#sentAt
    if (this.#settles.sentCalls.length > 0) this.#meter.store('sqlite', 'settle', isSettled, tookMs)
    if (this.#claims.sentCalls.length > 0) this.#meter.store('sqlite', 'insert', isClaimed, tookMs)
  }
}

function isFault (unusual: Unusual): unusual is Extract<Unusual, { fault: Fault }> {
  return 'fault' in unusual
}

/** Not before the call has returned: its caller is not ready for the reply. */
function failClaim (reply: ClaimReply, error: Error): void {
  setImmediate(() => { reply.claimFailed(error) })
}

function failSettle (reply: SettleReply, error: Error): void {
  setImmediate(() => { reply.settleFailed(error) })
}
