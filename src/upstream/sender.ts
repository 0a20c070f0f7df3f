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
import type { Sending, SendingListener, SentRequest, Upstream, UpstreamResult } from '../ports/upstream.ts'
import { BodyBuffer } from '../core/limits/body-buffer.ts'
import { codeOf, endsAtHead, faultOf, rawHeadersOf, STATUS_MIN } from './answer-head.ts'
import { AnswerStream } from './answer-stream.ts'
import type { PoolUse } from '../ports/telemetry.ts'
import { Pools } from './pools.ts'
import type { PoolInUse } from './pools.ts'

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

  /** For the metrics. */
  get uses (): PoolUse[] { return this.#pools.uses }

  /** A reload. Requests in flight and requests let in before keep their earlier settings. */
  reconfigure (upstreams: readonly UpstreamPolicy[], share = 1): void {
    this.#pools.reconfigure(upstreams, share)
  }

  start (request: SentRequest, listener: SendingListener): Sending {
    const use = this.#pools.use(request.upstream)
    const exchange = new Exchange(request, listener, this.#pools, use)
    exchange.begin()
    return exchange
  }

  async close (): Promise<void> {
    await this.#pools.close()
  }
}

/** One request: undici's handler, and what its sender can cancel. */
class Exchange implements Dispatcher.DispatchHandler, Sending {
  readonly #request: SentRequest
  readonly #listener: SendingListener
  readonly #pools: Pools
  /** null: the process ends. */
  readonly #use: PoolInUse | null
  /** Ends the wait for a slot. false: there is none to end. */
  #stopWaiting: () => boolean = noWait
  /** The listener hears of the end only after {@link begin} has returned. undici may refuse a request at once. */
  #begun = false
  #ended = false
  #over = false
  #controller: Dispatcher.DispatchController | null = null
  /** onRequestStart has allowed it, so bytes may have left. */
  #started = false
  #cancelCode: string | null = null
  #timedOut = false
  /** The timeout is over, and the answer is checked once more. */
  #rechecking = false
  /** How many parts of the answer have come. */
  #received = 0
  #status: number | null = null
  #headers: RawHeaders = []
  /** null: nothing of the body has come. */
  #body: BodyBuffer | null = null
  #stream: AnswerStream | null = null

  constructor (request: SentRequest, listener: SendingListener, pools: Pools, use: PoolInUse | null) {
    this.#request = request
    this.#listener = listener
    this.#pools = pools
    this.#use = use
  }

  begin (): void {
    const { holder = NOBODY } = this.#request
    if (this.#use === null) this.#end({ kind: 'unsent', code: 'CLOSED' })
    else if (this.#use.slots.enterNow(holder)) this.#dispatch()
    else this.#stopWaiting = this.#use.slots.enter(holder, () => { this.#dispatch() })
    this.#begun = true
  }

  cancel (code: string, timedOut: boolean): void {
    if (this.#stopWaiting()) return this.#cancelWaiting(code, timedOut)
    if (this.#cancelCode !== null) return
    if (!timedOut || !this.#started) return this.#cancelNow(code, timedOut)
    if (this.#rechecking) return
    this.#rechecking = true
    this.#recheck(code, RECHECKS_MAX, this.#received)
  }

  #dispatch (): void {
    const { upstream, method, target, headers, body, timeoutMs = upstream.timeoutMs } = this.#request
    this.#stopWaiting = noWait
    this.#listener.placed()
    try {
      this.#use?.pool.dispatch({
        method: method as Dispatcher.HttpMethod,
        path: originForm(target),
        headers: headers as string[],
        body,
        // The timer of the execution is the hard limit. These two are a fallback.
        headersTimeout: timeoutMs * 2,
        bodyTimeout: timeoutMs,
        // One connection per exchange: HTTP/1.1 cannot tell a surplus answer from the answer to the next request (E4b).
        reset: upstream.keepAliveMs === 0
      }, this)
    } catch (error) {
      this.onResponseError(null, error as Error)
    }
  }

  #cancelWaiting (code: string, timedOut: boolean): void {
    const { holder = NOBODY } = this.#request
    const refusal = this.#use?.slots.refusal(holder) ?? 'full'
    if (this.#use !== null) this.#pools.done(this.#use)
    this.#cancelCode = code
    this.#end(timedOut && code !== 'DRAIN' ? { kind: 'unsent', code: 'NO_PLACE', refusal } : { kind: 'unsent', code })
  }

  #end (result: UpstreamResult): void {
    if (this.#ended) return
    this.#ended = true
    if (this.#begun) this.#listener.ended(result)
    else process.nextTick(() => { this.#listener.ended(result) })
  }

  /**
   * After a stall of the process, a late timer runs before the socket is read, and the answer may be there. So the
   * event loop reads the socket first. While each check finds more of the answer, the request is not cancelled.
   */
  #recheck (code: string, rechecksLeft: number, receivedBefore: number): void {
    setImmediate(() => {
      if (this.#over || (this.#stream !== null && this.#request.limitsStream !== true)) return
      const received = this.#received
      if (received === receivedBefore || rechecksLeft === 0) return this.#cancelNow(code, true)
      setTimeout(() => { this.#recheck(code, rechecksLeft - 1, received) }, RECHECK_EVERY_MS)
    })
  }

  #cancelNow (code: string, timedOut: boolean): void {
    if (this.#cancelCode !== null) return
    this.#cancelCode = code
    this.#timedOut = timedOut
    // Not started: onRequestStart now refuses. So it is never sent, however long undici keeps it queued.
    if (!this.#started) this.#end({ kind: 'unsent', code })
    else this.#controller?.abort(new Error(code))
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // undici may call this twice for one request. Only the first call may send.
    if (this.#started) return controller.abort(new Error('SENT_ALREADY'))
    if (this.#cancelCode === null && this.#listener.maySend()) {
      this.#started = true
      return
    }
    this.#cancelCode ??= 'LEASE'
    controller.abort(new Error(this.#cancelCode))
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number): void {
    const headers = rawHeadersOf(controller)
    const fault = faultOf(status, headers)
    if (fault === null && status < STATUS_MIN) return this.#listener.informed(status, headers)
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
      this.#body ??= new BodyBuffer(this.#request.responseBytesMax, this.#listener)
      if (this.#body.add(chunk) === 'taken') return
      this.#beginStream(controller)
    }
    if (!this.#stream?.push(chunk)) controller.pause()
  }

  onResponseEnd (): void {
    this.#leave()
    if (this.#stream !== null) return this.#stream.end()
    if (this.#status === null) return this.#lose('NO_ANSWER')
    this.#end({ kind: 'answer', answer: { status: this.#status, headers: this.#headers, body: this.#body?.whole() ?? NOTHING } })
  }

  onResponseError (_controller: unknown, error: Error): void {
    this.#leave()
    if (this.#stream !== null) return this.#stream.fail(error, this.#cancelCode ?? codeOf(error))
    if (this.#started) return this.#lose(this.#cancelCode ?? codeOf(error))
    this.#end({ kind: 'unsent', code: this.#cancelCode ?? codeOf(error) })
  }

  /** undici has finished with the request. That may be long after its end for the listener. */
  #leave (): void {
    if (this.#over) return
    this.#over = true
    if (this.#use === null) return
    this.#use.slots.leave(this.#request.holder ?? NOBODY)
    this.#pools.done(this.#use)
  }

  #lose (code: string): void {
    const timedOut = this.#cancelCode === null ? /TIMEOUT/.test(code) : this.#timedOut
    this.#end({ kind: 'lost', code, timedOut, status: this.#status })
  }

  #declaredTooLarge (): boolean {
    const declared = headerValue(this.#headers, 'content-length')
    return declared !== null && Number(declared) > this.#request.responseBytesMax
  }

  /** The head is passed on before the rest is read. So it can be settled before the reader goes on. */
  #beginStream (controller: Dispatcher.DispatchController): void {
    const stream = new AnswerStream(controller, this.#body?.detach() ?? NOTHING)
    this.#stream = stream
    this.#end({
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

const NOTHING = Buffer.alloc(0)

function noWait (): boolean { return false }
