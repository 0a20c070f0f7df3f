/**
 * Messages as the operator API shows them. Never a request's body or a credential. Of an answer's body the first bytes, of each delivery. A
 * key only if the route keeps its text.
 */
import { maskHeader } from '../../config/read/mask.ts'
import { pairs } from '../../core/headers/lines.ts'
import { bodyView } from '../../core/inbox/message-view.ts'
import type { MessageDetail, PastDelivery } from '../../core/inbox/message.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { MessageSummary } from '../../ports/operator.ts'
import { timeOrNull, timeText } from '../shared/query.ts'
import type { MessageJson, PastDeliveryJson } from './schemas.ts'

export function messageJson (message: MessageDetail | MessageSummary): MessageJson {
  const { about, answer, fingerprint } = message
  return {
    id: message.id.toString('base64url'),
    state: message.state,
    error: message.error,
    lastStatus: message.status,
    attempt: message.attempt,
    tries: message.tries,
    route: about.route,
    method: about.method,
    path: about.path,
    requestBytes: message.bytes,
    requestId: about.requestId,
    instance: about.instance,
    key: about.keyText,
    keyHash: about.keyHash.toString('base64url'),
    fingerprint: { alg: fingerprint.alg, value: fingerprint.value.toString('base64url') },
    ordered: message.ordered,
    receivedAt: timeText(message.receivedAtMs),
    dueAt: timeOrNull(message.dueAtMs),
    settledAt: timeOrNull(message.settledAtMs),
    expiresAt: timeOrNull(message.expiresAtMs),
    requestKeptUntil: timeOrNull(message.requestUntilMs),
    replayedAt: timeOrNull(message.replayedAtMs),
    answer: answer === null
      ? null
      : {
          status: answer.status,
          headers: shown(answer.headers),
          bodyBytes: 'body' in answer ? answer.body.length : answer.bodyBytes
        }
  }
}

export function deliveryJson ({ attempt, atMs, ms, status, error, contentType, body, isCut }: PastDelivery): PastDeliveryJson {
  return {
    attempt,
    at: timeText(atMs),
    ms,
    status,
    error,
    contentType: contentType?.replace(NOT_SHOWN, '?') ?? null,
    ...status === null ? { body: null, encoding: 'utf-8' } : bodyView(body, isCut),
    truncated: isCut
  }
}

/** Headers of the consumer's answer. Secrets are masked, and control characters replaced, because a consumer may send anything. */
function shown (headers: RawHeaders): Array<[name: string, value: string]> {
  return Array.from(pairs(headers), ([name, value]) => [name, maskHeader(value, name).replace(NOT_SHOWN, '?')])
}

// eslint-disable-next-line no-control-regex -- these are what is replaced
const NOT_SHOWN = /[\x00-\x1f\x7f-\x9f]/g
