/**
 * The limits of one process, and the shares in them (core/limits/limit.ts).
 * They bound executions, waiters, bytes of bodies, bytes of unsettled answers, and the requests of one caller.
 */
import { Limit } from '../../core/limits/limit.ts'
import type { Holder, Refusal } from '../../core/limits/limit.ts'
import { codeOfRefusal } from '../../core/protocol/problems.ts'
import type { ShedLimit } from '../../ports/telemetry.ts'
import { Buffers } from './buffers.ts'
import { CallerSlots } from './caller-slots.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'
import type { Deps } from '../shared/deps.ts'

export class Limits {
  readonly #deps: () => Pick<Deps, 'limits' | 'meter' | 'log'>
  /** Executions of both modes, by the caller that began them: limits.executions. */
  readonly executing: Limit
  /** Requests that wait for another request's execution: limits.waiters. */
  readonly waiting: Limit
  /** Bytes of bodies: limits.bufferedBytes. */
  readonly buffered: Buffers
  /** Bytes of answers that the arbiter has not taken: limits.unsettledBytes. */
  readonly unsettled: Limit
  readonly callerSlots = new CallerSlots()

  constructor (deps: () => Pick<Deps, 'limits' | 'meter' | 'log'>) {
    this.#deps = deps
    const { executions, waiters, bufferedBytes, unsettledBytes, share } = deps().limits
    this.executing = new Limit(executions, share)
    this.waiting = new Limit(waiters, share)
    this.buffered = new Buffers(bufferedBytes, share)
    this.unsettled = new Limit(unsettledBytes)
  }

  /** For a reload. */
  resize ({ executions, waiters, bufferedBytes, unsettledBytes, share }: Deps['limits']): void {
    this.executing.resize(executions, share)
    this.waiting.resize(waiters, share)
    this.buffered.resize(bufferedBytes, share)
    this.unsettled.resize(unsettledBytes)
  }

  /** The share of `limits.bufferedBytes` that one holder may take. */
  get share (): number { return this.#deps().limits.share }
  get bufferedBytesMax (): number { return this.#deps().limits.bufferedBytes }

  /** Takes a slot among the caller's requests in flight, see {@link CallerSlots.take}. null: it has `limits.inFlightPerScope` already. */
  takeCallerSlot (caller: string): string | null {
    return this.callerSlots.take(caller, this.#deps().limits.inFlightPerScope)
  }

  /** The answer to a refused request, which is counted as shed. null: no refusal. */
  shed (limit: ShedLimit, refusal: Refusal | null): Rejected | null {
    if (refusal === null) return null
    this.#deps().meter.shed(limit, refusal)
    return rejected(codeOfRefusal(refusal))
  }

  /** false: all waiters' slots, or this holder's share of them, are taken. */
  enterWait (holder: Holder): boolean {
    if (this.waiting.take(1, holder) !== null) return false
    this.#deps().meter.waiters(1)
    return true
  }

  leaveWait (holder: Holder): void {
    this.waiting.release(1, holder)
    this.#deps().meter.waiters(-1)
  }

  /** E6: an answer's bytes count until the arbiter has taken it. At the bound, new requests are refused before any claim. */
  holdUnsettled (bytes: number): void {
    const { meter, log, limits } = this.#deps()
    const hadRoom = !this.unsettled.full
    this.unsettled.force(bytes)
    meter.unsettledBytes(bytes)
    if (hadRoom && this.unsettled.full) {
      log.error(
        { event: 'unsettled-full', bytes: this.unsettled.held, bytesMax: limits.unsettledBytes },
        'answers that wait for the store fill their bound; new guarded requests are refused until it takes them'
      )
    }
  }

  releaseUnsettled (bytes: number): void {
    if (bytes === 0) return
    const { meter, log } = this.#deps()
    const wasFull = this.unsettled.full
    this.unsettled.release(bytes)
    meter.unsettledBytes(-bytes)
    if (wasFull && !this.unsettled.full) {
      log.info({ event: 'unsettled-drained', bytes: this.unsettled.held }, 'the store takes answers again; guarded requests are served')
    }
  }
}
