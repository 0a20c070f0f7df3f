/**
 * What dies in an inbox may go to another consumer, with why (`inbox.deadLetter`). Its copy is a message like any other, in an inbox of its
 * own: the name of the inbox with DEAD_LETTER (targets.ts) behind it. The commit that ends the dead message accepts the copy. So there is
 * one for each death, and none without one. Pure.
 */
import { withoutFields } from '../headers/lines.ts'
import type { DeadLetter, Delivery, Fate } from './message.ts'
import { deadLetterRoute, withoutSender } from './targets.ts'
import type { InboxRoute } from './targets.ts'

/**
 * The fate. If it is a death, with the copy for the dead-letter target. `id`: 32 random bytes. A key that is used again after the retention
 * is a message with the same id and the same attempts, and its death is another one.
 */
export function withDeadLetter (fate: Fate, { token, request, tries }: Delivery, route: InboxRoute, id: () => Buffer): Fate {
  if (fate.kind !== 'dead') return fate
  const to = deadLetterRoute(route)
  if (to === null) return fate
  const { upstream, idempotency: { scope, inbox } } = to
  const sent = withoutSender(request.headers, scope)
  const letter: DeadLetter = {
    id: id(),
    route: to.name,
    target: route.idempotency.inbox.deadLetter?.path ?? request.target,
    headers: [
      // The dead message may have kept the host that its sender asked for.
      ...upstream.host === 'preserve' ? sent : withoutFields(sent, ['host']),
      'Onceway-Dead-Key',
      token.id.toString('base64url'),
      'Onceway-Dead-Route',
      route.name,
      'Onceway-Dead-Error',
      fate.error,
      'Onceway-Dead-Tries',
      String(fate.counts === false ? tries - 1 : tries)
    ],
    bytes: request.body.length,
    deadKeepMs: inbox.deadRetentionMs
  }
  return { ...fate, letter }
}
