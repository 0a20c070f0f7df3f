/**
 * The pass-through port on undici's `dispatch`: one request, streamed both ways, sent once. It has its own connections
 * and slots, so unguarded requests never delay executions.
 */
import type { Dispatcher } from 'undici'
import type { Duplex } from 'node:stream'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import { originForm } from '../core/headers/lines.ts'
import type { PoolUse } from '../ports/telemetry.ts'
import type { Passage, PassFault, PassListener, PassRequest, PassThrough } from '../ports/pass-through.ts'
import type { Refusal } from '../core/limits/limit.ts'
import { codeOf, endsAtHead, faultOf, rawHeadersOf, STATUS_MIN } from './answer-head.ts'
import { Pools } from './pools.ts'
import type { PoolInUse } from './pools.ts'

export class UndiciPassThrough implements PassThrough {
  readonly #pools: Pools

  constructor (upstreams: readonly UpstreamPolicy[], share = 1) {
    this.#pools = new Pools(upstreams, share, ({ passThroughMax }) => passThroughMax)
  }

  /** Requests and tunnels in flight. */
  get size (): number { return this.#pools.taken }

  /** For the metrics. */
  get uses (): PoolUse[] { return this.#pools.uses }

  /** A reload. Requests in flight and requests let in before keep their earlier settings. */
  reconfigure (upstreams: readonly UpstreamPolicy[], share = 1): void {
    this.#pools.reconfigure(upstreams, share)
  }

  pass (request: PassRequest, listener: PassListener): Passage {
    const use = this.#pools.use(request.upstream)
    if (use === null) {
      listener.failed({ kind: 'unreachable', code: 'CLOSED' })
      return NO_PASSAGE
    }
    const passing = new Passing(request, listener, this.#pools, use)
    passing.begin()
    return passing
  }

  async close (): Promise<void> {
    await this.#pools.close()
  }
}

const NO_PASSAGE: Passage = { resume: () => {}, abort: () => {} }

class Passing implements Passage, Dispatcher.DispatchHandler {
  readonly #request: PassRequest
  readonly #listener: PassListener
  readonly #pools: Pools
  readonly #use: PoolInUse
  #controller: Dispatcher.DispatchController | null = null
  #stopWaiting: () => boolean = () => false
  #waiting: NodeJS.Timeout | undefined
  #started = false
  #switched = false
  /** The listener gets no further calls. */
  #silent = false
  #over = false

  constructor (request: PassRequest, listener: PassListener, pools: Pools, use: PoolInUse) {
    this.#request = request
    this.#listener = listener
    this.#pools = pools
    this.#use = use
  }

  begin (): void {
    const { slots } = this.#use
    const { holder, upstream } = this.#request
    let hasSlot = false
    this.#stopWaiting = slots.enter(holder, () => {
      hasSlot = true
      clearTimeout(this.#waiting)
      this.#dispatch()
    })
    if (hasSlot) return
    // To wait for a slot is part of connecting, and has its time limit.
    this.#waiting = setTimeout(() => {
      const refusal = slots.refusal(holder) ?? 'full'
      if (this.#stopWaiting()) this.#noSlot(refusal)
    }, upstream.connectTimeoutMs)
  }

  resume (): void {
    this.#controller?.resume()
  }

  abort (): void {
    if (this.#silent) return
    this.#silent = true
    if (this.#stopWaiting()) {
      clearTimeout(this.#waiting)
      this.#request.body?.destroy()
      this.#pools.done(this.#use)
      return
    }
    this.#controller?.abort(new Error('ABORTED'))
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // undici may call this twice for one request. Only the first call may send.
    if (this.#started) return controller.abort(new Error('SENT_ALREADY'))
    if (this.#silent) return controller.abort(new Error('ABORTED'))
    this.#started = true
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number): void {
    const headers = rawHeadersOf(controller)
    const fault = faultOf(status, headers)
    if (fault !== null) return controller.abort(new Error(fault))
    if (this.#silent) return
    if (status < STATUS_MIN) return this.#listener.informed(status, headers)
    this.#listener.answered(status, headers)
    if (!endsAtHead(status, headers)) return
    this.onResponseEnd()
    controller.abort(new Error('ENDED'))
  }

  onResponseData (controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#silent && !this.#listener.data(chunk)) controller.pause()
  }

  onResponseEnd (): void {
    this.#end()
    if (this.#silent) return
    this.#silent = true
    this.#listener.ended()
  }

  onRequestUpgrade (controller: Dispatcher.DispatchController, _status: number, _headers: unknown, socket: Duplex): void {
    this.#switched = true
    socket.once('close', () => { this.#end() })
    const headers = rawHeadersOf(controller)
    if (this.#silent || faultOf(STATUS_MIN, headers) !== null) {
      socket.on('error', () => {})
      socket.destroy()
      this.#fail({ kind: 'broken', code: 'BAD_HEADER' })
      return
    }
    this.#silent = true
    this.#listener.switched(headers, socket)
  }

  onResponseError (_controller: unknown, error: Error): void {
    if (!this.#switched) this.#end()
    const code = codeOf(error)
    if (!this.#started || UNREACHABLE.test(code)) this.#fail({ kind: 'unreachable', code })
    else this.#fail({ kind: /TIMEOUT/.test(code) ? 'timeout' : 'broken', code })
  }

  #dispatch (): void {
    const { upstream, method, target, headers, body, upgrade, idleMs } = this.#request
    try {
      this.#use.pool.dispatch({
        method: method as Dispatcher.HttpMethod,
        path: originForm(target),
        headers: headers as string[],
        body,
        ...(upgrade !== null && { upgrade }),
        headersTimeout: idleMs,
        bodyTimeout: idleMs,
        // HTTP/1.1 cannot tell a surplus answer from the answer to the next request (docs/concepts/protocol.md, E4b).
        reset: upstream.keepAliveMs === 0
      }, this)
    } catch (error) {
      this.onResponseError(null, error as Error)
    }
  }

  #noSlot (refusal: Refusal): void {
    this.#request.body?.destroy()
    this.#pools.done(this.#use)
    this.#over = true
    this.#fail({ kind: 'no-place', refusal, code: 'NO_PLACE' })
  }

  #fail (fault: PassFault): void {
    if (this.#silent) return
    this.#silent = true
    this.#listener.failed(fault)
  }

  #end (): void {
    if (this.#over) return
    this.#over = true
    this.#use.slots.leave(this.#request.holder)
    this.#pools.done(this.#use)
  }
}

/** No connection was made. */
const UNREACHABLE = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/
