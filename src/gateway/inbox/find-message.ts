/** How a message stands, told to its sender and to nobody else: to all others it is as if it were not there. */
import { timingSafeEqual } from 'node:crypto'
import { messageScope } from '../../core/inbox/acceptance.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import { ID_BYTES } from '../../core/record/record.ts'
import { callerScope } from '../scope/scope.ts'
import type { CallerContext, CallerRequest, CallerScope } from '../scope/scope.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

export interface FoundMessage { readonly kind: 'message', readonly message: MessageDetail }

/** `name`: what stands for the id in the path. */
export async function findMessage (context: CallerContext, request: CallerRequest, name: string): Promise<FoundMessage | Rejected> {
  const { inbox, inboxes } = context.deps
  const id = Buffer.from(name, 'base64url')
  // One spelling of each id: what decodes to the same bytes is not the same name.
  if (id.length !== ID_BYTES || id.toString('base64url') !== name) return NONE
  const message = await inbox.look(id).catch(() => 'unreachable' as const)
  if (message === 'unreachable') {
    return rejected('store-unavailable', 'The store does not answer, so nobody can tell how the message stands.')
  }
  const route = message === null ? undefined : inboxes.get(message.about.route)
  if (message === null || route === undefined) return NONE
  // Nothing is verified here: of what a signature has brought in, only who names himself otherwise is told.
  const { scope, jwt, key, verify } = route.idempotency
  const caller = await callerScope(
    context,
    request,
    { scope, jwt, key, verify: verify === 'by-key-id' ? verify : null },
    route.name,
    route.upstream.host
  )
  // Not "none": its sender must not take it for lost. Tells nobody more than that an id of 256 bits is one.
  if (caller.kind === 'refused' && TOKEN_TROUBLE.has(caller.outcome.code)) return caller.outcome
  return isOwner(context, caller, message.scopeHash) ? { kind: 'message', message } : NONE
}

/** By the scheme that the message was accepted under, whichever claims now. */
function isOwner (context: CallerContext, caller: CallerScope, scopeHash: Buffer): boolean {
  return context.ids.schemeKeys.some(({ rules, secret }) => {
    const scope = caller.byRules(rules)?.scope
    return scope !== undefined && timingSafeEqual(messageScope(scope, secret), scopeHash)
  })
}

const NONE = rejected('no-message')
/** Of a sender who would be known by a token: it cannot be read just now, or is to be renewed. */
const TOKEN_TROUBLE: ReadonlySet<ProblemCode> = new Set(['scope-unavailable', 'token-invalid'])
