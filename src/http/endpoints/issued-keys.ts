/** POST /.well-known/idempotency-keys: issues a key. It is checked before any route. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ISSUED_KEYS_PATH } from '../../core/key/issued-keys.ts'
import type { IssuedKeysPolicy } from '../../core/policy/policy.ts'
import type { IssuedKey } from '../../gateway/issued-keys/issue.ts'
import { issueKey } from '../../gateway/issued-keys/issue.ts'
import type { Rejected } from '../../gateway/shared/outcome.ts'
import { parseTarget } from '../../routing/target.ts'
import { bodyOf } from '../shared/body.ts'
import { sendContinue } from '../connection/connection.ts'
import { clientCertificateOf } from '../shared/client-certificate.ts'
import { countFor } from '../connection/counted-response.ts'
import { answersPreflight } from './preflight.ts'
import { sendOwn, sendProblem, sendRefusal } from '../respond/problem-reply.ts'
import type { ServerOptions } from '../shared/options.ts'
import type { ReceivedRequest } from '../shared/request-id.ts'

/** Only this exact path. So no other path of an upstream is hidden. */
export function requestsIssuedKey ({ method = 'GET', url = '/' }: IncomingMessage): boolean {
  const target = parseTarget(method, url)
  return target.kind === 'path' && target.path === ISSUED_KEYS_PATH
}

/** Any method. Other methods than POST get 405. */
export function sendIssuedKey (request: ReceivedRequest, response: ServerResponse, policy: IssuedKeysPolicy, options: ServerOptions): void {
  countFor(response, ISSUED_KEYS_PATH)
  if (request.raw.method === 'POST') {
    void issueAndAnswer(request, response, policy, options)
    return
  }
  if (answersPreflight(request, response, ['POST'], options)) return
  sendProblem(request, response, 'bad-request', options, { status: 405, detail: 'A key is asked for by POST.', headers: ['Allow', 'POST'] })
}

/** Never rejects. */
async function issueAndAnswer (
  request: ReceivedRequest,
  response: ServerResponse,
  policy: IssuedKeysPolicy,
  options: ServerOptions
): Promise<void> {
  const startedAt = performance.now()
  const outcome = await outcomeOf(request, response, policy, options)
  write(request, response, outcome, options)
  noteOwnRequest(
    ISSUED_KEYS_PATH,
    request,
    response.statusCode,
    outcome.kind === 'issued' ? outcome.kind : outcome,
    performance.now() - startedAt,
    options
  )
}

async function outcomeOf (
  request: ReceivedRequest,
  response: ServerResponse,
  policy: IssuedKeysPolicy,
  { gateway, log, peers, limits: { requestBodyMs, clientIdleMs } }: ServerOptions
): Promise<IssuedKey | Rejected> {
  const { raw } = request
  try {
    return await issueKey(gateway, policy, {
      rawHeaders: raw.rawHeaders,
      clientCertificate: clientCertificateOf(raw),
      forwarded: peers.forwardedOf(raw),
      peer: peers.peerOf(raw),
      connection: raw.socket,
      readBody: async (bytesMax, budget) => bodyOf(raw, () => { sendContinue(raw, response) }, {
        bytesMax,
        budget,
        timeoutMs: requestBodyMs,
        idleMs: clientIdleMs,
        clock: gateway.deps.clock,
        deadlines: gateway.deadlines
      })
    })
  } catch (error) {
    log.error(
      { event: 'key-issue-error', requestId: request.id, error: error instanceof Error ? error.stack : String(error) },
      'a key could not be issued'
    )
    return { kind: 'rejected', code: 'overloaded', close: true }
  }
}

function write (request: ReceivedRequest, response: ServerResponse, outcome: IssuedKey | Rejected, options: ServerOptions): void {
  if (outcome.kind === 'issued') {
    const body = Buffer.from(JSON.stringify({ key: outcome.key, expiresAt: new Date(outcome.expiresAtMs).toISOString() }))
    return sendOwn(
      request,
      response,
      { status: 201, headers: ['Content-Type', 'application/json', 'Cache-Control', 'no-store'], body, close: false },
      options
    )
  }
  sendRefusal(request, response, outcome, options)
}

/**
 * Counts and logs a request to the gateway itself. `path` takes the place of the route's name. No route name begins
 * with a slash.
 */
export function noteOwnRequest (
  path: string,
  { id, raw }: ReceivedRequest,
  status: number,
  result: Rejected | string,
  ms: number,
  { meter, requests }: ServerOptions
): void {
  const unknown = {
    record: undefined,
    keyFrom: undefined,
    attempt: undefined,
    scopeMs: undefined,
    bodyMs: undefined,
    fingerprintMs: undefined,
    claimMs: undefined,
    upstreamMs: undefined,
    settleMs: undefined,
    waitMs: undefined,
    requestBytes: undefined
  }
  const { outcome, reason } = typeof result === 'string'
    ? { outcome: result, reason: undefined }
    : { outcome: result.code, reason: result.reason }
  meter.request(path, outcome, ms)
  requests.note({ ...unknown, requestId: id, route: path, method: raw.method ?? '', outcome, reason, status, ms, responseBytes: 0 })
}
