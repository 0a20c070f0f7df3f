/** GET /.well-known/onceway/messages/ID: the state of a message. It is checked before any route. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { MESSAGES_PATH } from '../../core/inbox/acceptance.ts'
import { askAgainFirst, messageOfTargets, messageView } from '../../core/inbox/message-view.ts'
import { findMessage } from '../../gateway/inbox/find-message.ts'
import type { FoundMessage } from '../../gateway/inbox/find-message.ts'
import { rejected } from '../../gateway/shared/outcome.ts'
import type { Rejected } from '../../gateway/shared/outcome.ts'
import { parseTarget } from '../../routing/target.ts'
import { noteOwnRequest } from './issued-keys.ts'
import { clientCertificateOf } from '../shared/client-certificate.ts'
import { countFor } from '../connection/counted-response.ts'
import { answersPreflight } from './preflight.ts'
import { sendOwn, sendProblem, sendRefusal } from '../respond/problem-reply.ts'
import type { ServerOptions } from '../shared/options.ts'
import type { ReceivedRequest } from '../shared/request-id.ts'

/** The id in this exact path. null: another path. */
export function requestedMessage ({ method = 'GET', url = '/' }: IncomingMessage): string | null {
  const target = parseTarget(method, url)
  return target.kind === 'path' && target.path.startsWith(`${MESSAGES_PATH}/`) ? target.path.slice(MESSAGES_PATH.length + 1) : null
}

/** Any method. Other methods than GET and HEAD get 405. */
export function sendMessageState (request: ReceivedRequest, response: ServerResponse, name: string, options: ServerOptions): void {
  countFor(response, MESSAGES_PATH)
  if (request.raw.method === 'GET' || request.raw.method === 'HEAD') {
    void findAndAnswer(request, response, name, options)
    return
  }
  if (answersPreflight(request, response, ['GET', 'HEAD'], options)) return
  sendProblem(request, response, 'bad-request', options, {
    status: 405,
    detail: 'How a message stands is asked by GET or HEAD.',
    headers: ['Allow', 'GET, HEAD']
  })
}

/** Never rejects. */
async function findAndAnswer (request: ReceivedRequest, response: ServerResponse, name: string, options: ServerOptions): Promise<void> {
  const startedAt = performance.now()
  const found = await find(request, name, options)
  if (found.kind === 'rejected') sendRefusal(request, response, found, options)
  else write(request, response, found, options)
  const result = found.kind === 'rejected' ? found : 'told'
  noteOwnRequest(MESSAGES_PATH, request, response.statusCode, result, performance.now() - startedAt, options)
}

async function find (
  { id, raw }: ReceivedRequest,
  name: string,
  { gateway, log, peers }: ServerOptions
): Promise<FoundMessage | Rejected> {
  try {
    return await findMessage(
      gateway,
      {
        rawHeaders: raw.rawHeaders,
        clientCertificate: clientCertificateOf(raw),
        forwarded: peers.forwardedOf(raw),
        connection: raw.socket
      },
      name
    )
  } catch (error) {
    log.error(
      { event: 'message-state-error', requestId: id, error: error instanceof Error ? error.stack : String(error) },
      'how a message stands could not be told'
    )
    return rejected('store-unavailable')
  }
}

function write (request: ReceivedRequest, response: ServerResponse, { message, targets }: FoundMessage, options: ServerOptions): void {
  const seconds = askAgainFirst(targets?.map((each) => each.message) ?? [message], options.gateway.deps.clock.wallMs())
  const view = targets === null ? messageView(message) : messageOfTargets(message, targets)
  const headers = [
    'Content-Type',
    'application/json',
    'Cache-Control',
    'no-store',
    ...seconds === null ? [] : ['Retry-After', String(seconds)]
  ]
  sendOwn(request, response, { status: 200, headers, body: Buffer.from(JSON.stringify(view)), close: false }, options)
}
