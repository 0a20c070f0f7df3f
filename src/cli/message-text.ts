/** Messages as text for operators. Never a body or a credential. Never a key, unless the route keeps its text (`key.store`). */
import { MESSAGE_STATES } from '../core/inbox/message.ts'
import type { MessageState } from '../core/inbox/message.ts'
import type { MessageDetailJson, MessageJson, PastDeliveryJson } from '../operator/inbox/schemas.ts'
import { StartError } from '../ports/errors.ts'

export function readMessageState (text: string): MessageState {
  const state = MESSAGE_STATES.find((known) => known === text)
  if (state === undefined) throw new StartError(`--state must be one of ${MESSAGE_STATES.join(', ')}.`, 2)
  return state
}

export const MESSAGE_HEADINGS = ['ID', 'STATE', 'ATTEMPT', 'RECEIVED', 'ROUTE', 'REQUEST', 'LAST RESULT'] as const

/** The cells of one table row. */
export function messageCells ({ id, state, attempt, receivedAt, route, method, path, error, lastStatus }: MessageJson): string[] {
  return [id, state, String(attempt), receivedAt, route, `${method} ${path}`, error ?? (lastStatus === null ? '' : `HTTP_${lastStatus}`)]
}

/** All details of one message, one per line. */
export function messageLines (message: MessageDetailJson, where: string): string[] {
  const { answer, fingerprint } = message
  const members: Array<[name: string, value: string | number | null]> = [
    ['store', where],
    ['id', message.id],
    ['state', message.state],
    ['error', message.error],
    ['last status', message.lastStatus],
    ['attempt', message.attempt],
    ['tries', message.tries],
    ['route', message.route],
    ['request', `${message.method} ${message.path}`],
    ['request body', `${message.requestBytes} bytes`],
    ['request id', message.requestId],
    ['gateway', message.instance],
    ['key', message.key],
    ['key hash', message.keyHash],
    ['fingerprint', `${fingerprint.value} (algorithm ${fingerprint.alg})`],
    ['ordered', message.ordered ? 'yes' : 'no'],
    ['received', message.receivedAt],
    ['due', message.dueAt],
    ['settled', message.settledAt],
    ['expires', message.expiresAt],
    ['kept until', message.requestKeptUntil],
    ['replayed', message.replayedAt],
    ['answer', answer === null ? null : `${answer.status}, body of ${answer.bodyBytes} bytes`],
    ...(answer?.headers ?? []).map(([name, value]): [string, string] => ['answer header', `${name}: ${value}`]),
    ...message.deliveries.map((delivery): [string, string] => ['delivery', deliveryText(delivery)])
  ]
  return members.flatMap(([name, value]) => value === null ? [] : [`${`${name}:`.padEnd(15)}${value}`])
}

function deliveryText ({ attempt, at, ms, status, error, contentType }: PastDeliveryJson): string {
  const answer = status === null ? [] : [`status ${status}`, ...contentType === null ? [] : [contentType]]
  return [`${attempt} at ${at}`, error ?? 'delivered', ...answer, ...ms === null ? [] : [`${ms} ms`]].join(', ')
}

/** The state of a message, in one clause. */
export function stateText (
  { state, attempt, error }: { readonly state: string, readonly attempt: number, readonly error: string | null }
): string {
  return `state ${state}, attempt ${attempt}${error === null ? '' : `, ${error}`}`
}
