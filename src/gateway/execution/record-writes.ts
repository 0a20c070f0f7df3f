/** Writes of a record beside its claim and its settle: releases of unsent tokens, copies in Redis, and settles of unsettled copies. */
import { encodeHeaders } from '../../core/protocol/codec.ts'
import { OWNER_BYTES } from '../../core/record/record.ts'
import type { Answer, Settlement, Token } from '../../core/record/record.ts'
import { StoreRejected } from '../../ports/errors.ts'
import type { Lapsed, SettleResult } from '../../ports/records.ts'
import type { LockLane, LockValue, SettledAnswer, UnsettledCopy } from '../../ports/locks.ts'
import type { Drain } from '../shared/drain.ts'
import type { Execution } from './execution.ts'
import type { Generation } from '../shared/generation.ts'
import type { Deps } from '../shared/deps.ts'

/** The pause between two tries to release a token of a doubtful claim. */
const RELEASE_PAUSE_MS = 500
/** The longest time that a statement may be in flight after its caller gave up. Its token is released again for so long (P6). */
const STATEMENT_LONGEST_MS = 10_000
/** The pause before the second release. The first may have overtaken the claim. Each further pause doubles. */
const RELEASE_AGAIN_MS = 100
/** The longest pause between two releases, as a share of the lease. A late claim is released before its lease can end. */
const RELEASE_AGAIN_SHARE = 1 / 3

/** The route's retention and lease. */
interface RecordTimes { readonly retentionMs: number, readonly leaseMs: number }

interface RecordWritesContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly generation: Generation
  readonly lockLane: LockLane
  readonly background: (work: Promise<void>) => void
}

export class RecordWrites {
  readonly #context: RecordWritesContext
  /** Running settles of unsettled copies, by record and owner. */
  readonly #settlingCopies = new Map<string, Promise<SettleResult | 'unreachable'>>()

  constructor (context: RecordWritesContext) {
    this.#context = context
  }

  get settlingCopies (): number { return this.#settlingCopies.size }

  /** The end of the row, as clients see it. A copy ends one lease earlier (P10). The row replays after that. */
  expiresAtMs (keepLeftMs: number, askedAtMs: number): number {
    const { clock } = this.#context.deps
    return clock.wallMs() + Math.max(0, keepLeftMs - (clock.monotonicMs() - askedAtMs))
  }

  /**
   * Replaces the own lock by a copy that ends one lease before the row. If no time is left for a copy, removes the lock.
   * `askedAtMs`: before the statement that returned `keepLeftMs`. A process that was stopped since then must not keep old data (P10).
   */
  async swapForCopy (id: Buffer, owner: Buffer, settled: SettledAnswer, keepLeftMs: number, askedAtMs: number): Promise<void> {
    const { locks } = this.#context.deps
    const copy = this.#copyOf(settled, keepLeftMs, askedAtMs)
    const ttlMs = this.#ttlOf(settled, keepLeftMs, askedAtMs)
    if (copy === null || ttlMs <= 0) return locks.unlock(id, owner)
    await locks.swap(id, owner, copy, ttlMs)
  }

  /** The same for the usual way: nobody waits for it. */
  sendCopy (id: Buffer, owner: Buffer, settled: SettledAnswer, keepLeftMs: number, askedAtMs: number): void {
    const { deps: { locks }, lockLane, background } = this.#context
    const copy = this.#copyOf(settled, keepLeftMs, askedAtMs)
    const ttlMs = this.#ttlOf(settled, keepLeftMs, askedAtMs)
    if (copy === null || ttlMs <= 0) background(locks.unlock(id, owner))
    else lockLane.swap(id, owner, copy, ttlMs)
  }

  /** null: the generation was not known when the row was read. */
  #copyOf (settled: SettledAnswer, keepLeftMs: number, askedAtMs: number): LockValue | null {
    const generation = this.#context.generation.knownAt(askedAtMs)
    if (generation === null) return null
    return { kind: 'copy', copy: { ...settled, generation, expiresAtMs: this.expiresAtMs(keepLeftMs, askedAtMs) - settled.leaseMs } }
  }

  #ttlOf ({ leaseMs }: SettledAnswer, keepLeftMs: number, askedAtMs: number): number {
    const { copyTtlMs, clock } = this.#context.deps
    return Math.floor(Math.min(copyTtlMs, keepLeftMs - leaseMs) - (clock.monotonicMs() - askedAtMs))
  }

  /** The own token was found indeterminate. Nothing was sent, so it is released, and a new owner claims again (protocol §5). */
  async replaceOwner (execution: Execution, attempt: number): Promise<void> {
    const { records, locks, random, clock } = this.#context.deps
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
      this.#context.background(this.releaseUnsent(token, route.idempotency))
      throw error
    }
    await locks.unlock(id, execution.owner)
    execution.owner = random.bytes(OWNER_BYTES)
    await locks.lock(id, { owner: execution.owner, fingerprint: claim.fingerprint, lockedAtMs: clock.wallMs() }, claim.leaseMs)
  }

  /**
   * Releases a token under which nothing was or will be sent. Tries until the arbiter has answered.
   * Then it releases again for {@link STATEMENT_LONGEST_MS}: the timed-out claim may still commit after the first release (P6).
   * Such a claim would block the key until its lease ends, as if it had been sent.
   */
  async releaseUnsent (token: Token, { retentionMs, leaseMs }: RecordTimes): Promise<void> {
    const { drain } = this.#context
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
    const { drain, deps: { records, locks } } = this.#context
    while (!drain.stopped) {
      try {
        await records.settle({ token, outcome: 'released', keepMs, status: null, headers: null, body: null, reason: null })
        // The lock is its own, or another process that saw the row has set it. No one else would remove it.
        await locks.unlock(token.id, token.owner)
        locks.wake(token.id)
        return
      } catch (error) {
        if (error instanceof StoreRejected) throw error
        await drain.pause(RELEASE_PAUSE_MS)
      }
    }
  }

  /** One settle at a time for each copy. While the arbiter hangs, retries must not queue up settles. */
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
   * If the row of an unsettled copy is gone, a failover has lost it: the copy ends before a settled row of its own could be swept
   * (settle.ts). So the answer is written back, and the request is not sent again.
   */
  async #settleCopy (execution: Execution, token: Token, copy: UnsettledCopy): Promise<SettleResult> {
    const { records } = this.#context.deps
    const completion = completionOf(token, copy.keepMs, copy.answer)
    const settled = await records.settle(completion)
    if (settled.kind === 'settled' || settled.row !== null) return settled
    // The age of the lost claim is unknown. It was made within the retention.
    return records.settleLost(completion, { ...execution.claim, owner: copy.owner, fingerprint: copy.fingerprint }, copy.keepMs)
  }

  /** Counts and logs leases that ended without a settle. */
  noteLapsed (lapsed: readonly Lapsed[]): void {
    const { meter, log } = this.#context.deps
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
