/** The upstream port by promises: for fakes that send and return their result, and for tests that send by themselves. */
import type { RawHeaders } from '../../src/core/record/record.ts'
import type { Sending, SendingListener, SentRequest, Upstream, UpstreamResult } from '../../src/ports/upstream.ts'

/** A request together with what its sender wants to hear. Absent: nothing. */
export interface UpstreamRequest extends SentRequest {
  readonly placed?: () => void
  readonly informed?: (status: number, headers: RawHeaders) => void
  readonly reserve?: (bytes: number) => boolean
}

export interface PromisedSending extends Sending {
  readonly result: Promise<UpstreamResult>
}

/** A fake upstream has `send` alone. */
export abstract class PromisedUpstream implements Upstream {
  abstract send (request: UpstreamRequest, maySend: () => boolean): PromisedSending

  start (request: SentRequest, listener: SendingListener): Sending {
    const sending = this.send({
      ...request,
      placed: () => { listener.placed() },
      informed: (status, headers) => { listener.informed(status, headers) },
      reserve: (bytes) => listener.reserve(bytes)
    }, () => listener.maySend())
    void sending.result.then((result) => { listener.ended(result) })
    return sending
  }

  async close (): Promise<void> {}
}

class OfFunction extends PromisedUpstream {
  readonly #send: PromisedUpstream['send']

  constructor (send: PromisedUpstream['send']) {
    super()
    this.#send = send
  }

  send (request: UpstreamRequest, maySend: () => boolean): PromisedSending { return this.#send(request, maySend) }
}

export function upstreamOf (send: PromisedUpstream['send']): Upstream {
  return new OfFunction(send)
}

/** Sends by any upstream. */
export function sendBy (upstream: Upstream, request: UpstreamRequest, maySend: () => boolean): PromisedSending {
  const { promise, resolve } = Promise.withResolvers<UpstreamResult>()
  const { placed, informed, reserve, ...sent } = request
  const sending = upstream.start(sent, {
    maySend,
    placed: () => { placed?.() },
    informed: (status, headers) => { informed?.(status, headers) },
    reserve: (bytes) => reserve?.(bytes) ?? true,
    ended: resolve
  })
  return { result: promise, cancel: (code, timedOut) => { sending.cancel(code, timedOut) } }
}
