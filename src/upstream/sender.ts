/**
 * The upstream port on undici's `dispatch`: one request, sent once, never again. It says whether the upstream may have
 * seen the request (E4), and asks the owner at the last point before the first byte (E0): `onRequestStart` is called in
 * the same synchronous step as the write, and an abort there keeps every byte back.
 *
 * Never: RetryAgent, pipelining, `idempotent: true`, HTTP/2 — each would let undici send again or out of turn. Only npm
 * undici >= 7.28 drops an answer too many that an upstream writes onto an idle connection (E4b).
 */
import type { Dispatcher } from 'undici'
import type { RawHeaders } from '../core/record/record.ts'
import { headerValue, originForm } from '../core/headers/lines.ts'
import { NOBODY } from '../core/limits/limit.ts'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import type { Sending, Upstream, UpstreamRequest, UpstreamResult } from '../ports/upstream.ts'
import { Gathering } from '../core/limits/gathering.ts'
import { codeOf, endsAtHead, faultOf, rawHeadersOf, STATUS_MIN } from './answer-head.ts'
import { AnswerStream } from './answer-stream.ts'
import { Pools } from './pools.ts'

/** Answers that are never buffered, whatever their size: they may never end. */
const STREAMING_TYPES = ['text/event-stream', 'application/x-ndjson', 'application/grpc', 'multipart/x-mixed-replace']
/** Between two looks at an answer that is just coming in: more than a round trip within a data centre. */
const RECHECK_EVERY_MS = 20
/** A second: an answer that filled the socket while the process stood still is whole by then, and one that only trickles is late. */
const RECHECKS_MAX = 50

export class UndiciUpstream implements Upstream {
  readonly #pools: Pools

  /** `share`: of an upstream's connections, for one caller or peer while nobody else has any (core/limits/limit.ts). */
  constructor (upstreams: readonly UpstreamPolicy[], share = 1) {
    this.#pools = new Pools(upstreams, share, ({ connectionsMax }) => connectionsMax)
  }

  /** How many pools there are; for tests. */
  get pools (): number { return this.#pools.size }

  /** A reload. What is under way, and what was let in before, keeps the settings that it came under. */
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
        // The execution's own timer is the hard limit; these only catch what it cannot see.
        headersTimeout: (request.timeoutMs ?? request.upstream.timeoutMs) * 2,
        bodyTimeout: request.timeoutMs ?? request.upstream.timeoutMs,
        // A connection for this exchange alone: HTTP/1.1 cannot tell an answer too many from the next request's own (E4b).
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

/** One sending, as undici's handler. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly result = Promise.withResolvers<UpstreamResult>()
  readonly #request: UpstreamRequest
  readonly #maySend: () => boolean
  readonly #whenOver: () => void
  #over = false
  #controller: Dispatcher.DispatchController | null = null
  /** onRequestStart was passed: bytes may have left. */
  #started = false
  #cancelled: { readonly code: string, readonly timedOut: boolean } | null = null
  /** Timed out, and looked at once more. */
  #rechecking = false
  /** How often something of the answer has come. */
  #received = 0
  #status: number | null = null
  #headers: RawHeaders = []
  readonly #body: Gathering
  #stream: AnswerStream | null = null

  /** `whenOver`: called once, when undici has let go of it; that may be long after `result`. */
  constructor (request: UpstreamRequest, maySend: () => boolean, whenOver: () => void) {
    this.#request = request
    this.#maySend = maySend
    this.#whenOver = whenOver
    this.#body = new Gathering(request.responseBytesMax, request.reserve)
  }

  cancel (code: string, timedOut: boolean): void {
    if (this.#cancelled !== null) return
    if (!timedOut || !this.#started) return this.#cancelNow(code, timedOut)
    if (this.#rechecking) return
    this.#rechecking = true
    this.#recheck(code, RECHECKS_MAX, this.#received)
  }

  /**
   * A timer that is late, since the process stood still, is called before the socket is read, and the answer may be there. So
   * it ends nothing before the event loop has been through the socket, nor while more of the answer is found there each time.
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
    // Not started: from now on the hook refuses, so that it never can be sent — however long undici keeps it queued.
    if (!this.#started) this.result.resolve({ kind: 'unsent', code })
    else this.#controller?.abort(new Error(code))
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // undici reserves the right to call twice for one request; the first call was the only sending there is.
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

  /** The head is given away before the rest is read: whoever settles it first may then read on. */
  #beginStream (controller: Dispatcher.DispatchController): void {
    const stream = new AnswerStream(controller, this.#body.give())
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
