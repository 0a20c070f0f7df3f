/**
 * Passes an unguarded request through and streams it in both directions. Method, target, fields and body go on as they
 * came, and so does the answer. It is sent once. Faults become 502 and 504. A client that stops is not waited for.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { exposedFields } from '../../core/headers/cors.ts'
import type { FieldRules } from '../../core/forward/deciding.ts'
import { passedHeaders } from '../../core/headers/headers.ts'
import { passthroughRequestHeaders } from '../../core/forward/forwarding.ts'
import type { Holder } from '../../core/limits/limit.ts'
import type { Route } from '../../core/policy/policy.ts'
import { codeOfRefusal, problem, retrySoon } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import { explained } from '../../core/forward/upstream-fault.ts'
import type { Cancel } from '../../ports/clock.ts'
import type { Passage, PassFault, PassListener, PassRequest } from '../../ports/pass-through.ts'
import { hasBody, isRead } from '../shared/body.ts'
import { sendContinue } from '../connection/connection.ts'
import { corsOfOwn } from '../respond/cors.ts'
import { NO_ANSWER } from '../connection/counted-response.ts'
import { informer } from '../respond/informational.ts'
import { addRequestId } from '../shared/request-id.ts'
import type { ServerOptions } from '../shared/options.ts'
import { idleLimitOf, sendBudgetOf } from '../respond/send-budget.ts'
import { notePassed } from './access.ts'
import { Upload } from './upload.ts'
import { breakOff, startIdleTimer, isWritableAtOnce, discardRest, writeInParts, writeAtOnce, writeChunk } from '../respond/write.ts'

/**
 * The head of an answer waits this long for the first bytes of its body. If the upstream breaks off at once, the client
 * still gets a problem. Most answers then leave in one piece. The limit is for streams whose first byte comes late.
 */
const HEAD_WAITS_MS = 100

/** An unguarded request and its route. */
export interface Passed {
  readonly route: Route
  /** The request had a key, and the gateway ignores it. */
  readonly ignoredKey: boolean
  readonly rules: FieldRules
}

/** Handles the request to its end. Never throws. */
export function passThrough (options: ServerOptions, raw: IncomingMessage, response: ServerResponse, id: string, passed: Passed): void {
  raw.on('error', ignored)
  response.on('error', ignored)
  const exchange = new Exchange(options, raw, response, id, passed)
  exchange.begin()
}

class Exchange implements PassListener {
  readonly #options: ServerOptions
  readonly #raw: IncomingMessage
  readonly #response: ServerResponse
  readonly #id: string
  readonly #passed: Passed
  readonly informed: PassListener['informed']
  readonly #startedAtMs = performance.now()
  #responseBytes = 0
  #upload: Upload | null = null
  #passage: Passage | null = null
  /** The head of the answer, not sent yet. */
  #head: { readonly status: number, readonly sent: string[] } | null = null
  #cancelHeadTimer: Cancel | null = null
  /** The upstream's answer is complete, or another answer took its place. */
  #over = false

  constructor (options: ServerOptions, raw: IncomingMessage, response: ServerResponse, id: string, passed: Passed) {
    this.#options = options
    this.#raw = raw
    this.#response = response
    this.#id = id
    this.#passed = passed
    this.informed = informer(raw, response)
  }

  begin (): void {
    const { gateway: { deps: { clock } }, limits: { clientIdleMs } } = this.#options
    if (hasBody(this.#raw)) {
      this.#upload = new Upload(this.#raw, {
        clock,
        idleMs: clientIdleMs,
        begin: () => { if (!this.#response.headersSent) sendContinue(this.#raw, this.#response) },
        stalled: () => { this.#onStalled() }
      })
      // The code that destroys the upload also reports the reason.
      this.#upload.on('error', ignored)
    }
    this.#response.once('close', () => { this.#onClosed() })
    this.#passage = this.#options.passing.pass(
      { ...passRequest(this.#options, this.#raw, this.#id, this.#passed), body: this.#upload, upgrade: null },
      this
    )
  }

  answered (status: number, headers: RawHeaders): void {
    const response = this.#response
    if (this.#over || response.destroyed) return
    const sent = passedHeaders(status, headers)
    if (this.#passed.ignoredKey) sent.push('Idempotency-Status', 'ignored', ...exposedFields(this.#options.cors ?? null, sent))
    // The rest of the request's body is read only while the answer is sent.
    if (this.#options.closing() || !isRead(this.#raw)) sent.push('Connection', 'close')
    this.#head = { status, sent }
    this.#cancelHeadTimer = this.#options.gateway.deps.clock.after(HEAD_WAITS_MS, () => { if (this.#sendHead()) response.flushHeaders() })
  }

  /** Sends the head together with the first bytes. false: Node refused the head. */
  #sendHead (): boolean {
    if (this.#head === null) return true
    const { status, sent } = this.#head
    this.#head = null
    this.#cancelHeadTimer?.()
    try {
      this.#response.writeHead(status, sent)
      return true
    } catch (error) {
      this.failed({ kind: 'broken', code: error instanceof Error ? error.message : 'BAD_HEADER' })
      this.#passage?.abort()
      return false
    }
  }

  data (chunk: Buffer): boolean {
    const response = this.#response
    if (this.#over || response.destroyed || !this.#sendHead()) return true
    this.#responseBytes += chunk.length
    return writeChunk(response, chunk, idleLimitOf(this.#options), () => { this.#passage?.resume() })
  }

  ended (): void {
    if (this.#over) return
    const response = this.#response
    if (!response.destroyed && !this.#sendHead()) return
    this.#over = true
    if (response.destroyed) return
    const end = (): void => {
      startIdleTimer(response, idleLimitOf(this.#options))
      response.end()
    }
    if (isRead(this.#raw)) end()
    else void discardRest(this.#raw).then(end)
  }

  /** The request did not ask for an upgrade. */
  switched (): void {
    this.failed({ kind: 'broken', code: 'BAD_UPGRADE' })
  }

  failed (fault: PassFault): void {
    if (this.#over) return
    this.#over = true
    if (this.#response.destroyed) return
    noteFault(this.#options, this.#id, this.#passed.route.upstream.name, fault)
    this.#refuse(codeOf(fault))
  }

  /** The client stopped sending its request. */
  #onStalled (): void {
    if (this.#over) return
    this.#over = true
    this.#options.gateway.deps.meter.idled('request')
    this.#passage?.abort()
    this.#refuse('request-timeout', {
      detail: 'The request did not arrive whole in time. It was passed on as far as it had come.',
      close: true
    })
  }

  /**
   * Sends a problem in place of the answer. If an answer has begun, the connection is cut, so that the client sees that
   * the answer is incomplete.
   */
  #refuse (code: ProblemCode, more: { readonly detail?: string, readonly close?: boolean } = {}): void {
    const response = this.#response
    if (response.headersSent) {
      breakOff(response)
      return
    }
    this.#upload?.destroy()
    this.#cancelHeadTimer?.()
    const { detail, close = false } = more
    const { status, headers, body } = problem(code, {
      requestId: this.#id,
      base: this.#options.problemBaseUri,
      ...(detail !== undefined && { detail }),
      retryAfterSeconds: retrySoon(code)
    })
    addRequestId(headers, this.#id)
    if (this.#passed.ignoredKey) headers.push('Idempotency-Status', 'ignored')
    headers.push(...corsOfOwn(this.#options, this.#raw.rawHeaders))
    const answer = { status, headers, body, close, outcome: code, problem: code }
    this.#responseBytes = body.length
    const budget = sendBudgetOf(this.#options, this.#raw)
    if (isWritableAtOnce(this.#raw, answer)) writeAtOnce(response, answer, this.#options.closing(), budget)
    else void writeInParts(this.#raw, response, answer, this.#options.closing(), budget)
  }

  /** The client has its answer, or it has gone. */
  #onClosed (): void {
    if (!this.#over) this.#passage?.abort()
    this.#over = true
    this.#cancelHeadTimer?.()
    this.#upload?.destroy()
    notePassed(this.#options, this.#raw, this.#id, this.#passed.route, {
      status: this.#response.headersSent ? this.#response.statusCode : NO_ANSWER,
      ms: performance.now() - this.#startedAtMs,
      requestBytes: this.#upload?.bytes ?? 0,
      responseBytes: this.#responseBytes
    })
  }
}

/** Without body and upgrade. */
export function passRequest (
  options: ServerOptions,
  raw: IncomingMessage,
  id: string,
  { route: { upstream }, rules }: Passed
): Omit<PassRequest, 'body' | 'upgrade'> {
  return {
    upstream,
    method: raw.method ?? 'GET',
    target: raw.url ?? '/',
    headers: passthroughRequestHeaders(raw.rawHeaders, {
      requestId: id,
      forwarded: options.peers.forwardedOf(raw),
      host: upstream.host,
      rules,
      extra: upstream.requestHeaders,
      contentLength: hasBody(raw) ? raw.headers['content-length'] ?? null : null
    }),
    holder: holderOf(options, raw),
    idleMs: upstream.idleMs
  }
}

/** The caller is not known here. Only the client's address is. */
function holderOf ({ peers }: ServerOptions, raw: IncomingMessage): Holder {
  return { caller: null, peer: peers.peerOf(raw) }
}

export function noteFault (
  { log, gateway: { deps: { meter } } }: ServerOptions,
  requestId: string,
  upstream: string,
  fault: PassFault
): void {
  if (fault.kind === 'no-place') meter.shed('passThrough', fault.refusal)
  if (fault.kind === 'timeout') meter.idled('upstream')
  log.warn(
    { event: 'pass-through-failed', requestId, upstream, fault: explained(fault.code, upstream), kind: fault.kind },
    'pass-through failed'
  )
}

export function codeOf (fault: PassFault): ProblemCode {
  switch (fault.kind) {
    case 'no-place': return codeOfRefusal(fault.refusal)
    case 'unreachable': return 'upstream-unreachable'
    case 'timeout': return 'upstream-timeout'
    case 'broken': return 'upstream-failed'
  }
}

function ignored (): void {}
