/** `async: allowed`: a request that has won its claim is accepted in the place of its sending. */
import type { Taken, ModeContext } from '../execution/modes.ts'
import { INBOX_UNREACHED } from '../execution/modes.ts'
import type { NewMessage } from '../../core/inbox/message.ts'
import { errorText, StoreUnavailable } from '../../ports/errors.ts'
import type { AcceptResult } from '../../ports/inbox.ts'
import type { UpstreamResult } from '../../ports/upstream.ts'
import type { Execution } from '../execution/execution.ts'
import { compareMessage } from '../fingerprint/comparison.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import { AGAIN, retryUntil, STORE_BACKOFF } from '../shared/retry.ts'
import { messageOf } from './new-message.ts'

/**
 * With the claim won, the inbox is looked at, whichever way this request goes: a message may stand there though its record
 * has ended, lapsed or been released. null: it is sent. `maySend`: the lease is believed.
 */
export async function acceptClaimed (
  context: ModeContext,
  execution: Execution,
  maySend: () => boolean
): Promise<UpstreamResult | Taken | null> {
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
 * An acceptance in doubt is made again until the store says what there is: it is the same message. Who waits is told after
 * the time for a claim; the lease is held meanwhile, so that nobody sends what may be in the inbox. When it has ended, the
 * store is asked once more: it takes nothing under a claim that is over, and the record is to say what the inbox says.
 */
async function acceptInPlace (context: ModeContext, execution: Execution, maySend: () => boolean): Promise<UpstreamResult | Taken> {
  const { keyed } = execution
  const { clock, claimWithinMs, inbox } = context.deps
  const message = { ...messageOf(keyed, keyed), underClaim: { owner: execution.owner, attempt: execution.attempt } }
  const cancelTimer = clock.after(claimWithinMs, () => { execution.result.resolve({ kind: 'unavailable', inDoubt: true }) })
  let inDoubt = false
  let isLast = false
  try {
    return await retryUntil<UpstreamResult | Taken>(context.drain, STORE_BACKOFF, async () => {
      if (inDoubt && context.drain.stopped) return IN_DOUBT
      isLast = !maySend()
      if (isLast && !inDoubt) return { kind: 'unsent', code: 'LEASE' }
      const result = await inbox.accept(message)
      // It came too late, whichever try of it: the claim has ended, and nothing that is under way can come in any more.
      if (result.kind === 'recorded') return { kind: 'unsent', code: 'LEASE' }
      if (result.kind === 'accepted') noteMessage(context, keyed.route.name, message)
      return taken(keyed, result)
    }, (error) => {
      inDoubt ||= mayHaveCome(error)
      if (!inDoubt) return unreached(context, keyed, error)
      execution.result.resolve({ kind: 'unavailable', inDoubt: true })
      return isLast ? IN_DOUBT : AGAIN
    })
  } finally {
    cancelTimer()
  }
}

/** The store has not said whether there is a message. */
const IN_DOUBT: UpstreamResult = { kind: 'lost', code: INBOX_UNREACHED, timedOut: true, status: null }

function taken (keyed: KeyedRequest, result: AcceptResult): Taken {
  if (result.kind === 'accepted') return { kind: 'accepted', isNew: true }
  if (result.kind !== 'seen') throw new Error(`an acceptance under a claim that was told: ${result.kind}`)
  return compareMessage(keyed, keyed, result.message) === 'same' ? { kind: 'accepted', isNew: false } : { kind: 'taken-by-another' }
}

function unreached (context: ModeContext, keyed: KeyedRequest, error: unknown): UpstreamResult {
  context.deps.log.warn(
    { record: keyed.name, route: keyed.route.name, error: errorText(error) },
    'the inbox does not answer; nothing was sent'
  )
  return { kind: 'unsent', code: INBOX_UNREACHED }
}

export function mayHaveCome (error: unknown): boolean {
  return error instanceof StoreUnavailable && error.inDoubt
}

/** A message has come in, and its commit is acknowledged. */
export function noteMessage (context: ModeContext, route: string, { request }: NewMessage): void {
  context.depths.accepted(route, request.body.length)
  context.onMessage()
}
