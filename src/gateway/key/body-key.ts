/** `key`, where the head has none that can be used: a key in the body, or one that the gateway makes for a request without any. */
import { lookInto } from '../../core/json/pointer.ts'
import { KEY_RANDOM_BYTES } from '../../core/key/issued-keys.ts'
import { findKey, noKeyDetail } from '../../core/key/sources.ts'
import type { FoundKey } from '../../core/key/sources.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import type { Deps } from '../shared/deps.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'
import type { GuardedRequest } from './guarded-request.ts'
import { keyRefusal, takesKeyless } from './head-key.ts'

/** A key, or that there is none in the head. */
export type SoughtKey = Exclude<GuardedRequest['key'], { kind: 'refused' }>

/** `passes`: a preset lets the request through without a record. */
export type KeyFound = Extract<FoundKey, { kind: 'key' | 'passes' }> | { readonly kind: 'refused', readonly outcome: Rejected }

export function keyWith (deps: Deps, request: GuardedRequest, key: SoughtKey, body: Buffer): KeyFound {
  const { route, rawHeaders, target } = request
  const found = key.kind === 'body'
    ? findKey(route.idempotency.key, { rawHeaders, target, match: route.match, nowMs: deps.clock.wallMs }, body)
    : key
  if (found.kind === 'keyless' || (found.kind === 'absent' && takesKeyless(route.idempotency, rawHeaders))) {
    return keyOfOnce(deps, route.name)
  }
  if (found.kind === 'key' || found.kind === 'passes') return found
  return { kind: 'refused', outcome: refusalOfKey(route.idempotency.key.sources, found, body) }
}

/** No two requests have it. */
function keyOfOnce (deps: Deps, route: string): Extract<FoundKey, { kind: 'key' }> {
  deps.meter.keyless(route)
  return { kind: 'key', key: `keyless:${deps.random.bytes(KEY_RANDOM_BYTES).toString('base64url')}` }
}

function refusalOfKey (sources: readonly KeySource[], found: Exclude<FoundKey, { kind: 'key' | 'passes' }>, body: Buffer): Rejected {
  if (found.kind === 'missing') return rejected('key-missing', `${noKeyDetail(sources, found)}${unreadOf(body)}`)
  return found.kind === 'body' ? rejected('key-missing') : keyRefusal(sources, found)
}

/** The sender sees a value in its body where the gateway finds none: the detail says why. */
function unreadOf (body: Buffer): string {
  const found = lookInto(body, [])
  return 'kind' in found ? ` The body ${found.why}.` : ''
}
