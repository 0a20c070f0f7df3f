/** Phase `key`, if the head has no usable key: the key is in the body, or the gateway makes one for a request without any. */
import { lookInto } from '../../core/json/pointer.ts'
import { KEY_RANDOM_BYTES } from '../../core/key/issued-keys.ts'
import { findKey, noKeyDetail } from '../../core/key/sources.ts'
import type { FoundKey } from '../../core/key/sources.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import type { Deps } from '../shared/deps.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'
import type { IncomingRequest } from './incoming-request.ts'
import { keyRefusal, takesKeyless } from './head-key.ts'

/** What the head says of the key, if the request was not refused for it. */
export type UsableHeadKey = Exclude<IncomingRequest['key'], { kind: 'refused' }>

/** `passes`: the route's preset lets the request through without a record. */
export type ResolvedKey = Extract<FoundKey, { kind: 'key' | 'passes' }> | { readonly kind: 'refused', readonly outcome: Rejected }

export interface KeyDeps {
  readonly clock: Pick<Deps['clock'], 'wallMs'>
  readonly meter: Pick<Deps['meter'], 'keyless'>
  readonly random: Deps['random']
}

export function resolveKey (
  deps: KeyDeps,
  request: Pick<IncomingRequest, 'route' | 'rawHeaders' | 'target'>,
  key: UsableHeadKey,
  body: Buffer
): ResolvedKey {
  const { route, rawHeaders, target } = request
  const found = key.kind === 'body'
    ? findKey(route.idempotency.key, { rawHeaders, target, match: route.match, nowMs: deps.clock.wallMs }, body)
    : key
  if (found.kind === 'keyless' || (found.kind === 'absent' && takesKeyless(route.idempotency, rawHeaders))) {
    return oneTimeKey(deps, route.name)
  }
  if (found.kind === 'key' || found.kind === 'passes') return found
  return { kind: 'refused', outcome: refusalOfKey(route.idempotency.key.sources, found, body) }
}

/** A random key that no other request has. */
function oneTimeKey (deps: KeyDeps, route: string): Extract<FoundKey, { kind: 'key' }> {
  deps.meter.keyless(route)
  return { kind: 'key', key: `keyless:${deps.random.bytes(KEY_RANDOM_BYTES).toString('base64url')}` }
}

function refusalOfKey (sources: readonly KeySource[], found: Exclude<FoundKey, { kind: 'key' | 'passes' }>, body: Buffer): Rejected {
  if (found.kind === 'missing') return rejected('key-missing', `${noKeyDetail(sources, found)}${unreadableDetail(body)}`)
  return found.kind === 'body' ? rejected('key-missing') : keyRefusal(sources, found)
}

/** Why the gateway finds no key in a body in which the sender sees one. */
function unreadableDetail (body: Buffer): string {
  const found = lookInto(body, [])
  return 'kind' in found ? ` The body ${found.why}.` : ''
}
