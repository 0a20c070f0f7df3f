/**
 * What dies in an inbox may go to another consumer, with why (`inbox.deadLetter`). Its copy is a message like any other, in an inbox of its
 * own: the name of the inbox with DEAD_LETTER (targets.ts) behind it. The commit that ends the dead message accepts the copy. So there is
 * one for each death, and none without one. Pure.
 */
import { withoutFields } from '../headers/lines.ts'
import { framedDigest } from '../record/digest.ts'
import type { DeadLetter, Delivery, Fate } from './message.ts'
import { deadLetterRoute, withoutSender } from './targets.ts'
import type { InboxRoute } from './targets.ts'

/** The fate. If it is a death, with the copy for the dead-letter target. */
export function withDeadLetter (fate: Fate, { token: { id, attempt }, request, tries }: Delivery, route: InboxRoute): Fate {
  const to = deadLetterRoute(route)
  if (fate.kind !== 'dead' || to === null) return fate
  const { upstream, idempotency: { scope, inbox } } = to
  const sent = withoutSender(request.headers, scope)
  const letter: DeadLetter = {
    id: deadLetterId(id, attempt),
    route: to.name,
    target: route.idempotency.inbox.deadLetter?.path ?? request.target,
    headers: [
      // The dead message may have kept the host that its sender asked for.
      ...upstream.host === 'preserve' ? sent : withoutFields(sent, ['host']),
      'Onceway-Dead-Key',
      id.toString('base64url'),
      'Onceway-Dead-Route',
      route.name,
      'Onceway-Dead-Error',
      fate.error,
      'Onceway-Dead-Tries',
      String(fate.counts === false ? tries - 1 : tries)
    ],
    deadKeepMs: inbox.deadRetentionMs
  }
  return { ...fate, letter }
}

/** It separates these hashes from every other hash of the same texts. */
const ID_DOMAIN = 'onceway:dead-letter:1'

/** A message that an operator has retried may die again, in a later delivery. */
function deadLetterId (id: Buffer, attempt: number): Buffer {
  return framedDigest([ID_DOMAIN, id, String(attempt)])
}
