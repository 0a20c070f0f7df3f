/**
 * The upstream port on undici's `dispatch`: one request, sent once, never again. It says whether the upstream may have
 * seen the request (E4), and asks the owner at the last point before the first byte (E0): `onRequestStart` is called in
 * the same synchronous step as the write, and an abort there keeps every byte back.
 *
 * Never: RetryAgent, pipelining, `idempotent: true`, HTTP/2 — each would let undici send again or out of turn. Only npm
 * undici >= 7.28 drops an answer too many that an upstream writes onto an idle connection (E4b).
 */
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import type { RawHeaders } from '../core/record.ts'
import { headerValue } from '../core/headers.ts'
import type { UpstreamPolicy } from '../core/policy.ts'
import type { Sending, Upstream, UpstreamRequest, UpstreamResult } from '../ports.ts'
import { AnswerStream } from './answer-stream.ts'

/** Answers that are never buffered, whatever their size: they may never end. */
const STREAMING_TYPES = ['text/event-stream', 'application/x-ndjson', 'application/grpc', 'multipart/x-mixed-replace']
const STATUS_MIN = 200
const STATUS_MAX = 599

export class UndiciUpstream implements Upstream {
  readonly #pools = new Map<string, Pool>()

  constructor (upstreams: readonly UpstreamPolicy[]) {
    for (const upstream of upstreams) {
      this.#pools.set(upstream.origin, new Pool(upstream.origin, {
        connections: upstream.connectionsMax,
        pipelining: 1,
        allowH2: false,
        connect: { timeout: upstream.connectTimeoutMs },
        keepAliveTimeout: upstream.keepAliveMs,
        keepAliveMaxTimeout: upstream.keepAliveMs,
        // The execution's own timer is the hard limit; these only catch what it cannot see.
        headersTimeout: upstream.timeoutMs * 2,
        bodyTimeout: upstream.timeoutMs
      }))
    }
  }

  send (request: UpstreamRequest, maySend: () => boolean): Sending {
    const pool = this.#pools.get(request.origin)
    if (pool === undefined) return { result: Promise.resolve({ kind: 'unsent', code: 'NO_UPSTREAM' }), cancel: () => {} }
    const exchange = new Exchange(request, maySend)
    try {
      pool.dispatch({
        method: request.method as Dispatcher.HttpMethod,
        path: request.target,
        headers: request.headers as string[],
        body: request.body
      }, exchange)
    } catch (error) {
      exchange.onResponseError(null, error as Error)
    }
    return { result: exchange.result.promise, cancel: (code, timedOut) => exchange.cancel(code, timedOut) }
  }

  async close (): Promise<void> {
    await Promise.all(Array.from(this.#pools.values(), pool => pool.destroy()))
  }
}

/** One sending, as undici's handler. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly result = Promise.withResolvers<UpstreamResult>()
  readonly #request: UpstreamRequest
  readonly #maySend: () => boolean
  #controller: Dispatcher.DispatchController | null = null
  /** onRequestStart was passed: bytes may have left. */
  #started = false
  #cancelled: { readonly code: string, readonly timedOut: boolean } | null = null
  #status: number | null = null
  #headers: RawHeaders = []
  #chunks: Buffer[] = []
  #bytes = 0
  #stream: AnswerStream | null = null

  constructor (request: UpstreamRequest, maySend: () => boolean) {
    this.#request = request
    this.#maySend = maySend
  }

  cancel (code: string, timedOut: boolean): void {
    if (this.#cancelled !== null) return
    this.#cancelled = { code, timedOut }
    // Not started: from now on the hook refuses, so that it never can be sent — however long undici keeps it queued.
    if (!this.#started) this.result.resolve({ kind: 'unsent', code })
    else this.#controller?.abort(new Error(code))
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#cancelled === null && this.#maySend()) {
      this.#started = true
      return
    }
    this.#cancelled ??= { code: 'LEASE', timedOut: false }
    controller.abort(new Error(this.#cancelled.code))
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number): void {
    // Informational answers are the hop's affair; ours was no request for one.
    if (status < STATUS_MIN) return
    this.#status = status
    this.#headers = latin1(rawHeadersOf(controller))
    const fault = status > STATUS_MAX ? 'BAD_STATUS' : this.#headers.every(isFieldText) ? null : 'BAD_HEADER'
    if (fault !== null) {
      controller.abort(new Error(fault))
      return
    }
    if (this.#declaredTooLarge() || streams(this.#headers)) this.#beginStream(controller)
  }

  onResponseData (controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#stream === null && !this.#buffer(chunk)) this.#beginStream(controller)
    else if (this.#stream === null) return
    if (!this.#stream?.push(chunk)) controller.pause()
  }

  onResponseEnd (): void {
    if (this.#stream !== null) return this.#stream.end()
    if (this.#status === null) return this.#lose('NO_ANSWER')
    this.result.resolve({ kind: 'answer', answer: { status: this.#status, headers: this.#headers, body: joined(this.#chunks, this.#bytes) } })
  }

  onResponseError (_controller: unknown, error: Error): void {
    if (this.#stream !== null) return this.#stream.fail(error)
    if (this.#started) return this.#lose(this.#cancelled?.code ?? codeOf(error))
    this.result.resolve({ kind: 'unsent', code: this.#cancelled?.code ?? codeOf(error) })
  }

  #lose (code: string): void {
    const timedOut = this.#cancelled?.timedOut ?? /TIMEOUT/.test(code)
    this.result.resolve({ kind: 'lost', code, timedOut, status: this.#status })
  }

  /** false: over a bound; the chunk is not kept. */
  #buffer (chunk: Buffer): boolean {
    if (this.#bytes + chunk.length > this.#request.responseBytesMax || !this.#request.reserve(chunk.length)) return false
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    return true
  }

  #declaredTooLarge (): boolean {
    const declared = headerValue(this.#headers, 'content-length')
    return declared !== null && Number(declared) > this.#request.responseBytesMax
  }

  /** The head is given away before the rest is read: whoever settles it first may then read on. */
  #beginStream (controller: Dispatcher.DispatchController): void {
    const stream = new AnswerStream(controller)
    for (const chunk of this.#chunks) stream.push(chunk)
    this.#chunks = []
    this.#stream = stream
    this.result.resolve({ kind: 'stream', status: this.#status ?? 0, headers: this.#headers, body: stream })
  }
}

function streams (headers: RawHeaders): boolean {
  const type = headerValue(headers, 'content-type')?.toLowerCase() ?? ''
  return STREAMING_TYPES.some(streaming => type.startsWith(streaming))
}

/** undici's types leave the raw list out; it is set before onResponseStart. */
/** What may stand in a field of ours too (RFC 9110 5.5); an answer with anything else is not passed on as if whole. */
function isFieldText (text: string): boolean {
  return !NOT_FIELD_TEXT.test(text)
}

// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const NOT_FIELD_TEXT = /[\x00-\x08\x0a-\x1f\x7f]/
const OWN_FAULTS = new Set(['BAD_STATUS', 'BAD_HEADER'])

function rawHeadersOf (controller: Dispatcher.DispatchController): readonly Buffer[] {
  return (controller as Dispatcher.DispatchController & { readonly rawHeaders: readonly Buffer[] | null }).rawHeaders ?? []
}

function latin1 (raw: readonly Buffer[]): string[] {
  return raw.map(bytes => bytes.toString('latin1'))
}

function joined (chunks: readonly Buffer[], bytes: number): Buffer {
  return chunks.length === 1 ? chunks[0] as Buffer : Buffer.concat(chunks, bytes)
}

/** Parser errors have no code (measured with undici 7.30.2). */
function codeOf (error: Error): string {
  const { code } = error as Error & { readonly code?: unknown }
  if (typeof code === 'string') return code
  return OWN_FAULTS.has(error.message) ? error.message : 'BAD_ANSWER'
}
