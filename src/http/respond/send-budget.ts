/** Answers that wait for their clients to read them: what they may cost, and in whose share that counts. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Holder, Refusal } from '../../core/limits/limit.ts'
import type { ServerOptions } from '../shared/options.ts'
import type { IdleLimit, SendBudget } from './write.ts'

export function idleLimitOf ({ limits, meter }: ServerOptions): IdleLimit {
  return { idleMs: limits.clientIdleMs, stalled: () => { meter.idled('answer') } }
}

/** `holder`: absent: the client's address alone is known. */
export function sendBudgetOf (options: ServerOptions, raw: IncomingMessage, holder?: Holder): SendBudget {
  return new AnswerSendBudget(options, raw, holder)
}

/** Made for every answer, and asked of few: most are with the kernel as soon as they are written. */
class AnswerSendBudget implements SendBudget {
  readonly #options: ServerOptions
  readonly #raw: IncomingMessage
  readonly #holder: Holder | undefined
  /** There is room for all of it. */
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

/** Any problem of the gateway's own: it says why there was no room. So much for each connection comes to 40 MB at most. */
const NEVER_CUT_BYTES = 4 * 1024
