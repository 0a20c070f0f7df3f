/** The status of a message, for its sender alone. Everybody else gets 404. */
import { timingSafeEqual } from 'node:crypto'
import { messageScope } from '../../core/inbox/acceptance.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import { ID_BYTES } from '../../core/record/record.ts'
import { callerScope } from '../scope/scope.ts'
import type { CallerContext, CallerRequest, CallerScope } from '../scope/scope.ts'
import type { Deps } from '../shared/deps.ts'
import type { Ids } from '../shared/ids.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

export interface FindContext extends CallerContext {
  readonly deps: CallerContext['deps'] & Pick<Deps, 'inbox' | 'inboxes'>
  readonly ids: Pick<Ids, 'rules' | 'schemeKeys'>
}

export interface FoundMessage { readonly kind: 'message', readonly message: MessageDetail }

/** `name`: the id in the path. */
export async function findMessage (context: FindContext, request: CallerRequest, name: string): Promise<FoundMessage | Rejected> {
  const { inbox, inboxes } = context.deps
  const id = Buffer.from(name, 'base64url')
  // Each id has one spelling. Another text that decodes to the same bytes is not its name.
  if (id.length !== ID_BYTES || id.toString('base64url') !== name) return NONE
  const message = await inbox.look(id).catch(() => 'unreachable' as const)
  if (message === 'unreachable') {
    return rejected('store-unavailable', 'The store does not answer, so nobody can tell how the message stands.')
  }
  const route = message === null ? undefined : inboxes.get(message.about.route)
  if (message === null || route === undefined) return NONE
  // No signature is verified here. The status of a signed message is for its named sender alone.
  const { scope, jwt, key, verify } = route.idempotency
  const caller = await callerScope(
    context,
    request,
    { scope, jwt, key, verify: verify === 'by-key-id' ? verify : null },
    route.name,
    route.upstream.host
  )
  // Not 404: the sender must not take the message for lost. This reveals only that the text is an id of 256 bits.
  if (caller.kind === 'refused' && TOKEN_TROUBLE.has(caller.outcome.code)) return caller.outcome
  return isOwner(context, caller, message.scopeHash) ? { kind: 'message', message } : NONE
}

/** By the scheme that the message was accepted under, not by the one that claims now. */
function isOwner (context: FindContext, caller: CallerScope, scopeHash: Buffer): boolean {
  return context.ids.schemeKeys.some(({ rules, secret }) => {
    const scope = caller.byRules(rules)?.scope
    return scope !== undefined && timingSafeEqual(messageScope(scope, secret), scopeHash)
  })
}

const NONE = rejected('no-message')
/** The sender is known by a token that cannot be verified just now, or has expired. */
const TOKEN_TROUBLE: ReadonlySet<ProblemCode> = new Set(['scope-unavailable', 'token-invalid'])
