/**
 * A guarded request on its connection: what the gateway gets of it (IncomingRequest), and how its outcome becomes an answer and one line of
 * the log. One object for both, so that the usual way makes no promise and no closure.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isRepeatable } from '../core/key/repeatability.ts'
import type { Forwarded } from '../core/forward/forwarding.ts'
import type { GuardedRoute } from '../core/policy/policy.ts'
import type { RawHeaders } from '../core/record/record.ts'
import type { BodyBudget } from '../gateway/body/body-budget.ts'
import type { BodyReader, BodyResult } from '../gateway/body/read-whole.ts'
import type { IncomingRequest } from '../gateway/key/incoming-request.ts'
import type { Outcome } from '../gateway/shared/outcome.ts'
import { Steps } from '../gateway/shared/steps.ts'
import { errorStack } from '../ports/errors.ts'
import { sendContinue } from './connection/connection.ts'
import type { GuardedHead } from './head.ts'
import { noRoomReply, replyTo, withRepeatabilityResult } from './respond/answer.ts'
import type { Reply, ReplyContext } from './respond/answer.ts'
import { corsOfReply, corsRequestOf } from './respond/cors.ts'
import { atEndOfTick } from './respond/end-of-tick.ts'
import type { Leaving } from './respond/end-of-tick.ts'
import { informer } from './respond/informational.ts'
import { sendBudgetOf } from './respond/send-budget.ts'
import { isWhole, isWritableAtOnce, writeAtOnce, writeInParts } from './respond/write.ts'
import type { BufferedReply, SendBudget } from './respond/write.ts'
import { readBody } from './shared/body.ts'
import type { BodyListener } from './shared/body.ts'
import type { ServerOptions } from './shared/options.ts'
import { clientCertificateOf } from './shared/client-certificate.ts'
import { addRequestId } from './shared/request-id.ts'
import type { ReceivedRequest } from './shared/request-id.ts'

export class GuardedExchange implements IncomingRequest, BodyListener, Leaving {
  readonly route: GuardedRoute
  readonly key: IncomingRequest['key']
  readonly method: string
  readonly target: string
  readonly rawHeaders: RawHeaders
  readonly clientCertificate: string | null
  readonly connection: object
  readonly forwarded: Forwarded
  readonly peer: string | null
  readonly requestId: string
  readonly steps = new Steps()
  readonly #options: ServerOptions
  readonly #raw: IncomingMessage
  readonly #response: ServerResponse
  readonly #alike: boolean
  readonly #startedAtMs: number
  #reader: BodyReader | null = null
  #informed: ((status: number, headers: RawHeaders) => void) | null = null
  #reply: Reply | null = null
  #budget: SendBudget | null = null

  constructor (options: ServerOptions, { raw, id }: ReceivedRequest, response: ServerResponse, { route, key, alike }: GuardedHead) {
    const { peers } = options
    this.#startedAtMs = performance.now()
    this.#options = options
    this.#raw = raw
    this.#response = response
    this.#alike = alike
    this.route = route
    this.key = key
    this.method = raw.method ?? 'POST'
    this.target = raw.url ?? '/'
    this.rawHeaders = raw.rawHeaders
    this.clientCertificate = clientCertificateOf(raw)
    this.connection = raw.socket
    this.forwarded = peers.forwardedOf(raw)
    this.peer = peers.peerOf(raw)
    this.requestId = id
    const { tracing = null } = options.gateway.deps
    if (tracing !== null) this.steps.trace = tracing.request(raw.rawHeaders, { route: route.name, method: this.method, requestId: id })
    // A broken socket must not end the process. The execution goes on (E1).
    raw.on('error', ignored)
    response.on('error', ignored)
  }

  // ---------------------------------------------------------------- for the gateway

  readBody (bytesMax: number, budget: BodyBudget, reader: BodyReader): void {
    const { limits: { requestBodyMs, clientIdleMs }, gateway: { deps: { clock }, deadlines } } = this.#options
    this.#reader = reader
    readBody(this.#raw, { bytesMax, budget, timeoutMs: requestBodyMs, idleMs: clientIdleMs, clock, deadlines }, this)
  }

  bodyBegins (): void { sendContinue(this.#raw, this.#response) }

  bodyRead (result: BodyResult): void {
    if (result.kind === 'too-slow') this.#options.meter.idled('request')
    this.#reader?.bodyRead(result)
  }

  informed (status: number, headers: RawHeaders): void {
    this.#informed ??= informer(this.#raw, this.#response)
    this.#informed(status, headers)
  }

  /** An answered response closes too, so this always resolves. */
  async gone (): Promise<void> {
    const response = this.#response
    if (!response.destroyed) await new Promise<void>((resolve) => { response.once('close', resolve) })
  }

  /** Never throws. */
  answer (outcome: Outcome): void {
    try {
      this.#answer(outcome)
    } catch (error) {
      this.#writeFailed(error)
    }
  }

  // ---------------------------------------------------------------- the answer

  #answer (outcome: Outcome): void {
    const raw = this.#raw
    const { route, rawHeaders, requestId } = this
    const { problemBaseUri } = this.#options
    const budget = sendBudgetOf(this.#options, raw, this.steps.holder)
    const corsRequest = corsRequestOf(this.#options, raw, route.idempotency.key)
    const plain = replyWithRoom(this.#response, budget, outcome, { route, requestId, corsRequest, problemBaseUri })
    const reply = isRepeatable(route.idempotency.key.sources, rawHeaders) ? withRepeatabilityResult(plain, outcome) : plain
    addRequestId(reply.headers, requestId)
    reply.headers.push(...corsOfReply(reply, outcome, corsRequest))
    this.#reply = reply
    this.#budget = budget
    if (isWritableAtOnce(raw, reply)) atEndOfTick(this)
    else void this.#writeInParts(reply, budget)
  }

  /** The answers of a turn leave together. */
  leave (): void {
    const [reply, budget] = [this.#reply, this.#budget]
    if (reply === null || budget === null) return
    try {
      this.#note(reply, writeAtOnce(this.#response, reply as BufferedReply & Reply, this.#options.closing(), budget))
    } catch (error) {
      this.#note(reply, this.#writeFailed(error))
    }
  }

  async #writeInParts (reply: Reply, budget: SendBudget): Promise<void> {
    try {
      this.#note(reply, await writeInParts(this.#raw, this.#response, reply, this.#options.closing(), budget))
    } catch (error) {
      this.#note(reply, this.#writeFailed(error))
    }
  }

  #writeFailed (error: unknown): number {
    this.#options.log.error({ event: 'response-error', requestId: this.requestId, error: errorStack(error) }, 'answer could not be written')
    this.#response.destroy()
    return 0
  }

  /** One wide log line per guarded request. It has no key, credential, query or body. */
  #note (reply: Reply, sentBytes: number): void {
    const { route, requestId, method, steps } = this
    const ms = performance.now() - this.#startedAtMs
    this.#options.meter.request(route.name, reply.outcome, ms)
    const { trace } = steps
    trace?.ended({ status: reply.status, outcome: reply.outcome, record: steps.record, attempt: steps.attempt })
    if (steps.claimMs !== undefined) this.#options.meter.claimed(steps.claimMs)
    this.#options.requests.note({
      requestId,
      route: route.name,
      method,
      outcome: reply.outcome,
      status: reply.status,
      ms,
      responseBytes: sentBytes,
      record: steps.record,
      alike: this.#alike,
      keyFrom: steps.keyFrom,
      attempt: steps.attempt,
      scopeMs: steps.scopeMs,
      bodyMs: steps.bodyMs,
      fingerprintMs: steps.fingerprintMs,
      claimMs: steps.claimMs,
      upstreamMs: steps.upstreamMs,
      settleMs: steps.settleMs,
      waitMs: steps.waitMs,
      requestBytes: steps.requestBytes,
      reason: steps.reason ?? reply.reason,
      trace: trace ?? undefined
    })
  }
}

/** A large answer that is kept begins only if there is room for all of it. Else its client would get a part. */
function replyWithRoom (response: ServerResponse, budget: SendBudget, outcome: Outcome, context: ReplyContext): Reply {
  const reply = replyTo(outcome, context)
  const { body } = reply
  if (reply.kept !== true || !isWhole(body) || body.length <= RESERVED_FROM_BYTES || response.destroyed) return reply
  const refusal = budget.reserve(response, body.length)
  return refusal === null ? reply : noRoomReply(refusal, context)
}

/** A socket whose client reads takes this much. Smaller answers are in the kernel as soon as they are written. */
const RESERVED_FROM_BYTES = 64 * 1024

function ignored (): void {}
