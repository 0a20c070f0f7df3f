/** Checks the key on routes that take only issued keys. It runs when the caller is known and nothing is claimed. */
import { ISSUED_KEYS_PATH, judgeIssuedKey } from '../../core/key/issued-keys.ts'
import type { IssuedKeyVerdict } from '../../core/key/issued-keys.ts'
import type { FoundKey } from '../../core/key/sources.ts'
import type { IssuedKeysPolicy } from '../../core/policy/policy.ts'
import type { Ids } from '../shared/ids.ts'
import type { Deps } from '../shared/deps.ts'
import type { IncomingRequest } from '../key/incoming-request.ts'
import { currentRulesFirst } from '../scope/scope.ts'
import type { CallerScope } from '../scope/scope.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

export interface JudgeContext {
  readonly deps: { readonly clock: Pick<Deps['clock'], 'wallMs'> }
  readonly ids: Pick<Ids, 'rules'>
}

/** null: the route takes any key, or this key is good. */
export function issuedKeyRefusal (
  context: JudgeContext,
  { route, steps }: Pick<IncomingRequest, 'route' | 'steps'>,
  found: FoundKey,
  caller: Pick<CallerScope, 'byRules'>
): Rejected | null {
  const { issued } = route.idempotency
  if (issued === null) return null
  const decision = found.kind === 'key' ? verdictForCaller(context, issued, found.key, caller) : 'forged'
  if (decision === 'good') return null
  steps.reason = `KEY_${decision.toUpperCase()}`
  return rejected('key-invalid', DETAILS[decision])
}

/** A key is good for its caller under the rules by which it was issued, whatever the current rules are. */
function verdictForCaller (
  context: JudgeContext,
  issued: IssuedKeysPolicy,
  key: string,
  caller: Pick<CallerScope, 'byRules'>
): IssuedKeyVerdict {
  const nowMs = context.deps.clock.wallMs()
  for (const rules of currentRulesFirst(context.ids)) {
    const scope = caller.byRules(rules)?.caller
    const decision = scope === undefined ? 'forged' : judgeIssuedKey(issued, { key, scope, nowMs })
    if (decision !== 'forged') return decision
  }
  return 'forged'
}

const DETAILS: Readonly<Record<Exclude<IssuedKeyVerdict, 'good'>, string>> = {
  forged: `This route takes only keys that the gateway has issued to this caller. Ask for one with POST ${ISSUED_KEYS_PATH}.`,
  early: 'This key was issued later than it is now: the clocks of the gateways differ. Nothing was sent; retry with the same key.',
  expired: 'This key has expired. If a request with it was sent before, it may have been executed: check with the service before you ask for a new key.'
}
