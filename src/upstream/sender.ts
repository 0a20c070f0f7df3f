/**
 * The upstream port on undici's `dispatch`: one request, sent once, never again. It reports whether the upstream may
 * have seen the request (E4). It asks the owner at the last point before the first byte (E0): undici calls
 * `onRequestStart` in the same synchronous step as the write, and an abort there keeps every byte back.
 *
 * Never use RetryAgent, pipelining, `idempotent: true` or HTTP/2. With each of them undici could send again or out of
 * order. Only npm undici >= 7.28 drops a surplus answer on an idle connection (E4b).
 */
import type { Dispatcher } from 'undici'
import type { RawHeaders } from '../core/record/record.ts'
import { headerValue, originForm } from '../core/headers/lines.ts'
import { NOBODY } from '../core/limits/limit.ts'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import type { Sending, Upstream, UpstreamRequest, UpstreamResult } from '../ports/upstream.ts'
import { BodyBuffer } from '../core/limits/body-buffer.ts'
import { codeOf, endsAtHead, faultOf, rawHeadersOf, STATUS_MIN } from './answer-head.ts'
import { AnswerStream } from './answer-stream.ts'
import { Pools } from './pools.ts'

/** Answers of these types are never buffered, whatever their size, because they may never end. */
const STREAMING_TYPES = ['text/event-stream', 'application/x-ndjson', 'application/grpc', 'multipart/x-mixed-replace']
/** Between two checks of an answer that is coming in: more than a round trip within a data centre. */
const RECHECK_EVERY_MS = 20
/** One second in all. An answer that filled the socket during a stall is complete by then. An answer that trickles is late. */
const RECHECKS_MAX = 50

export class UndiciUpstream implements Upstream {
  readonly #pools: Pools

  /** `share`: the part of an upstream's connections for one caller or peer while no other has any (core/limits/limit.ts). */
  constructor (upstreams: readonly UpstreamPolicy[], share = 1) {
    this.#pools = new Pools(upstreams, share, ({ connectionsMax }) => connectionsMax)
  }

  /** The number of pools, for tests. */
  get pools (): number { return this.#pools.size }

  /** A reload. Requests in flight and requests let in before keep their earlier settings. */
  reconfigure (upstreams: readonly UpstreamPolicy[], share = 1): void {
    this.#pools.reconfigure(upstreams, share)
  }

  send (request: UpstreamRequest, maySend: () => boolean): Sending {
    const use = this.#pools.use(request.upstream)
    if (use === null) return { result: Promise.resolve({ kind: 'unsent', code: 'CLOSED' }), cancel: () => {} }
    const { holder = NOBODY } = request
    const exchange = new Exchange(request, maySend, () => {
      use.slots.leave(holder)
      use.done()
    })
    const stopWaiting = use.slots.enter(holder, () => {
      request.placed?.()
      this.#dispatch(use.pool, request, exchange)
    })
    return {
      result: exchange.result.promise,
      cancel: (code, timedOut) => {
        if (!stopWaiting()) return exchange.cancel(code, timedOut)
        use.done()
        if (timedOut) exchange.result.resolve({ kind: 'unsent', code: 'NO_PLACE', refusal: use.slots.refusal(holder) ?? 'full' })
        else exchange.cancel(code, timedOut)
      }
    }
  }

  #dispatch (pool: Dispatcher, request: UpstreamRequest, exchange: Exchange): void {
    try {
      pool.dispatch({
        method: request.method as Dispatcher.HttpMethod,
        path: originForm(request.target),
        headers: request.headers as string[],
        body: request.body,
        // The timer of the execution is the hard limit. These two are a fallback.
        headersTimeout: (request.timeoutMs ?? request.upstream.timeoutMs) * 2,
        bodyTimeout: request.timeoutMs ?? request.upstream.timeoutMs,
        // One connection per exchange: HTTP/1.1 cannot tell a surplus answer from the answer to the next request (E4b).
        reset: request.upstream.keepAliveMs === 0
      }, exchange)
    } catch (error) {
      exchange.onResponseError(null, error as Error)
    }
  }

  async close (): Promise<void> {
    await this.#pools.close()
  }
}

/** One request, as undici's handler. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly result = Promise.withResolvers<UpstreamResult>()
  readonly #request: UpstreamRequest
  readonly #maySend: () => boolean
  readonly #whenOver: () => void
  #over = false
  #controller: Dispatcher.DispatchController | null = null
  /** onRequestStart has allowed it, so bytes may have left. */
  #started = false
  #cancelled: { readonly code: string, readonly timedOut: boolean } | null = null
  /** The timeout is over, and the answer is checked once more. */
  #rechecking = false
  /** How many parts of the answer have come. */
  #received = 0
  #status: number | null = null
  #headers: RawHeaders = []
  readonly #body: BodyBuffer
  #stream: AnswerStream | null = null

  /** `whenOver` is called once, when undici has finished with the request. That may be long after `result`. */
  constructor (request: UpstreamRequest, maySend: () => boolean, whenOver: () => void) {
    this.#request = request
    this.#maySend = maySend
    this.#whenOver = whenOver
    this.#body = new BodyBuffer(request.responseBytesMax, request.reserve)
  }

  cancel (code: string, timedOut: boolean): void {
    if (this.#cancelled !== null) return
    if (!timedOut || !this.#started) return this.#cancelNow(code, timedOut)
    if (this.#rechecking) return
    this.#rechecking = true
    this.#recheck(code, RECHECKS_MAX, this.#received)
  }

  /**
   * After a stall of the process, a late timer runs before the socket is read, and the answer may be there. So the
   * event loop reads the socket first. While each check finds more of the answer, the request is not cancelled.
   */
  #recheck (code: string, rechecksLeft: number, receivedBefore: number): void {
    setImmediate(() => {
      if (this.#over) return
      const received = this.#received
      if (received === receivedBefore || rechecksLeft === 0) return this.#cancelNow(code, true)
      setTimeout(() => { this.#recheck(code, rechecksLeft - 1, received) }, RECHECK_EVERY_MS)
    })
  }

  #cancelNow (code: string, timedOut: boolean): void {
    if (this.#cancelled !== null) return
    this.#cancelled = { code, timedOut }
    // Not started: onRequestStart now refuses. So it is never sent, however long undici keeps it queued.
    if (!this.#started) this.result.resolve({ kind: 'unsent', code })
    else this.#controller?.abort(new Error(code))
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // undici may call this twice for one request. Only the first call may send.
    if (this.#started) return controller.abort(new Error('SENT_ALREADY'))
    if (this.#cancelled === null && this.#maySend()) {
      this.#started = true
      return
    }
    this.#cancelled ??= { code: 'LEASE', timedOut: false }
    controller.abort(new Error(this.#cancelled.code))
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number): void {
    const headers = rawHeadersOf(controller)
    const fault = faultOf(status, headers)
    if (fault === null && status < STATUS_MIN) return this.#request.informed?.(status, headers)
    this.#received++
    this.#status = status
    this.#headers = headers
    if (fault !== null) {
      controller.abort(new Error(fault))
      return
    }
    if (endsAtHead(status, headers)) {
      this.onResponseEnd()
      controller.abort(new Error('ENDED'))
      return
    }
    if (this.#declaredTooLarge() || streams(this.#headers)) this.#beginStream(controller)
  }

  onResponseData (controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#received++
    if (this.#stream === null) {
      if (this.#body.add(chunk) === 'taken') return
      this.#beginStream(controller)
    }
    if (!this.#stream?.push(chunk)) controller.pause()
  }

  onResponseEnd (): void {
    this.#end()
    if (this.#stream !== null) return this.#stream.end()
    if (this.#status === null) return this.#lose('NO_ANSWER')
    this.result.resolve({ kind: 'answer', answer: { status: this.#status, headers: this.#headers, body: this.#body.whole() } })
  }

  onResponseError (_controller: unknown, error: Error): void {
    this.#end()
    if (this.#stream !== null) return this.#stream.fail(error, this.#cancelled === null ? codeOf(error) : null)
    if (this.#started) return this.#lose(this.#cancelled?.code ?? codeOf(error))
    this.result.resolve({ kind: 'unsent', code: this.#cancelled?.code ?? codeOf(error) })
  }

  #end (): void {
    if (this.#over) return
    this.#over = true
    this.#whenOver()
  }

  #lose (code: string): void {
    const timedOut = this.#cancelled?.timedOut ?? /TIMEOUT/.test(code)
    this.result.resolve({ kind: 'lost', code, timedOut, status: this.#status })
  }

  #declaredTooLarge (): boolean {
    const declared = headerValue(this.#headers, 'content-length')
    return declared !== null && Number(declared) > this.#request.responseBytesMax
  }

  /** The head is passed on before the rest is read. So it can be settled before the reader goes on. */
  #beginStream (controller: Dispatcher.DispatchController): void {
    const stream = new AnswerStream(controller, this.#body.detach())
    this.#stream = stream
    this.result.resolve({
      kind: 'stream',
      status: this.#status ?? 0,
      headers: this.#headers,
      body: stream,
      taken: stream.taken,
      over: stream.over
    })
  }
}

function streams (headers: RawHeaders): boolean {
  const type = headerValue(headers, 'content-type')?.toLowerCase() ?? ''
  return STREAMING_TYPES.some((streaming) => type.startsWith(streaming))
}
