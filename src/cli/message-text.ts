/** Messages as text for operators. Never a body or a credential. Never a key, unless the route keeps its text (`key.store`). */
import { maskHeader } from '../config/read/mask.ts'
import { pairs } from '../core/headers/lines.ts'
import { MESSAGE_STATES } from '../core/inbox/message.ts'
import type { MessageDetail, MessageState } from '../core/inbox/message.ts'
import { StartError } from '../ports/errors.ts'
import { textOrNull, timeText } from './record-text.ts'

export function readMessageState (text: string): MessageState {
  const state = MESSAGE_STATES.find((known) => known === text)
  if (state === undefined) throw new StartError(`--state must be one of ${MESSAGE_STATES.join(', ')}.`, 2)
  return state
}

export const MESSAGE_HEADINGS = ['ID', 'STATE', 'ATTEMPT', 'RECEIVED', 'ROUTE', 'REQUEST', 'LAST RESULT'] as const

/** The cells of one table row. */
export function messageCells ({ id, state, attempt, receivedAtMs, about, error, status }: MessageDetail): string[] {
  return [
    id.toString('base64url'),
    state,
    String(attempt),
    timeText(receivedAtMs),
    about.route,
    `${about.method} ${about.path}`,
    error ?? (status === null ? '' : `HTTP_${status}`)
  ]
}

/** All details of one message, one per line. */
export function messageLines (message: MessageDetail, store: string): string[] {
  const { about, answer } = message
  const members: Array<[name: string, value: string | number | null]> = [
    ['store', store],
    ['id', message.id.toString('base64url')],
    ['state', message.state],
    ['error', message.error],
    ['last status', message.status],
    ['attempt', message.attempt],
    ['tries', message.tries],
    ['route', about.route],
    ['request', `${about.method} ${about.path}`],
    ['request body', `${message.bytes} bytes`],
    ['request id', about.requestId],
    ['gateway', about.instance],
    ['key', about.keyText],
    ['key hash', about.keyHash.toString('base64url')],
    ['fingerprint', `${message.fingerprint.value.toString('base64url')} (algorithm ${message.fingerprint.alg})`],
    ['ordered', message.ordered ? 'yes' : 'no'],
    ['received', timeText(message.receivedAtMs)],
    ['due', textOrNull(message.dueAtMs)],
    ['settled', textOrNull(message.settledAtMs)],
    ['expires', textOrNull(message.expiresAtMs)],
    ['answer', answer === null ? null : `${answer.status}, body of ${answer.body.length} bytes`],
    ...shown(message).map(([name, value]): [string, string] => ['answer header', `${name}: ${value}`])
  ]
  return members.flatMap(([name, value]) => value === null ? [] : [`${`${name}:`.padEnd(15)}${value}`])
}

/** The same details as one line of JSON, for programs. */
export function messageJson (message: MessageDetail): string {
  const { about, answer, fingerprint } = message
  return JSON.stringify({
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
    dueAt: textOrNull(message.dueAtMs),
    settledAt: textOrNull(message.settledAtMs),
    expiresAt: textOrNull(message.expiresAtMs),
    answer: answer === null ? null : { status: answer.status, headers: shown(message), bodyBytes: answer.body.length }
  })
}

/** The state of a message, in one clause. */
export function stateText ({ state, attempt, error }: MessageDetail): string {
  return `state ${state}, attempt ${attempt}${error === null ? '' : `, ${error}`}`
}

/** Headers of the consumer's answer. Secrets are masked, and control characters replaced, because a consumer may send anything. */
function shown ({ answer }: MessageDetail): Array<[name: string, value: string]> {
  return answer === null
    ? []
    : Array.from(pairs(answer.headers), ([name, value]) => [name, maskHeader(value, name).replace(NOT_SHOWN, '?')])
}

// eslint-disable-next-line no-control-regex -- these are what is replaced
const NOT_SHOWN = /[\x00-\x1f\x7f-\x9f]/g
