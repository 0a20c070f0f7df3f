/**
 * The guarded way in: a request that meets a guarded route and carries a key is taken from Fastify (hijacked), handed to
 * the gateway, and its outcome written. Everything else goes on to the pass-through.
 */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { decidingRefusal, rulesOf } from '../core/deciding.ts'
import type { FieldRules } from '../core/deciding.ts'
import { USUAL_KEY_HEADER } from '../core/fields.ts'
import { headerLines, headerValue, requestRefusal } from '../core/headers.ts'
import { findKey, headersRead } from '../core/key-sources.ts'
import type { FoundKey } from '../core/key-sources.ts'
import { overridingMethods } from '../core/method-override.ts'
import type { IdempotencyPolicy, GuardedRoute, KeyPolicy, Route } from '../core/policy.ts'
import type { RawHeaders } from '../core/record.ts'
import { takesKeyless } from '../gateway/admission.ts'
import type { GuardedRequest } from '../gateway/admission.ts'
import type { Steps } from '../gateway/execution.ts'
import { handle } from '../gateway/handle.ts'
import type { Outcome } from '../gateway/outcome.ts'
import { isRepeatable } from '../core/repeatability.ts'
import { replyTo, withResult } from './answer.ts'
import type { Reply } from './answer.ts'
import { BODY_TIMEOUT_MS, readBody } from './body.ts'
import { mayContinue } from './connection.ts'
import { asksForKey, giveKey } from './issuing.ts'
import { messageAskedFor, tellMessage } from './messages.ts'
import { clientCertificateOf } from './peer.ts'
import { sendProblem } from './problem-reply.ts'
import { addRequestId } from './request-id.ts'
import type { ServerOptions } from './server.ts'
import { behindThisTurn } from './turn.ts'
import { isWhole, writeSlowly, writeWhole } from './write.ts'
import type { WholeReply } from './write.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The matched route; set before anything else looks at the request. */
    onceway?: { readonly route: Route, readonly ignoredKey: boolean, readonly rules: FieldRules }
  }
}

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

export class GuardedRequests {
  readonly #options: ServerOptions

  constructor (options: ServerOptions) {
    this.#options = options
  }

  onRequest (request: FastifyRequest, reply: FastifyReply, next: HookHandlerDoneFunction): void {
    const { raw } = request
    const refusal = hostRefusal(raw) ?? requestRefusal(raw.rawHeaders, USUAL_KEY_HEADER)
    if (refusal !== null) return this.#refuse(request, reply, refusal)
    const { issuedKeys = null } = this.#options
    if (issuedKeys !== null && asksForKey(raw)) return giveKey(request, reply, issuedKeys, this.#options)
    const message = this.#options.gateway.world.inboxes.size === 0 ? null : messageAskedFor(raw)
    if (message !== null) return tellMessage(request, reply, message, this.#options)
    const overriding = overridingMethods(raw.rawHeaders, raw.url ?? '/')
    const matched = this.#options.routes.match(raw.method ?? 'GET', raw.url ?? '/', raw.headers.host ?? null, overriding)
    switch (matched.kind) {
      case 'refused':
        sendProblem(reply, 'bad-request', request.id, this.#options.problemBaseUri, { detail: matched.detail })
        return
      case 'none':
        sendProblem(reply, 'no-route', request.id, this.#options.problemBaseUri)
        return
      case 'route': this.#onRoute(request, reply, next, matched.route, isSafe(raw.method ?? 'GET', overriding))
    }
  }

  #onRoute (request: FastifyRequest, reply: FastifyReply, next: HookHandlerDoneFunction, route: Route, safe: boolean): void {
    const { raw } = request
    if (route.idempotency === null || safe) {
      const ignoredKey = !safe && headerLines(raw.rawHeaders, 'idempotency-key').length > 0
      if (ignoredKey) this.#options.meter.ignored()
      request.onceway = { route, ignoredKey, rules: this.#options.routes.rulesFor(route) }
      this.#pass(request, reply, next)
      return
    }
    const { idempotency } = route
    const passing = passingOf(raw, route.match, idempotency)
    if (passing !== null) {
      if (passing.kind === 'passes') this.#options.meter.passed(route.name, passing.preset, passing.why)
      else this.#options.meter.keyless(route.name)
      request.onceway = { route, ignoredKey: passing.kind === 'passes', rules: this.#options.routes.rulesFor(route) }
      this.#pass(request, reply, next)
      return
    }
    const rules = rulesOf(idempotency)
    const trusted = rules.vouched.length === 0 || this.#options.peers.forwardedOf(raw).trusted
    const refusal = takenAwayRefusal(raw.rawHeaders, idempotency.key) ?? decidingRefusal(raw.rawHeaders, rules, trusted)
    if (refusal !== null) return this.#refuse(request, reply, refusal)
    reply.hijack()
    void this.#guard(request, reply.raw, { ...route, idempotency })
  }

  #refuse (request: FastifyRequest, reply: FastifyReply, detail: string): void {
    void reply.header('connection', 'close')
    sendProblem(reply, 'bad-request', request.id, this.#options.problemBaseUri, { detail })
  }

  #pass (request: FastifyRequest, reply: FastifyReply, next: HookHandlerDoneFunction): void {
    mayContinue(request.raw, reply.raw)
    next()
  }

  async #guard (request: FastifyRequest, response: ServerResponse, route: GuardedRoute): Promise<void> {
    const startedAt = performance.now()
    const { raw } = request
    // A socket that breaks must not end the process; the execution does not care (E1).
    raw.on('error', ignored)
    response.on('error', ignored)
    const steps: Steps = {}
    const outcome = await this.#outcomeOf(request, response, route, steps)
    const plain = replyTo(outcome, {
      route,
      requestId: request.id,
      origin: headerValue(raw.rawHeaders, 'origin'),
      problemBaseUri: this.#options.problemBaseUri
    })
    const reply = isRepeatable(route.idempotency.key.sources, raw.rawHeaders) ? withResult(plain, outcome) : plain
    addRequestId(reply.headers, request.id)
    const note = (sentBytes: number): void => { this.#note(raw, route, request.id, reply, steps, sentBytes, performance.now() - startedAt) }
    if (isWhole(raw, reply)) behindThisTurn(() => { note(this.#write(response, reply, request.id)) })
    else note(await this.#writeSlowly(raw, response, reply, request.id))
  }

  #write (response: ServerResponse, reply: WholeReply, requestId: string): number {
    try {
      return writeWhole(response, reply, this.#options.closing())
    } catch (error) {
      return this.#unwritten(response, requestId, error)
    }
  }

  async #writeSlowly (raw: IncomingMessage, response: ServerResponse, reply: Reply, requestId: string): Promise<number> {
    try {
      return await writeSlowly(raw, response, reply, this.#options.closing())
    } catch (error) {
      return this.#unwritten(response, requestId, error)
    }
  }

  #unwritten (response: ServerResponse, requestId: string, error: unknown): number {
    this.#options.log.error({ requestId, error: error instanceof Error ? error.stack : String(error) }, 'answer could not be written')
    response.destroy()
    return 0
  }

  async #outcomeOf (request: FastifyRequest, response: ServerResponse, route: GuardedRoute, steps: Steps): Promise<Exclude<Outcome, { kind: 'keyless' }>> {
    try {
      const outcome = await handle(this.#options.gateway, this.#guardedRequest(request, response, route, steps))
      if (outcome.kind !== 'keyless') return outcome
    } catch (error) {
      // A fault of ours. What was sent is looked after by its execution; this client is told that nothing is promised.
      this.#options.log.error({ requestId: request.id, route: route.name, error: error instanceof Error ? error.stack : String(error) }, 'request failed in the gateway')
    }
    return { kind: 'unknown', timedOut: false }
  }

  #guardedRequest (request: FastifyRequest, response: ServerResponse, route: GuardedRoute, steps: Steps): GuardedRequest {
    const { raw } = request
    return {
      route,
      method: raw.method ?? 'POST',
      target: raw.url ?? '/',
      rawHeaders: raw.rawHeaders,
      clientCertificate: clientCertificateOf(raw),
      connection: raw.socket,
      forwarded: this.#options.peers.forwardedOf(raw),
      requestId: request.id,
      steps,
      readBody: async (bytesMax, reserve, release) => readBody(raw, () => { mayContinue(raw, response) }, { bytesMax, reserve, release, timeoutMs: this.#options.bodyTimeoutMs ?? BODY_TIMEOUT_MS, clock: this.#options.gateway.world.clock }),
      gone: async () => closed(response)
    }
  }

  /** One wide line per guarded request. No key, credential, query or body. */
  #note (raw: IncomingMessage, route: GuardedRoute, requestId: string, reply: Reply, steps: Steps, sentBytes: number, ms: number): void {
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
      keyFrom: steps.keyFrom,
      attempt: steps.attempt,
      bodyMs: steps.bodyMs,
      claimMs: steps.claimMs,
      upstreamMs: steps.upstreamMs,
      settleMs: steps.settleMs,
      waitMs: steps.waitMs,
      requestBytes: steps.requestBytes,
      reason: steps.reason ?? reply.reason
    })
  }
}

/** A field that the key is made of, and that the next hop is told to remove. */
function takenAwayRefusal (rawHeaders: RawHeaders, { sources }: KeyPolicy): string | null {
  for (const source of sources) {
    for (const name of headersRead(source)) {
      const refusal = name === USUAL_KEY_HEADER ? null : requestRefusal(rawHeaders, name)
      if (refusal !== null) return refusal
    }
  }
  return null
}

type Passing = Extract<FoundKey, { kind: 'absent' | 'passes' }>

/** Nothing in the head is a key, nothing in the body is to be one, and no inbox takes it without; or what the head is of, a preset lets pass. null: it is guarded. */
function passingOf ({ rawHeaders, url = '/' }: IncomingMessage, match: Route['match'], idempotency: IdempotencyPolicy): Passing | null {
  const policy = idempotency.key
  if (policy.required && !policy.sources.some(({ kind }) => kind === 'preset')) return null
  // The time matters to keys that are there, and those are looked at again.
  const found = findKey(policy, { rawHeaders, target: url, match, nowMs: Date.now }, null)
  return found.kind === 'passes' || (found.kind === 'absent' && !policy.required && !takesKeyless(idempotency, rawHeaders)) ? found : null
}

/** Under each of the methods that a server may take it for. */
function isSafe (method: string, overriding: readonly string[]): boolean {
  return SAFE_METHODS.has(method) && overriding.every(other => SAFE_METHODS.has(other))
}

function ignored (): void {}

/** An answered request's response closes too: whoever waits for this stops waiting either way. */
async function closed (response: ServerResponse): Promise<void> {
  if (!response.destroyed) await new Promise<void>(resolve => { response.once('close', resolve) })
}

/** Whom a request is for decides its route; servers differ in which of two Hosts they believe (RFC 9112 3.2). */
function hostRefusal (raw: IncomingMessage): string | null {
  const hosts = headerLines(raw.rawHeaders, 'host').length
  if (hosts > 1) return 'The request has more than one host header line.'
  return hosts === 0 && raw.httpVersion === '1.1' ? 'The request has no host header line.' : null
}
