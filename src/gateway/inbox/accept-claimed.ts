/** `async: allowed`: a request that has won its claim is accepted instead of sent. */
import type { ModeContext } from '../execution/modes.ts'
import { INBOX_UNREACHED } from '../execution/modes.ts'
import type { NewMessage } from '../../core/inbox/message.ts'
import { errorText, StoreUnavailable } from '../../ports/errors.ts'
import type { AcceptResult, InboxStore } from '../../ports/inbox.ts'
import type { UpstreamResult } from '../../ports/upstream.ts'
import type { ClaimedAcceptance, Execution } from '../execution/execution.ts'
import { compareMessage } from '../fingerprint/comparison.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import { AGAIN, retryUntil, STORE_BACKOFF } from '../shared/retry.ts'
import { messagesOf, placesOf } from './new-message.ts'

/**
 * With the claim won, the inbox is checked for both kinds of requests. A message may exist though its record has ended, lapsed or been
 * released. null: the request is sent. `maySend`: the owner believes in its lease.
 */
export async function acceptClaimed (
  context: ModeContext,
  execution: Execution,
  maySend: () => boolean
): Promise<UpstreamResult | ClaimedAcceptance | null> {
  const { keyed } = execution
  if (keyed.deferred) return acceptInPlace(context, execution, maySend)
  try {
    const message = await context.deps.inbox.look(keyed.id)
    return message === null ? null : taken(keyed, { kind: 'seen', message })
  } catch (error) {
    return unreached(context, keyed, error)
  }
}

/**
 * An acceptance in doubt is repeated until the store answers. It is the same message each time. Waiters get an answer after the
 * time for a claim. The lease is held meanwhile, so that nobody sends what may be in the inbox. When the lease has ended, the
 * store gets one last try. It takes nothing under a claim that is over, and the record should say what the inbox says.
 */
async function acceptInPlace (
  context: ModeContext,
  execution: Execution,
  maySend: () => boolean
): Promise<UpstreamResult | ClaimedAcceptance> {
  const { keyed } = execution
  const { clock, claimWithinMs, inbox } = context.deps
  const underClaim = { owner: execution.owner, attempt: execution.attempt }
  const messages = claimedMessages(keyed, clock.wallMs()).map((message) => ({ ...message, underClaim }))
  const cancelTimer = clock.after(claimWithinMs, () => { execution.end({ kind: 'unavailable', inDoubt: true }) })
  let inDoubt = false
  let isLast = false
  try {
    return await retryUntil<UpstreamResult | ClaimedAcceptance>(context.drain, STORE_BACKOFF, async () => {
      if (inDoubt && context.drain.stopped) return IN_DOUBT
      isLast = !maySend()
      if (isLast && !inDoubt) return { kind: 'unsent', code: 'LEASE' }
      const result = await acceptTogether(inbox, messages)
      // Too late: the claim has ended, so no try that is still on its way can be accepted either.
      if (result.kind === 'recorded') return { kind: 'unsent', code: 'LEASE' }
      if (result.kind === 'accepted') for (const message of messages) noteMessage(context, message)
      return taken(keyed, result)
    }, (error) => {
      inDoubt ||= mayHaveCome(error)
      if (!inDoubt) return unreached(context, keyed, error)
      execution.end({ kind: 'unavailable', inDoubt: true })
      return isLast ? IN_DOUBT : AGAIN
    })
  } finally {
    cancelTimer()
  }
}

/** What decides where it goes was read before the claim. */
function claimedMessages (keyed: KeyedRequest, nowMs: number): NewMessage[] {
  const found = placesOf(keyed, keyed, { nowMs, isClaimed: true })
  const messages = found.kind === 'places' ? messagesOf(keyed, keyed, found.places) : []
  if (messages.length === 0) throw new Error('a request without a place in the inbox was claimed')
  return messages
}

/** Those of all targets, or none. The first one says what became of them. */
async function acceptTogether (inbox: Pick<InboxStore, 'accept' | 'acceptAll'>, messages: readonly NewMessage[]): Promise<AcceptResult> {
  const [first, ...others] = messages
  if (first === undefined) throw new TypeError('there is no message')
  if (others.length === 0) return inbox.accept(first)
  const [result] = await inbox.acceptAll(messages)
  return result as AcceptResult
}

/** The store has not said whether there is a message. */
const IN_DOUBT: UpstreamResult = { kind: 'lost', code: INBOX_UNREACHED, timedOut: true, status: null }

function taken (keyed: KeyedRequest, result: AcceptResult): ClaimedAcceptance {
  if (result.kind === 'accepted') return { kind: 'accepted', isNew: true }
  if (result.kind !== 'seen') throw new Error(`an acceptance under a claim that was told: ${result.kind}`)
  return compareMessage(keyed, keyed, result.message) === 'same' ? { kind: 'accepted', isNew: false } : { kind: 'taken-by-another' }
}

function unreached (context: ModeContext, keyed: KeyedRequest, error: unknown): UpstreamResult {
  context.deps.log.warn(
    { event: 'inbox-unavailable', record: keyed.name, route: keyed.route.name, error: errorText(error) },
    'the inbox does not answer; nothing was sent'
  )
  return { kind: 'unsent', code: INBOX_UNREACHED }
}

export function mayHaveCome (error: unknown): boolean {
  return error instanceof StoreUnavailable && error.inDoubt
}

/** Call it after the acknowledged commit of a message. */
export function noteMessage (context: ModeContext, { request, about, delayMs }: NewMessage): void {
  context.depths.accepted(about.route, request.body.length)
  context.onMessage(delayMs)
}
