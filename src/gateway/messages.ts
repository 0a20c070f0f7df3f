/** How a message stands, told to its sender and to nobody else: to all others it is as if it were not there. */
import { timingSafeEqual } from 'node:crypto'
import { messageScope } from '../core/acceptance.ts'
import type { MessageDetail } from '../core/message.ts'
import { ID_BYTES } from '../core/record.ts'
import { callerScope } from './caller.ts'
import type { CallerRequest } from './caller.ts'
import type { Gateway } from './gateway.ts'
import { rejected } from './outcome.ts'
import type { Rejected } from './outcome.ts'

export interface FoundMessage { readonly kind: 'message', readonly message: MessageDetail }

/** `name`: what stands for the id in the path. */
export async function findMessage (gateway: Gateway, request: CallerRequest, name: string): Promise<FoundMessage | Rejected> {
  const { inbox, inboxes } = gateway.world
  const id = Buffer.from(name, 'base64url')
  // One spelling of each id: what decodes to the same bytes is not the same name.
  if (id.length !== ID_BYTES || id.toString('base64url') !== name) return NONE
  const message = await inbox.look(id).catch(() => 'unreachable' as const)
  if (message === 'unreachable') return rejected('store-unavailable', 'The store does not answer, so nobody can tell how the message stands.')
  const route = message === null ? undefined : inboxes.get(message.about.route)
  if (message === null || route === undefined) return NONE
  const scope = await callerScope(gateway, request, route.idempotency, route.name)
  if (scope.kind === 'refused') {
    // Not "none": its sender must not take it for lost. Tells nobody more than that an id of 256 bits is one.
    return scope.outcome.code === 'scope-unavailable' ? scope.outcome : NONE
  }
  return timingSafeEqual(messageScope(scope.scope), message.scopeHash) ? { kind: 'message', message } : NONE
}

const NONE = rejected('no-message')
