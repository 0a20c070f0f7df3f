/** Routes that take only keys of the gateway's own: asked when the caller is known and nothing is claimed. */
import { ISSUED_KEYS_PATH, judgeIssuedKey } from '../core/issued-keys.ts'
import type { IssuedKeyVerdict } from '../core/issued-keys.ts'
import type { FoundKey } from '../core/key-sources.ts'
import type { Gateway } from './gateway.ts'
import type { GuardedRequest } from './admission.ts'
import { rejected } from './outcome.ts'
import type { Rejected } from './outcome.ts'

/** null: the route takes any key, or this one is good. */
export function notIssued (gateway: Gateway, { route, steps }: GuardedRequest, found: FoundKey, scope: string): Rejected | null {
  const { issued } = route.idempotency
  if (issued === null) return null
  const verdict = found.kind === 'key' ? judgeIssuedKey(issued, { key: found.key, scope, nowMs: gateway.world.clock.wallMs() }) : 'forged'
  if (verdict === 'good') return null
  steps.reason = `KEY_${verdict.toUpperCase()}`
  return rejected('key-invalid', DETAILS[verdict])
}

const DETAILS: Readonly<Record<Exclude<IssuedKeyVerdict, 'good'>, string>> = {
  forged: `This route takes only keys that the gateway has issued to this caller. Ask for one with POST ${ISSUED_KEYS_PATH}.`,
  early: 'This key was issued later than it is now: the clocks of the gateways differ. Nothing was sent; retry with the same key.',
  expired: 'This key has expired. If a request with it was sent before, it may have been executed: check with the service before you ask for a new key.'
}
