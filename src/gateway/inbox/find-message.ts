/** The status of a message, for its sender alone. Everybody else gets 404. */
import { timingSafeEqual } from 'node:crypto'
import { messageScope } from '../../core/inbox/acceptance.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { TargetMessage } from '../../core/inbox/message-view.ts'
import { isDeadLetter, routeAndTarget, targetMessageId } from '../../core/inbox/targets.ts'
import type { ScopePart, ScopePolicy } from '../../core/policy/policy.ts'
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

/** `targets`: each target's message. null: the route has no targets, or this is the message of one. */
export interface FoundMessage {
  readonly kind: 'message'
  readonly message: MessageDetail
  readonly targets: readonly TargetMessage[] | null
}

/** `name`: the id in the path. */
export async function findMessage (context: FindContext, request: CallerRequest, name: string): Promise<FoundMessage | Rejected> {
  const { inbox, inboxes } = context.deps
  const id = Buffer.from(name, 'base64url')
  // Each id has one spelling. Another text that decodes to the same bytes is not its name.
  if (id.length !== ID_BYTES || id.toString('base64url') !== name) return NONE
  const message = await inbox.look(id).catch(() => 'unreachable' as const)
  if (message === 'unreachable') return UNREACHABLE
  // Its scope was made by the route, whichever target has it.
  const route = message === null ? undefined : inboxes.get(routeAndTarget(message.about.route).route)
  // Only its consumer was told of the copy of a dead message.
  if (message === null || route === undefined || isDeadLetter(message.about.route)) return NONE
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
  if (!isOwner(context, caller, message.scopeHash)) return NONE
  const targets = await targetsOf(context, message).catch(() => 'unreachable' as const)
  if (targets === 'unreachable') return UNREACHABLE
  // Who gets what dies knows its id.
  const isTold = route.idempotency.inbox.deadLetter !== null && mayBeAnybody(scope)
  return { kind: 'message', message: isTold ? { ...message, answer: null } : message, targets }
}

/**
 * The messages that were accepted with this one, in the order of the configuration. One of a target that is in no configuration any more is
 * found by its own id alone.
 */
async function targetsOf ({ deps: { inbox, inboxes } }: FindContext, message: MessageDetail): Promise<TargetMessage[] | null> {
  const own = routeAndTarget(message.about.route)
  const route = inboxes.get(own.route)
  if (own.target === null || route === undefined) return null
  const { scope, inbox: { targets } } = route.idempotency
  const names = targets.map(({ name }) => name)
  const all = names.includes(own.target) ? names : [own.target, ...names]
  const found = await Promise.all(all.map(async (name) =>
    ({ name, message: name === own.target ? message : await inbox.look(targetMessageId(message.id, name)) })))
  return found.flatMap(({ name, message: each }) => {
    if (each === null) return []
    // Where anybody who knows the id may ask, a target may: its deliveries have it. It gets no other target's answer.
    return [{ name, message: mayBeAnybody(scope) ? { ...each, answer: null } : each }]
  })
}

/** Callers without a credential share a scope. */
function mayBeAnybody (scope: ScopePolicy): boolean {
  const isOpen = (part: ScopePart): boolean => {
    switch (part.kind) {
      case 'const':
      case 'host': return true
      case 'credential': return part.anonymous
      case 'header':
      case 'cookie':
      case 'jwt': return part.optional === true
      case 'client-certificate': return false
    }
  }
  return scope.kind === 'parts' ? scope.parts.every(isOpen) : isOpen(scope)
}

/** By the scheme that the message was accepted under, not by the one that claims now. */
function isOwner (context: FindContext, caller: CallerScope, scopeHash: Buffer): boolean {
  return context.ids.schemeKeys.some(({ rules, secret }) => {
    const scope = caller.byRules(rules)?.scope
    return scope !== undefined && timingSafeEqual(messageScope(scope, secret), scopeHash)
  })
}

const NONE = rejected('no-message')
const UNREACHABLE = rejected('store-unavailable', 'The store does not answer, so nobody can tell how the message stands.')
/** The sender is known by a token that cannot be verified just now, or has expired. */
const TOKEN_TROUBLE: ReadonlySet<ProblemCode> = new Set(['scope-unavailable', 'token-invalid'])
