/** Whose share of a limit a request counts in, and what is answered where there is none left (core/limits/limit.ts). */
import type { Holder, Refusal } from '../../core/limits/limit.ts'
import { isShared } from '../../core/scope/scope.ts'
import { KIND_SHARE } from '../limits/buffers.ts'
import type { Limits } from '../limits/limits.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

/** `caller`: a scope's text; one that all have in common is nobody's. `peer`: null behind a proxy that does not say. */
export function holderOf (caller: string, peer: string | null): Holder {
  return { caller: isShared(caller) ? null : caller, peer }
}

/** Where a body goes that is being read: bytes of the gateway's buffers. */
export class BodyRoom {
  readonly #limits: Limits
  readonly holder: Holder
  readonly #least: number
  #held = 0
  #refusal: Refusal = 'full'

  /** `bytesMax`: of one body; one that no share would ever hold has room while nobody is in its way. */
  constructor (limits: Limits, holder: Holder, bytesMax: number) {
    this.#limits = limits
    this.holder = holder
    this.#least = bytesMax > limits.bufferedBytesMax * KIND_SHARE * limits.share ? bytesMax : 0
  }

  /** false: there is none, and nothing was taken. */
  readonly take = (bytes: number): boolean => {
    const refusal = this.#limits.buffered.take('requests', bytes, this.holder, this.#least)
    if (refusal === null) this.#held += bytes
    else this.#refusal = refusal
    return refusal === null
  }

  /** All of it is given back. */
  release (): void {
    this.#limits.buffered.release('requests', this.#held, this.holder)
    this.#held = 0
  }

  /** What is answered after the last {@link take} that got nothing; nothing is read behind it. */
  refused (): Rejected {
    return { ...this.#limits.refused('bufferedBytes', this.#refusal) ?? rejected('overloaded'), close: true }
  }
}
