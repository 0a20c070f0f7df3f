/**
 * Writes of a record beside its claim and its settle: tokens that are given back, copies in Redis, leases that have lapsed,
 * answers in Redis that no row has yet.
 */
import { encodeHeaders } from '../../core/protocol/codec.ts'
import { OWNER_BYTES } from '../../core/record/record.ts'
import type { Answer, Settlement, Token } from '../../core/record/record.ts'
import { StoreRejected } from '../../ports/errors.ts'
import type { Lapsed, SettleResult } from '../../ports/records.ts'
import type { SettledAnswer, UnsettledCopy } from '../../ports/locks.ts'
import type { Drain } from '../shared/drain.ts'
import type { Execution } from './execution.ts'
import type { Generation } from '../shared/generation.ts'
import type { Deps } from '../shared/deps.ts'

/** Pause between two tries to release a token that a doubtful claim left behind. */
const RELEASE_PAUSE_MS = 500
/** Longest a statement may still be on its way after its caller gave up; so long its token is released again (P6). */
const STATEMENT_LONGEST_MS = 10_000
/** Pause before the first release that comes after one which may have overtaken the claim; each further one doubles. */
const RELEASE_AGAIN_MS = 100
/** Share of the lease that lies between two releases at most: a late claim is free again before its lease can end. */
const RELEASE_AGAIN_SHARE = 1 / 3

/** What a route says of how long a record is kept and a claim believed. */
interface Held { readonly retentionMs: number, readonly leaseMs: number }

interface RecordWritesContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly generation: Generation
  readonly background: (work: Promise<void>) => void
}

export class RecordWrites {
  readonly #parts: RecordWritesContext
  /** Unsettled copies that are being settled just now, by record and owner. */
  readonly #settlingCopies = new Map<string, Promise<SettleResult | 'unreachable'>>()

  constructor (parts: RecordWritesContext) {
    this.#parts = parts
  }

  /** How many unsettled copies are being settled. */
  get settlingCopies (): number { return this.#settlingCopies.size }

  /** When clients may expect the record's end: the row's. A copy ends one lease before it (P10); then the row replays. */
  expiresAtMs (keepLeftMs: number, askedAtMs: number): number {
    const { clock } = this.#parts.deps
    return clock.wallMs() + Math.max(0, keepLeftMs - (clock.monotonicMs() - askedAtMs))
  }

  /**
   * My lock becomes a copy that ends one lease before the row; where there is no time left for one, it goes. `askedAtMs`:
   * before the statement that said `keepLeftMs` — a process that was stopped since then must not keep the past (P10).
   */
  async swapForCopy (id: Buffer, owner: Buffer, settled: SettledAnswer, keepLeftMs: number, askedAtMs: number): Promise<void> {
    const { deps: { locks, copyTtlMs, clock }, generation: generations } = this.#parts
    const { leaseMs } = settled
    const generation = generations.before(askedAtMs)
    const ttlMs = Math.floor(Math.min(copyTtlMs, keepLeftMs - leaseMs) - (clock.monotonicMs() - askedAtMs))
    if (ttlMs <= 0 || generation === null) return locks.unlock(id, owner)
    await locks.swap(
      id,
      owner,
      { kind: 'copy', copy: { ...settled, generation, expiresAtMs: this.expiresAtMs(keepLeftMs, askedAtMs) - leaseMs } },
      ttlMs
    )
  }

  /** Own token found indeterminate: unsent, so it is released and the claim made anew, by a new owner (protocol §5). */
  async replaceOwner (execution: Execution, attempt: number): Promise<void> {
    const { records, locks, random, clock } = this.#parts.deps
    const { id, claim, route } = execution.keyed
    const token = { id, owner: execution.owner, attempt }
    try {
      await records.settle({
        token,
        outcome: 'released',
        keepMs: route.idempotency.retentionMs,
        status: null,
        headers: null,
        body: null,
        reason: null
      })
    } catch (error) {
      this.#parts.background(this.releaseUnsent(token, route.idempotency))
      throw error
    }
    await locks.unlock(id, execution.owner)
    execution.owner = random.bytes(OWNER_BYTES)
    await locks.lock(id, { owner: execution.owner, fingerprint: claim.fingerprint, lockedAtMs: clock.wallMs() }, claim.leaseMs)
  }

  /**
   * A token under which nothing was sent and nothing will be: released until the arbiter has answered, then again for
   * {@link STATEMENT_LONGEST_MS}, because the claim that timed out may still commit after the first release (P6). It would
   * stand until its lease ends as if it had been sent.
   */
  async releaseUnsent (token: Token, { retentionMs, leaseMs }: Held): Promise<void> {
    const { drain } = this.#parts
    await this.#releaseOnce(token, retentionMs)
    let leftMs = STATEMENT_LONGEST_MS
    for (let pauseMs = RELEASE_AGAIN_MS; leftMs > 0 && !drain.stopped; pauseMs *= 2) {
      const untilMs = Math.min(pauseMs, leaseMs * RELEASE_AGAIN_SHARE, leftMs)
      leftMs -= untilMs
      await drain.pause(untilMs)
      await this.#releaseOnce(token, retentionMs)
    }
  }

  async #releaseOnce (token: Token, keepMs: number): Promise<void> {
    const { drain, deps: { records, locks } } = this.#parts
    while (!drain.stopped) {
      try {
        await records.settle({ token, outcome: 'released', keepMs, status: null, headers: null, body: null, reason: null })
        // Its own lock, or the one that somebody who saw the row put up for it: nobody else would take it away.
        await locks.unlock(token.id, token.owner)
        locks.wake(token.id)
        return
      } catch (error) {
        if (error instanceof StoreRejected) throw error
        await drain.pause(RELEASE_PAUSE_MS)
      }
    }
  }

  /** One at a time for each copy: retries that have given up must not queue up settles behind them while the arbiter hangs. */
  settleUnsettledCopy (execution: Execution, token: Token, copy: UnsettledCopy): Promise<SettleResult | 'unreachable'> {
    const name = `${execution.keyed.name} ${copy.owner.toString('hex')}`
    const running = this.#settlingCopies.get(name)
    if (running !== undefined) return running
    const settling = this.#settleCopy(execution, token, copy)
      .catch(() => 'unreachable' as const)
      .finally(() => { this.#settlingCopies.delete(name) })
    this.#settlingCopies.set(name, settling)
    return settling
  }

  /**
   * A row that has vanished under an unsettled copy was lost by a failover: the copy ends before a settled row of its own
   * could have been swept (settle.ts), so the answer that outlived it is put back rather than the request sent again.
   */
  async #settleCopy (execution: Execution, token: Token, copy: UnsettledCopy): Promise<SettleResult> {
    const { records } = this.#parts.deps
    const completion = completionOf(token, copy.keepMs, copy.answer)
    const settled = await records.settle(completion)
    if (settled.kind === 'settled' || settled.row !== null) return settled
    // How old the lost claim was is not known; it was made within the retention.
    return records.settleLost(completion, { ...execution.claim, owner: copy.owner, fingerprint: copy.fingerprint }, copy.keepMs)
  }

  /** Leases that ended without a settle, whoever found them: counted and logged. */
  noteLapsed (lapsed: readonly Lapsed[]): void {
    const { meter, log } = this.#parts.deps
    if (lapsed.length === 0) return
    meter.lapsed(lapsed.length)
    for (const { id, route, requestId, attempt } of lapsed) {
      meter.indeterminate(route, 'lease')
      log.error(
        { event: 'outcome-unknown', record: id.toString('base64url'), route, requestId, attempt, stage: 'lease' },
        'outcome unknown: the lease ended without a settle, the record is indeterminate'
      )
    }
  }
}

function completionOf (token: Token, keepMs: number, answer: Answer): Settlement {
  return {
    token,
    outcome: 'completed',
    keepMs,
    status: answer.status,
    headers: encodeHeaders(answer.headers),
    body: answer.body,
    reason: null
  }
}
