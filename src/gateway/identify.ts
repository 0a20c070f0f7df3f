/**
 * From a request's head to its identity: `scope`, `body`, `key` (if it is in the body), `fingerprint`. A refusal here costs nothing
 * and leaves nothing behind. Authorisation and the limits of executions come later (pipeline.ts).
 */
import { keySourceText } from '../core/key/sources.ts'
import type { FoundKey } from '../core/key/sources.ts'
import { BodyReservation } from './body/body-reservation.ts'
import { BodyBudget, holderOf } from './body/body-budget.ts'
import { readWhole } from './body/read-whole.ts'
import type { ReadBody } from './body/read-whole.ts'
import { ONE } from './execution/modes.ts'
import type { InboxMode, SplitMessage } from './execution/modes.ts'
import { keyedRequest } from './fingerprint/keyed-request.ts'
import type { KeyedRequest, Part } from './fingerprint/keyed-request.ts'
import { passOn } from './forward/pass-on.ts'
import { issuedKeyRefusal } from './issued-keys/judge.ts'
import { resolveKey } from './key/body-key.ts'
import type { UsableHeadKey } from './key/body-key.ts'
import type { GuardedRequest } from './key/guarded-request.ts'
import type { Limits } from './limits/limits.ts'
import { callerScope } from './scope/scope.ts'
import type { CallerContext } from './scope/scope.ts'
import type { Drain } from './shared/drain.ts'
import type { Identified, ScopeByRules } from './shared/ids.ts'
import { rejected } from './shared/outcome.ts'
import type { Outcome } from './shared/outcome.ts'

export interface IdentifyContext extends CallerContext {
  readonly drain: Drain
  readonly limits: Limits
  readonly inbox: InboxMode
  /** This process executes it, or has its answer in memory. */
  readonly isInMemory: (name: string) => boolean
}

/** `parts`: the events of a batch. Each becomes one message. */
export interface IdentifiedRequest {
  readonly kind: 'keyed'
  readonly keyed: KeyedRequest
  readonly parts: readonly Part[] | null
  /** The same request, identified again. null: not possible now. @throws as the store does */
  readonly again: () => Promise<Omit<IdentifiedRequest, 'kind' | 'again'> | null>
}

export type Identification = IdentifiedRequest | { readonly kind: 'refused' | 'passed', readonly outcome: Outcome }

export async function identify (context: IdentifyContext, request: GuardedRequest, key: UsableHeadKey): Promise<Identification> {
  const { route } = request
  if (context.drain.refusing) return refused({ kind: 'rejected', code: 'draining', close: true })
  const startedAt = context.deps.clock.monotonicMs()
  const scope = await callerScope(context, request, route.idempotency, route.name, route.upstream.host)
  request.steps.scopeMs = context.deps.clock.monotonicMs() - startedAt
  if (scope.kind === 'refused') return scope
  if (context.ids.blocked !== null) return refused({ kind: 'unavailable' })
  const foreign = key.kind === 'keyless' ? null : issuedKeyRefusal(context, request, key, scope)
  if (foreign !== null) return refused(foreign)
  const leave = context.limits.takeCallerSlot(scope.caller)
  if (leave === null) return refused(rejected('too-many-in-flight'))
  const holder = holderOf(scope.caller, request.peer)
  request.steps.holder = holder
  const room = new BodyBudget(context.limits, holder, route.idempotency.keep.requestBytesMax)
  let identification: Identification | null = null
  try {
    const scopeByRules: ScopeByRules = (rules) => scope.byRules(rules)?.scope ?? null
    identification = await identifyBody(context, request, key, { scopeByRules, room, leave })
    return identification
  } finally {
    // An identified request gives its slot back together with its body (body/body-reservation.ts).
    if (identification?.kind !== 'keyed') {
      room.release()
      leave()
    }
  }
}

async function identifyBody (
  context: IdentifyContext,
  request: GuardedRequest,
  key: UsableHeadKey,
  caller: Caller
): Promise<Identification> {
  const { route, steps } = request
  const read = await readWhole(context.deps, request, route.idempotency.keep.requestBytesMax, caller.room)
  if (read.kind === 'refused') return read
  const split = key.kind === 'body' ? context.inbox.split(request, read.body, context.deps.clock.wallMs, context.ids.rules) : ONE
  if (split.kind === 'refused') return refused(split.outcome)
  if (split.kind === 'several') return severalOf(context, request, split.messages, { ...caller, read })
  const found = resolveKey(context.deps, request, key, read.body)
  if (found.kind === 'refused') return found
  if (found.kind === 'passes') return passed(context, request, found, { body: read.body, room: caller.room })
  if (found.source !== undefined && route.idempotency.key.sources.length > 1) steps.keyFrom = keySourceText(found.source)
  return identified(context, request, { ...caller, found, read }, null)
}

/** By the scheme of ids that this process knows of. The store may know a newer one. */
function identified (
  context: IdentifyContext,
  request: GuardedRequest,
  { scopeByRules, room, leave, found, read }: Keyed,
  messages: readonly SplitMessage[] | null
): Identification {
  const { route } = request
  const reservation = new BodyReservation(room, leave)
  const { isInMemory } = context
  const keyed = (identity: Identified): KeyedRequest => keyedRequest(context.deps, request, { ...found, ...read }, identity, reservation)
  const first = context.ids.identify(route, scopeByRules, found.key, isInMemory)
  if (first === null) return refused({ kind: 'unavailable' })
  const made = keyed(first)
  return {
    kind: 'keyed',
    keyed: made,
    parts: messages?.map((message) =>
      context.inbox.partOf(made, message, context.ids.identify(route, scopeByRules, message.key, isInMemory) ?? first)) ?? null,
    again: async () => {
      await context.ids.refresh()
      const identity = await context.ids.identifyAnew(route, scopeByRules, found.key)
      if (identity === null) return null
      const anew = keyed(identity)
      const parts = messages === null
        ? null
        : await Promise.all(messages.map(async (message) =>
          context.inbox.partOf(anew, message, await context.ids.identifyAnew(route, scopeByRules, message.key) ?? identity)))
      return { keyed: anew, parts }
    }
  }
}

/** Named after its first event. The buffers hold its body twice: whole, and in parts. */
function severalOf (
  context: IdentifyContext,
  request: GuardedRequest,
  messages: readonly [SplitMessage, ...SplitMessage[]],
  read: Omit<Keyed, 'found'>
): Identification {
  const [{ key, source }] = messages
  if (!read.room.take(read.read.body.length)) return refused(read.room.refused())
  const found = { kind: 'key', key, ...(source !== null && { source }) } as const
  return identified(context, request, { ...read, found }, messages)
}

async function passed (
  context: IdentifyContext,
  request: GuardedRequest,
  { preset, why }: Extract<FoundKey, { kind: 'passes' }>,
  { body, room }: { readonly body: Buffer, readonly room: BodyBudget }
): Promise<Identification> {
  context.deps.meter.passed(request.route.name, preset, why)
  request.steps.keyFrom = preset
  return { kind: 'passed', outcome: await passOn(context, request, body, room.holder) }
}

interface Caller {
  readonly scopeByRules: ScopeByRules
  /** Counts the bytes of its body. */
  readonly room: BodyBudget
  /** Gives the caller's slot back. */
  readonly leave: () => void
}

interface Keyed extends Caller {
  readonly found: Extract<FoundKey, { kind: 'key' }>
  readonly read: Extract<ReadBody, { kind: 'body' }>
}

function refused (outcome: Outcome): Identification {
  return { kind: 'refused', outcome }
}
