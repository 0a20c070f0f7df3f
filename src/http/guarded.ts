/**
 * Sends every request where its head says. A guarded request with a key goes to the gateway (exchange.ts). Other requests get a problem or
 * pass through.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { errorStack } from '../ports/errors.ts'
import { requestsIssuedKey, sendIssuedKey } from './endpoints/issued-keys.ts'
import { requestedMessage, sendMessageState } from './endpoints/messages.ts'
import { passThrough } from './pass/passthrough.ts'
import { ANY_METHOD, answersPreflight } from './endpoints/preflight.ts'
import { decideOnHead, malformedHead } from './head.ts'
import { GuardedExchange } from './exchange.ts'
import type { HeadDecision } from './head.ts'
import type { LoadShedding } from './connection/load-shedding.ts'
import { countFor } from './connection/counted-response.ts'
import { requestedProblem, sendProblemPage } from './endpoints/problem-pages.ts'
import { sendProblem } from './respond/problem-reply.ts'
import type { ServerOptions } from './shared/options.ts'
import type { ReceivedRequest } from './shared/request-id.ts'
import type { UpgradeDecision } from './pass/tunnels.ts'

export class GuardedRequests {
  readonly #options: ServerOptions
  readonly #loadShedding: LoadShedding

  constructor (options: ServerOptions, loadShedding: LoadShedding) {
    this.#options = options
    this.#loadShedding = loadShedding
  }

  /** Never throws. */
  handle (request: ReceivedRequest, response: ServerResponse): void {
    try {
      this.#handle(request, response)
    } catch (error) {
      this.#options.log.error(
        { event: 'response-error', requestId: request.id, error: errorStack(error) },
        'request could not be handled'
      )
      response.destroy()
    }
  }

  #handle (request: ReceivedRequest, response: ServerResponse): void {
    const { raw } = request
    if (this.#loadShedding.sheds()) return sendProblem(request, response, 'overloaded', this.#options)
    const malformed = malformedHead(raw)
    if (malformed !== null) return this.#refuse(request, response, malformed)
    const { issuedKeys = null } = this.#options
    if (issuedKeys !== null && requestsIssuedKey(raw)) return sendIssuedKey(request, response, issuedKeys, this.#options)
    const message = this.#options.gateway.deps.inboxes.size === 0 ? null : requestedMessage(raw)
    if (message !== null) return sendMessageState(request, response, message, this.#options)
    const problem = requestedProblem(raw)
    if (problem !== null) return sendProblemPage(request, response, problem, this.#options)
    const decision = decideOnHead(this.#options, raw)
    switch (decision.kind) {
      case 'malformed': return this.#refuse(request, response, decision)
      case 'refused': {
        const { code, detail } = decision
        if (code === 'no-route' && answersPreflight(request, response, ANY_METHOD, this.#options)) return
        return sendProblem(request, response, code, this.#options, { ...(detail !== undefined && { detail }) })
      }
      case 'passed':
        countFor(response, decision.passed.route.name)
        return passThrough(this.#options, raw, response, request.id, decision.passed)
      case 'guarded':
        countFor(response, decision.route.name)
        this.#options.gateway.begin(new GuardedExchange(this.#options, request, response, decision))
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

  #refuse (request: ReceivedRequest, response: ServerResponse, { detail, status }: Extract<HeadDecision, { kind: 'malformed' }>): void {
    sendProblem(request, response, 'bad-request', this.#options, { detail, close: true, ...(status !== undefined && { status }) })
  }
}

const METHOD_NOT_ALLOWED = 405
