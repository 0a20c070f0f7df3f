/** Limits the memory of answers that wait for their clients to read them. It counts in the share of the caller and the peer. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Holder, Refusal } from '../../core/limits/limit.ts'
import type { ServerOptions } from '../shared/options.ts'
import type { IdleLimit, SendBudget } from './write.ts'

export function idleLimitOf ({ limits, meter }: ServerOptions): IdleLimit {
  return { idleMs: limits.clientIdleMs, stalled: () => { meter.idled('answer') } }
}

/** `holder` absent: only the client's address is known. */
export function sendBudgetOf (options: ServerOptions, raw: IncomingMessage, holder?: Holder): SendBudget {
  return new AnswerSendBudget(options, raw, holder)
}

/** Made for every answer and rarely used. Most answers are in the kernel as soon as they are written. */
class AnswerSendBudget implements SendBudget {
  readonly #options: ServerOptions
  readonly #raw: IncomingMessage
  readonly #holder: Holder | undefined
  /** Room for the whole answer is reserved. */
  #reserved = false

  constructor (options: ServerOptions, raw: IncomingMessage, holder: Holder | undefined) {
    this.#options = options
    this.#raw = raw
    this.#holder = holder
  }

  get idleMs (): number { return this.#options.limits.clientIdleMs }

  stalled (): void {
    this.#options.meter.idled('answer')
  }

  reserve (response: ServerResponse, bytes: number): Refusal | null {
    const { gateway: { limits: { buffered } }, meter } = this.#options
    const by = this.#by()
    const refusal = buffered.take('answers', bytes, by)
    if (refusal !== null) {
      meter.shed('bufferedBytes', refusal)
      return refusal
    }
    this.#reserved = true
    response.once('close', () => { buffered.release('answers', bytes, by) })
    return null
  }

  holdUnsent (bytes: number): (() => void) | null {
    if (this.#reserved) return nothing
    const { gateway: { limits: { buffered } }, meter } = this.#options
    const by = this.#by()
    const refusal = buffered.take('answers', bytes, by)
    if (refusal !== null && bytes > NEVER_CUT_BYTES) {
      meter.shed('bufferedBytes', refusal)
      return null
    }
    if (refusal !== null) buffered.force('answers', bytes, by)
    return () => { buffered.release('answers', bytes, by) }
  }

  #by (): Holder {
    return this.#holder ?? { caller: null, peer: this.#options.peers.peerOf(this.#raw) }
  }
}

function nothing (): void {}

/**
 * Any problem of the gateway itself fits, so a client learns why there was no room. For all connections together that
 * is at most 40 MB.
 */
const NEVER_CUT_BYTES = 4 * 1024
