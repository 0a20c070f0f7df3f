/** What of a message a role may see. */
import { may } from '../../core/operator/roles.ts'
import type { Identity } from '../../core/operator/roles.ts'
import type { MessageDetailJson, MessageJson } from './schemas.ts'

/** A viewer sees no answers, and a header of one may be as telling as its body: a `Location`, an account, a session. */
export function shownTo ({ role }: Pick<Identity, 'role'>, message: MessageJson): MessageJson {
  return message.answer === null || may(role, 'reader') ? message : { ...message, answer: { ...message.answer, headers: null } }
}

export function detailShownTo (identity: Pick<Identity, 'role'>, message: MessageDetailJson): MessageDetailJson {
  if (may(identity.role, 'reader')) return message
  const deliveries = message.deliveries.map((delivery) =>
    ({ ...delivery, contentType: null, body: null, encoding: 'utf-8' as const, truncated: false }))
  return { ...message, ...shownTo(identity, message), deliveries }
}
