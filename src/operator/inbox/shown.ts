/** What of a message a role may see. */
import { may } from '../../core/operator/roles.ts'
import type { Identity } from '../../core/operator/roles.ts'
import type { MessageJson } from './schemas.ts'

/** A viewer sees no answers, and a header of one may be as telling as its body: a `Location`, an account, a session. */
export function shownTo ({ role }: Pick<Identity, 'role'>, message: MessageJson): MessageJson {
  return message.answer === null || may(role, 'reader') ? message : { ...message, answer: { ...message.answer, headers: null } }
}
