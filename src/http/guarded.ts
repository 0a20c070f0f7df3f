/**
 * Takes every request from Fastify (hijacked) and sends it where its head says. A guarded request with a key goes to
 * the gateway, and the outcome is written. Other requests get a problem or pass through.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GuardedRequest } from '../gateway/key/guarded-request.ts'
import type { Steps } from '../gateway/shared/steps.ts'
import { handle } from '../gateway/pipeline.ts'
import type { Outcome } from '../gateway/shared/outcome.ts'
import { isRepeatable } from '../core/key/repeatability.ts'
import { errorStack } from '../ports/errors.ts'
import { replyTo, noRoomReply, withRepeatabilityResult } from './respond/answer.ts'
import type { Reply, ReplyContext } from './respond/answer.ts'
import { readBody } from './shared/body.ts'
import { sendContinue } from './connection/connection.ts'
import { corsRequestOf, corsOfReply } from './respond/cors.ts'
import { requestsIssuedKey, sendIssuedKey } from './endpoints/issued-keys.ts'
import { requestedMessage, sendMessageState } from './endpoints/messages.ts'
import { informer } from './respond/informational.ts'
import { passThrough } from './pass/passthrough.ts'
import { clientCertificateOf } from './shared/peer.ts'
import { ANY_METHOD, answersPreflight } from './endpoints/preflight.ts'
import { decideOnHead, malformedHead } from './head.ts'
import type { GuardedHead, HeadDecision } from './head.ts'
import type { LoadShedding } from './connection/load-shedding.ts'
import { requestedProblem, sendProblemPage } from './endpoints/problem-pages.ts'
import { sendProblem } from './respond/problem-reply.ts'
import { addRequestId } from './shared/request-id.ts'
import type { ServerOptions } from './shared/options.ts'
import { atEndOfTick } from './respond/end-of-tick.ts'
import type { UpgradeDecision } from './pass/tunnels.ts'
import { sendBudgetOf } from './respond/send-budget.ts'
import { isWritableAtOnce, writeInParts, writeAtOnce } from './respond/write.ts'
import type { SendBudget, BufferedReply } from './respond/write.ts'

export class GuardedRequests {
  readonly #options: ServerOptions
  readonly #loadShedding: LoadShedding

  constructor (options: ServerOptions, loadShedding: LoadShedding) {
    this.#options = options
    this.#loadShedding = loadShedding
  }

  /** Handles every request. None goes on to a route of Fastify. */
  onRequest (request: FastifyRequest, reply: FastifyReply): void {
    const { raw } = request
    if (this.#loadShedding.sheds()) return sendProblem(request, reply, 'overloaded', this.#options)
    const malformed = malformedHead(raw)
    if (malformed !== null) return this.#refuse(request, reply, malformed)
    const { issuedKeys = null } = this.#options
    if (issuedKeys !== null && requestsIssuedKey(raw)) return sendIssuedKey(request, reply, issuedKeys, this.#options)
    const message = this.#options.gateway.deps.inboxes.size === 0 ? null : requestedMessage(raw)
    if (message !== null) return sendMessageState(request, reply, message, this.#options)
    const problem = requestedProblem(raw)
    if (problem !== null) return sendProblemPage(request, reply, problem, this.#options)
    const decision = decideOnHead(this.#options, raw)
    switch (decision.kind) {
      case 'malformed': return this.#refuse(request, reply, decision)
      case 'refused':
        if (decision.code === 'no-route' && answersPreflight(request, reply, ANY_METHOD, this.#options)) return
        return sendProblem(request, reply, decision.code, this.#options, decision.detail === undefined ? {} : { detail: decision.detail })
      case 'passed':
        reply.hijack()
        return passThrough(this.#options, raw, reply.raw, request.id, decision.passed)
      case 'guarded':
        reply.hijack()
        void this.#guard(request, reply.raw, decision)
    }
  }

  /** An upgrade is a safe request, so no policy guards it. A method override makes it unsafe. */
  upgradeDecision (raw: IncomingMessage): UpgradeDecision {
    if (this.#loadShedding.sheds()) return { refused: 'overloaded' }
    if (this.#options.closing()) return { refused: 'draining' }
    if (this.#isOwn(raw)) return { refused: 'bad-request', status: METHOD_NOT_ALLOWED, detail: 'No upgrade can be asked of this resource.' }
    const decision = malformedHead(raw) ?? decideOnHead(this.#options, raw)
    switch (decision.kind) {
      case 'malformed': {
        const { detail, status } = decision
        return { refused: 'bad-request', detail, ...(status !== undefined && { status }) }
      }
      case 'refused': return { refused: decision.code, ...(decision.detail !== undefined && { detail: decision.detail }) }
      case 'passed': return decision.passed
      case 'guarded': return { refused: 'bad-request', detail: 'An upgrade cannot be guarded. Nothing was sent.' }
    }
  }

  /** A resource of the gateway itself. It cannot be upgraded. */
  #isOwn (raw: IncomingMessage): boolean {
    const { issuedKeys = null, gateway } = this.#options
    return requestedProblem(raw) !== null ||
      (issuedKeys !== null && requestsIssuedKey(raw)) ||
      (gateway.deps.inboxes.size > 0 && requestedMessage(raw) !== null)
  }

  #refuse (request: FastifyRequest, reply: FastifyReply, { detail, status }: Extract<HeadDecision, { kind: 'malformed' }>): void {
    sendProblem(request, reply, 'bad-request', this.#options, { detail, close: true, ...(status !== undefined && { status }) })
  }

  async #guard (request: FastifyRequest, response: ServerResponse, head: GuardedHead): Promise<void> {
    const { route } = head
    const startedAt = performance.now()
    const { raw } = request
    // A broken socket must not end the process. The execution goes on (E1).
    raw.on('error', ignored)
    response.on('error', ignored)
    const steps: Steps = {}
    const outcome = await this.#outcomeOf(request, response, head, steps)
    const budget = sendBudgetOf(this.#options, raw, steps.holder)
    const corsRequest = corsRequestOf(this.#options, raw, route.idempotency.key)
    const plain = replyWithRoom(response, budget, outcome, {
      route,
      requestId: request.id,
      corsRequest,
      problemBaseUri: this.#options.problemBaseUri
    })
    const reply = isRepeatable(route.idempotency.key.sources, raw.rawHeaders) ? withRepeatabilityResult(plain, outcome) : plain
    addRequestId(reply.headers, request.id)
    reply.headers.push(...corsOfReply(reply, outcome, corsRequest))
    const note = (sentBytes: number): void => { this.#note(raw, head, request.id, reply, steps, sentBytes, performance.now() - startedAt) }
    if (isWritableAtOnce(raw, reply)) atEndOfTick(() => { note(this.#write(response, reply, request.id, budget)) })
    else note(await this.#writeInParts(raw, response, reply, request.id, budget))
  }

  #write (response: ServerResponse, reply: BufferedReply, requestId: string, budget: SendBudget): number {
    try {
      return writeAtOnce(response, reply, this.#options.closing(), budget)
    } catch (error) {
      return this.#writeFailed(response, requestId, error)
    }
  }

  async #writeInParts (
    raw: IncomingMessage,
    response: ServerResponse,
    reply: Reply,
    requestId: string,
    budget: SendBudget
  ): Promise<number> {
    try {
      return await writeInParts(raw, response, reply, this.#options.closing(), budget)
    } catch (error) {
      return this.#writeFailed(response, requestId, error)
    }
  }

  #writeFailed (response: ServerResponse, requestId: string, error: unknown): number {
    this.#options.log.error({ event: 'response-error', requestId, error: errorStack(error) }, 'answer could not be written')
    response.destroy()
    return 0
  }

  async #outcomeOf (request: FastifyRequest, response: ServerResponse, head: GuardedHead, steps: Steps): Promise<Outcome> {
    try {
      return await handle(this.#options.gateway, this.#guardedRequest(request, response, head, steps))
    } catch (error) {
      // A bug of the gateway. The execution still settles what was sent. This client gets `outcome-unknown`.
      this.#options.log.error(
        { event: 'request-error', requestId: request.id, route: head.route.name, error: errorStack(error) },
        'request failed in the gateway'
      )
      return { kind: 'unknown', timedOut: false }
    }
  }

  #guardedRequest (request: FastifyRequest, response: ServerResponse, { route, key }: GuardedHead, steps: Steps): GuardedRequest {
    const { raw } = request
    const { limits: { requestBodyMs, clientIdleMs }, gateway: { deps: { clock } }, peers } = this.#options
    return {
      route,
      key,
      method: raw.method ?? 'POST',
      target: raw.url ?? '/',
      rawHeaders: raw.rawHeaders,
      clientCertificate: clientCertificateOf(raw),
      connection: raw.socket,
      forwarded: peers.forwardedOf(raw),
      peer: peers.peerOf(raw),
      informed: informer(raw, response),
      requestId: request.id,
      steps,
      readBody: async (bytesMax, { take }) => {
        const read = await readBody(raw, () => { sendContinue(raw, response) }, {
          bytesMax,
          take,
          timeoutMs: requestBodyMs,
          idleMs: clientIdleMs,
          clock
        })
        if (read.kind === 'too-slow') this.#options.meter.idled('request')
        return read
      },
      gone: async () => untilClosed(response)
    }
  }

  /** One wide log line per guarded request. It has no key, credential, query or body. */
  #note (
    raw: IncomingMessage,
    { route, alike }: GuardedHead,
    requestId: string,
    reply: Reply,
    steps: Steps,
    sentBytes: number,
    ms: number
  ): void {
    this.#options.meter.request(route.name, reply.outcome, ms)
    this.#options.requests.note({
      requestId,
      route: route.name,
      method: raw.method ?? '',
      outcome: reply.outcome,
      status: reply.status,
      ms,
      responseBytes: sentBytes,
      record: steps.record,
      alike,
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
      reason: steps.reason ?? reply.reason
    })
  }
}

/** A large answer that is kept begins only if there is room for all of it. Else its client would get a part. */
function replyWithRoom (response: ServerResponse, budget: SendBudget, outcome: Outcome, context: ReplyContext): Reply {
  const reply = replyTo(outcome, context)
  const { body } = reply
  if (reply.kept !== true || !Buffer.isBuffer(body) || body.length <= RESERVED_FROM_BYTES || response.destroyed) return reply
  const refusal = budget.reserve(response, body.length)
  return refusal === null ? reply : noRoomReply(refusal, context)
}

/** A socket whose client reads takes this much. Smaller answers are in the kernel as soon as they are written. */
const RESERVED_FROM_BYTES = 64 * 1024

function ignored (): void {}

/** An answered response closes too, so this always resolves. */
async function untilClosed (response: ServerResponse): Promise<void> {
  if (!response.destroyed) await new Promise<void>((resolve) => { response.once('close', resolve) })
}

const METHOD_NOT_ALLOWED = 405
