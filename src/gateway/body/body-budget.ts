import type { Holder, Refusal } from '../../core/limits/limit.ts'
import { isShared } from '../../core/scope/scope.ts'
import { KIND_SHARE } from '../limits/buffers.ts'
import type { Limits } from '../limits/limits.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

/**
 * Whose share a request counts in (core/limits/limit.ts). `caller`: the text of a scope. One that all callers share counts for none.
 * `peer`: null behind a proxy that does not name it.
 */
export function holderOf (caller: string, peer: string | null): Holder {
  return { caller: isShared(caller) ? null : caller, peer }
}

/** The buffered bytes of one body while it is read. */
export class BodyBudget {
  readonly #limits: Limits
  readonly holder: Holder
  readonly #least: number
  #held = 0
  #refusal: Refusal = 'full'

  /** `bytesMax`: of one body. If no share could ever hold it, the share does not bound it. It then needs free bytes only. */
  constructor (limits: Limits, holder: Holder, bytesMax: number) {
    this.#limits = limits
    this.holder = holder
    this.#least = bytesMax > limits.bufferedBytesMax * KIND_SHARE * limits.share ? bytesMax : 0
  }

  /** false: refused, and nothing was taken. */
  reserve (bytes: number): boolean {
    const refusal = this.#limits.buffered.take('requests', bytes, this.holder, this.#least)
    if (refusal === null) this.#held += bytes
    else this.#refusal = refusal
    return refusal === null
  }

  release (): void {
    this.#limits.buffered.release('requests', this.#held, this.holder)
    this.#held = 0
  }

  /** The answer after a refused {@link take}. The connection closes, because the rest of the body is not read. */
  refused (): Rejected {
    return { ...this.#limits.shed('bufferedBytes', this.#refusal) ?? rejected('overloaded'), close: true }
  }
}
