/**
 * Takes every request from Fastify (hijacked) and sends it where its head says. A guarded request with a key goes to
 * the gateway (exchange.ts). Other requests get a problem or pass through.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { requestsIssuedKey, sendIssuedKey } from './endpoints/issued-keys.ts'
import { requestedMessage, sendMessageState } from './endpoints/messages.ts'
import { passThrough } from './pass/passthrough.ts'
import { ANY_METHOD, answersPreflight } from './endpoints/preflight.ts'
import { decideOnHead, malformedHead } from './head.ts'
import { GuardedExchange } from './exchange.ts'
import type { HeadDecision } from './head.ts'
import type { LoadShedding } from './connection/load-shedding.ts'
import { requestedProblem, sendProblemPage } from './endpoints/problem-pages.ts'
import { sendProblem } from './respond/problem-reply.ts'
import type { ServerOptions } from './shared/options.ts'
import type { UpgradeDecision } from './pass/tunnels.ts'

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
        this.#options.gateway.begin(new GuardedExchange(this.#options, request, reply.raw, decision))
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
}

const METHOD_NOT_ALLOWED = 405
