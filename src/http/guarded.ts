/**
 * The guarded way in: a request that meets a guarded route and carries a key is taken from Fastify (hijacked), handed to
 * the gateway, and its outcome written. Everything else goes on to the pass-through.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { preflightMethod } from '../core/headers/cors.ts'
import { decidingRefusal, rulesOf } from '../core/forward/deciding.ts'
import { USUAL_KEY_HEADER } from '../core/headers/fields.ts'
import { isHost } from '../core/headers/host.ts'
import { headerLines } from '../core/headers/lines.ts'
import { requestRefusal } from '../core/headers/headers.ts'
import { headersRead } from '../core/key/sources.ts'
import { overridingMethods, SAFE_METHODS } from '../core/headers/method-override.ts'
import type { GuardedRoute, KeyPolicy, Route } from '../core/policy/policy.ts'
import type { RawHeaders } from '../core/record/record.ts'
import { headKeyOf } from '../gateway/key/head-key.ts'
import type { HeadKey } from '../gateway/key/head-key.ts'
import { warnMistypedKey } from '../gateway/key/mistyped-key.ts'
import type { GuardedRequest } from '../gateway/key/guarded-request.ts'
import type { Steps } from '../gateway/shared/steps.ts'
import { handle } from '../gateway/pipeline.ts'
import type { Outcome } from '../gateway/shared/outcome.ts'
import { isRepeatable } from '../core/key/repeatability.ts'
import { errorStack } from '../ports/errors.ts'
import { replyTo, roomless, withResult } from './respond/answer.ts'
import type { Reply, ReplyContext } from './respond/answer.ts'
import { readBody } from './shared/body.ts'
import { mayContinue } from './connection/connection.ts'
import { askingOf, corsOfReply } from './respond/cors.ts'
import { asksForKey, giveKey } from './endpoints/issued-keys.ts'
import { messageAskedFor, tellMessage } from './endpoints/messages.ts'
import { informer } from './respond/informational.ts'
import { passThrough } from './pass/passthrough.ts'
import type { Passed } from './pass/passthrough.ts'
import { clientCertificateOf } from './shared/peer.ts'
import { ANY_METHOD, answersPreflight } from './endpoints/preflight.ts'
import type { LoadShedding } from './connection/load-shedding.ts'
import { problemAskedFor, tellProblem } from './endpoints/problem-pages.ts'
import { sendProblem } from './respond/problem-reply.ts'
import { addRequestId } from './shared/request-id.ts'
import type { ServerOptions } from './shared/options.ts'
import { atEndOfTick } from './respond/end-of-tick.ts'
import type { UpgradeWay } from './pass/tunnels.ts'
import { unreadOf } from './respond/unread.ts'
import { isWhole, writeSlowly, writeWhole } from './respond/write.ts'
import type { Unread, WholeWritten } from './respond/write.ts'

/** What a head comes to. */
type HeadDecision =
  | { readonly kind: 'guarded', readonly route: GuardedRoute, readonly key: GuardedRequest['key'], readonly alike: boolean }
  | { readonly kind: 'passed', readonly passed: Passed }
  /** Nothing is read behind it. */
  | { readonly kind: 'malformed', readonly detail: string, readonly status?: number }
  | { readonly kind: 'refused', readonly code: 'bad-request' | 'no-route', readonly detail?: string }

type Guarded = Extract<HeadDecision, { kind: 'guarded' }>

export class GuardedRequests {
  readonly #options: ServerOptions
  readonly #pressure: LoadShedding

  constructor (options: ServerOptions, pressure: LoadShedding) {
    this.#options = options
    this.#pressure = pressure
  }

  /** Takes every request: it never goes on to a route of Fastify's. */
  onRequest (request: FastifyRequest, reply: FastifyReply): void {
    const { raw } = request
    if (this.#pressure.sheds()) return sendProblem(request, reply, 'overloaded', this.#options)
    const malformed = malformedHead(raw)
    if (malformed !== null) return this.#refuse(request, reply, malformed)
    const { issuedKeys = null } = this.#options
    if (issuedKeys !== null && asksForKey(raw)) return giveKey(request, reply, issuedKeys, this.#options)
    const message = this.#options.gateway.deps.inboxes.size === 0 ? null : messageAskedFor(raw)
    if (message !== null) return tellMessage(request, reply, message, this.#options)
    const problem = problemAskedFor(raw)
    if (problem !== null) return tellProblem(request, reply, problem, this.#options)
    const way = this.#wayOf(raw)
    switch (way.kind) {
      case 'malformed': return this.#refuse(request, reply, way)
      case 'refused':
        if (way.code === 'no-route' && answersPreflight(request, reply, ANY_METHOD, this.#options)) return
        return sendProblem(request, reply, way.code, this.#options, way.detail === undefined ? {} : { detail: way.detail })
      case 'passed':
        reply.hijack()
        return passThrough(this.#options, raw, reply.raw, request.id, way.passed)
      case 'guarded':
        reply.hijack()
        void this.#guard(request, reply.raw, way)
    }
  }

  /** An upgrade is a safe request, which no policy guards; with a method that overrides its own it is none. */
  upgradeWay (raw: IncomingMessage): UpgradeWay {
    if (this.#pressure.sheds()) return { refused: 'overloaded' }
    if (this.#options.closing()) return { refused: 'draining' }
    if (this.#isOwn(raw)) return { refused: 'bad-request', status: METHOD_NOT_ALLOWED, detail: 'No upgrade can be asked of this resource.' }
    const way = malformedHead(raw) ?? this.#wayOf(raw)
    switch (way.kind) {
      case 'malformed': return { refused: 'bad-request', detail: way.detail, ...(way.status !== undefined && { status: way.status }) }
      case 'refused': return { refused: way.code, ...(way.detail !== undefined && { detail: way.detail }) }
      case 'passed': return way.passed
      case 'guarded': return { refused: 'bad-request', detail: 'An upgrade cannot be guarded. Nothing was sent.' }
    }
  }

  /** A resource of the gateway's own, which no upgrade can be asked of. */
  #isOwn (raw: IncomingMessage): boolean {
    const { issuedKeys = null, gateway } = this.#options
    return problemAskedFor(raw) !== null ||
      (issuedKeys !== null && asksForKey(raw)) ||
      (gateway.deps.inboxes.size > 0 && messageAskedFor(raw) !== null)
  }

  #wayOf (raw: IncomingMessage): HeadDecision {
    const { method = 'GET', url = '/', rawHeaders } = raw
    const overriding = overridingMethods(rawHeaders, url)
    // Under an overriding method it may be taken for more than a question.
    const announced = isSafe(method, overriding) ? preflightMethod(method, rawHeaders) : null
    const { routes } = this.#options
    const host = raw.headers.host ?? null
    const matched = announced === null ? routes.match(method, url, host, overriding) : routes.preflight(announced, url, host)
    switch (matched.kind) {
      case 'refused': return { kind: 'refused', code: 'bad-request', detail: matched.detail }
      case 'none': return { kind: 'refused', code: 'no-route', ...(matched.taken !== undefined && { detail: otherMethods(matched.taken) }) }
      case 'route':
        // Whose policy it is answers it: the upstream that gets what it announces.
        if (announced !== null) {
          return { kind: 'passed', passed: { route: matched.route, ignoredKey: false, rules: routes.rulesFor(matched.route) } }
        }
        if (matched.alike) this.#options.meter.alike(matched.route.name)
        return this.#onRoute(raw, matched, isSafe(method, overriding))
    }
  }

  #onRoute (raw: IncomingMessage, { route, alike }: { readonly route: Route, readonly alike: boolean }, safe: boolean): HeadDecision {
    if (!isGuarded(route) || safe) {
      const ignoredKey = !safe && headerLines(raw.rawHeaders, 'idempotency-key').length > 0
      if (ignoredKey) this.#options.meter.ignored()
      return { kind: 'passed', passed: { route, ignoredKey, rules: this.#options.routes.rulesFor(route) } }
    }
    const key = headKeyOf({ route, target: raw.url ?? '/', rawHeaders: raw.rawHeaders }, this.#options.gateway.deps.clock.wallMs)
    if (key.kind === 'unguarded') return this.#unguarded(raw, route, key)
    const rules = rulesOf(route.idempotency)
    const trusted = rules.trustedOnly.length === 0 || this.#options.peers.forwardedOf(raw).trusted
    const detail = takenAwayRefusal(raw.rawHeaders, route.idempotency.key) ?? decidingRefusal(raw.rawHeaders, rules, trusted)
    return detail === null ? { kind: 'guarded', route, key, alike } : { kind: 'malformed', detail }
  }

  /** A preset lets it pass, or it has no key. A client that misspells the field would believe itself protected. */
  #unguarded ({ rawHeaders }: IncomingMessage, route: GuardedRoute, { found }: Extract<HeadKey, { kind: 'unguarded' }>): HeadDecision {
    const { meter, gateway: { notices }, routes } = this.#options
    if (found.kind === 'passes') meter.passed(route.name, found.preset, found.why)
    else {
      meter.keyless(route.name)
      warnMistypedKey(notices, route.name, route.idempotency.key, rawHeaders, 'passed')
    }
    return { kind: 'passed', passed: { route, ignoredKey: found.kind === 'passes', rules: routes.rulesFor(route) } }
  }

  #refuse (request: FastifyRequest, reply: FastifyReply, { detail, status }: Extract<HeadDecision, { kind: 'malformed' }>): void {
    sendProblem(request, reply, 'bad-request', this.#options, { detail, close: true, ...(status !== undefined && { status }) })
  }

  async #guard (request: FastifyRequest, response: ServerResponse, way: Guarded): Promise<void> {
    const { route } = way
    const startedAt = performance.now()
    const { raw } = request
    // A socket that breaks must not end the process; the execution does not care (E1).
    raw.on('error', ignored)
    response.on('error', ignored)
    const steps: Steps = {}
    const outcome = await this.#outcomeOf(request, response, way, steps)
    const unread = unreadOf(this.#options, raw, steps.holder)
    const asking = askingOf(this.#options, raw, route.idempotency.key)
    const plain = replyWithRoom(response, unread, outcome, {
      route,
      requestId: request.id,
      asking,
      problemBaseUri: this.#options.problemBaseUri
    })
    const reply = isRepeatable(route.idempotency.key.sources, raw.rawHeaders) ? withResult(plain, outcome) : plain
    addRequestId(reply.headers, request.id)
    reply.headers.push(...corsOfReply(reply, outcome, asking))
    const note = (sentBytes: number): void => { this.#note(raw, way, request.id, reply, steps, sentBytes, performance.now() - startedAt) }
    if (isWhole(raw, reply)) atEndOfTick(() => { note(this.#write(response, reply, request.id, unread)) })
    else note(await this.#writeSlowly(raw, response, reply, request.id, unread))
  }

  #write (response: ServerResponse, reply: WholeWritten, requestId: string, unread: Unread): number {
    try {
      return writeWhole(response, reply, this.#options.closing(), unread)
    } catch (error) {
      return this.#unwritten(response, requestId, error)
    }
  }

  async #writeSlowly (raw: IncomingMessage, response: ServerResponse, reply: Reply, requestId: string, unread: Unread): Promise<number> {
    try {
      return await writeSlowly(raw, response, reply, this.#options.closing(), unread)
    } catch (error) {
      return this.#unwritten(response, requestId, error)
    }
  }

  #unwritten (response: ServerResponse, requestId: string, error: unknown): number {
    this.#options.log.error({ event: 'response-error', requestId, error: errorStack(error) }, 'answer could not be written')
    response.destroy()
    return 0
  }

  async #outcomeOf (request: FastifyRequest, response: ServerResponse, way: Guarded, steps: Steps): Promise<Outcome> {
    try {
      return await handle(this.#options.gateway, this.#guardedRequest(request, response, way, steps))
    } catch (error) {
      // A fault of ours. What was sent is looked after by its execution; this client is told that nothing is promised.
      this.#options.log.error(
        { event: 'request-error', requestId: request.id, route: way.route.name, error: errorStack(error) },
        'request failed in the gateway'
      )
      return { kind: 'unknown', timedOut: false }
    }
  }

  #guardedRequest (request: FastifyRequest, response: ServerResponse, { route, key }: Guarded, steps: Steps): GuardedRequest {
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
        const read = await readBody(raw, () => { mayContinue(raw, response) }, {
          bytesMax,
          take,
          timeoutMs: requestBodyMs,
          idleMs: clientIdleMs,
          clock
        })
        if (read.kind === 'too-slow') this.#options.meter.idled('request')
        return read
      },
      gone: async () => closed(response)
    }
  }

  /** One wide line per guarded request. No key, credential, query or body. */
  #note (
    raw: IncomingMessage,
    { route, alike }: Guarded,
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

/** A large answer that is kept is not begun without room for all of it: its client would get a part of it. */
function replyWithRoom (response: ServerResponse, unread: Unread, outcome: Outcome, context: ReplyContext): Reply {
  const reply = replyTo(outcome, context)
  const { body } = reply
  if (reply.kept !== true || !Buffer.isBuffer(body) || body.length <= ASKED_FOR_BYTES || response.destroyed) return reply
  const refusal = unread.ask(response, body.length)
  return refusal === null ? reply : roomless(refusal, context)
}

/** As much as a socket takes whose client reads: what is smaller is with the kernel as soon as it is written. */
const ASKED_FOR_BYTES = 64 * 1024

/** Of a path whose guarded route names its methods: the operator who did so is told, too. */
function otherMethods (taken: readonly string[]): string {
  return `No route of the gateway takes this method on this path; a guarded one takes ${taken.join(', ')}. In the configuration, leave match.methods out of that route and its other methods pass through, or add a route without idempotency for them.`
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

function isGuarded (route: Route): route is GuardedRoute {
  return route.idempotency !== null
}

/** Under each of the methods that a server may take it for. */
function isSafe (method: string, overriding: readonly string[]): boolean {
  return SAFE_METHODS.has(method) && overriding.every((other) => SAFE_METHODS.has(other))
}

function ignored (): void {}

/** An answered request's response closes too: whoever waits for this stops waiting either way. */
async function closed (response: ServerResponse): Promise<void> {
  if (!response.destroyed) await new Promise<void>((resolve) => { response.once('close', resolve) })
}

const METHOD_NOT_ALLOWED = 405
const VERSION_NOT_SUPPORTED = 505

/** What cannot be understood without guessing where it ends, or for whom it is: nothing is read behind it. */
function malformedHead (raw: IncomingMessage): Extract<HeadDecision, { kind: 'malformed' }> | null {
  const { httpVersion, rawHeaders } = raw
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return { kind: 'malformed', detail: 'The gateway speaks HTTP/1.1 and HTTP/1.0.', status: VERSION_NOT_SUPPORTED }
  }
  const detail = hostRefusal(raw) ?? requestRefusal(rawHeaders, USUAL_KEY_HEADER, httpVersion)
  return detail === null ? null : { kind: 'malformed', detail }
}

/** Whom a request is for decides its route; servers differ in which of two Hosts they believe (RFC 9112 3.2). */
function hostRefusal ({ rawHeaders, httpVersion, url = '/' }: IncomingMessage): string | null {
  const [host, second] = headerLines(rawHeaders, 'host')
  if (second !== undefined) return 'The request has more than one host header line.'
  // HTTP/1.0 needs none, unless its target is for one: the upstream would be asked for another.
  if (host === undefined) return httpVersion === '1.1' || !url.startsWith('/') ? 'The request has no host header line.' : null
  return isHost(host) ? null : 'The Host of the request is neither a name nor an address.'
}
