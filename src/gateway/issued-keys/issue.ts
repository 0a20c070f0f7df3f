/** Issues keys (core/key/issued-keys.ts). They are not stored, so that only the caller's scope is needed. */
import { ISSUED_KEYS_PATH, KEY_RANDOM_BYTES, makeIssuedKey } from '../../core/key/issued-keys.ts'
import type { IssuedKeysPolicy } from '../../core/policy/policy.ts'
import { bodyRefusal } from '../body/read-whole.ts'
import type { BodyResult } from '../body/read-whole.ts'
import type { IncomingRequest } from '../key/incoming-request.ts'
import { callerScope } from '../scope/scope.ts'
import type { CallerContext, CallerRequest } from '../scope/scope.ts'
import type { Deps } from '../shared/deps.ts'
import type { Drain } from '../shared/drain.ts'
import type { Limits } from '../limits/limits.ts'
import type { Rejected } from '../shared/outcome.ts'
import { BodyBudget, holderOf } from '../body/body-budget.ts'

/** The request needs no body. A body is read all the same, so that the connection can be used again. */
const BODY_BYTES_MAX = 16 * 1024

export interface KeyRequest extends CallerRequest, Pick<IncomingRequest, 'peer'> {
  readonly readBody: (bytesMax: number, budget: BodyBudget) => Promise<BodyResult>
}

export interface IssueContext extends CallerContext {
  readonly deps: CallerContext['deps'] & Pick<Deps, 'clock' | 'random'>
  readonly drain: Drain
  readonly limits: Limits
}

export interface IssuedKey { readonly kind: 'issued', readonly key: string, readonly expiresAtMs: number }

export async function issueKey (
  context: IssueContext,
  policy: IssuedKeysPolicy,
  request: KeyRequest
): Promise<IssuedKey | Rejected> {
  if (context.drain.refusing) return { kind: 'rejected', code: 'draining', close: true }
  const scope = await callerScope(context, request, policy, ISSUED_KEYS_PATH)
  if (scope.kind === 'refused') return scope.outcome
  const budget = new BodyBudget(context.limits, holderOf(scope.caller, request.peer), BODY_BYTES_MAX)
  const read = await request.readBody(BODY_BYTES_MAX, budget)
  budget.release()
  if (read.kind !== 'body') return bodyRefusal(read.kind, budget)
  const { clock, random } = context.deps
  return {
    kind: 'issued',
    ...makeIssuedKey(policy, { scope: scope.caller, nowMs: clock.wallMs(), random: random.bytes(KEY_RANDOM_BYTES) })
  }
}
