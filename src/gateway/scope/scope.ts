/** Whose request it is: by what its connection said a moment ago, by its head alone, or by a token that has to be verified first. */
import type { Caller, ScopeResult } from '../../core/scope/caller.ts'
import { firstUncounted } from '../../core/headers/carrier-names.ts'
import { headersRead } from '../../core/key/sources.ts'
import type { IdempotencyPolicy, UpstreamPolicy } from '../../core/policy/policy.ts'
import type { Rules } from '../../core/record/rules.ts'
import { bearerToken, scopeOf, scopeOnHost } from '../../core/scope/scope.ts'
import type { Claims } from '../../core/scope/scope.ts'
import type { FoundCarriers } from '../../core/headers/found-carriers.ts'
import { signingOf } from '../../core/headers/signature.ts'
import type { Signing } from '../../core/headers/signature.ts'
import { faultReason, tokenChallenge, tokenDetail } from '../../core/headers/token.ts'
import type { TokenFault } from '../../core/headers/token.ts'
import type { ClaimsResult } from '../../ports/tokens.ts'
import type { Ids } from '../shared/ids.ts'
import type { KnownScopes } from './known-scopes.ts'
import type { Notices } from '../shared/notices.ts'
import type { Deps } from '../shared/deps.ts'
import { decidingOf } from './known-scopes.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

export interface CallerContext {
  readonly deps: Deps
  readonly ids: Ids
  readonly notices: Notices
  readonly knownScopes: KnownScopes
}

export interface CallerRequest extends Caller {
  /** What it came on, the same object for as long as that stands. Absent: nothing is remembered of it. */
  readonly connection?: object
}

/**
 * `jwt`: how tokens are verified, where a part of the scope is a claim. `verify`: how a replay to callers who sign is
 * authorised; absent: it is not said.
 */
export type WhoseKey = Pick<IdempotencyPolicy, 'scope' | 'jwt'> & Partial<Pick<IdempotencyPolicy, 'key' | 'verify'>>

/** `scope`: what the record is found by. `caller`: the same without the host, of which the caller's keys and places know nothing. */
export interface Scoped { readonly scope: string, readonly caller: string }

/** Of the same request and the same claims, by either rules; null: they cannot tell whose it is. */
interface UnderRules { readonly under: (rules: Rules) => Scoped | null }

export type CallerScope =
  | { readonly kind: 'scope' } & Scoped & UnderRules
  | { readonly kind: 'refused', readonly outcome: Rejected } & UnderRules

/** `place`: for the log. `host`: of the upstream; what it is told of the host decides whether that is part of the record. */
export async function callerScope (
  context: CallerContext,
  request: CallerRequest,
  whose: WhoseKey,
  place: string,
  host: UpstreamPolicy['host'] = 'upstream'
): Promise<CallerScope> {
  const { rules } = context.ids
  const { connection } = request
  const deciding = connection === undefined
    ? null
    : decidingOf(request.rawHeaders, whose.scope, { rules, trusted: request.forwarded.trusted, signing: signing(whose) })
  const known = deciding === null || connection === undefined ? null : context.knownScopes.find(connection, deciding)
  if (known !== null) return answer({ kind: 'scope', scope: known }, { rules, request, whose, claims: null, host })
  const token = needsToken(whose) ? await verified(context, request, whose) : null
  if (token?.kind === 'unavailable') return { kind: 'refused', outcome: rejected('scope-unavailable'), under: nobody }
  if (token?.kind === 'invalid') return { kind: 'refused', outcome: badToken(token.fault), under: nobody }
  const claims = token?.claims ?? null
  const found = scopeOf(request, whose.scope, claims, optionsOf(whose, rules, deciding?.shown))
  if (found.kind === 'scope') {
    if (isOfNobody(found.scope, whose)) sayUncounted(context, request, whose, place)
    if (found.warning !== undefined) context.deps.log.debug({ route: place }, found.warning)
    else if (deciding !== null && connection !== undefined) context.knownScopes.keep(connection, deciding, found.scope)
  }
  return answer(found, { rules, request, whose, claims, host })
}

function isOfNobody (scope: string, { scope: policy }: WhoseKey): boolean {
  return policy.kind === 'credential' && policy.anonymous && (scope === 'anonymous' || /^anonymous[,:]/.test(scope))
}

/** Two callers that only this field tells apart share their keys. */
function sayUncounted (context: CallerContext, request: CallerRequest, whose: WhoseKey, route: string): void {
  const field = firstUncounted(request.rawHeaders, context.ids.rules, whose.key?.sources.flatMap(headersRead) ?? [])
  if (field === null) return
  context.notices.warn(
    'uncounted-field',
    route,
    field.toLowerCase(),
    { field, configure: `scope: [public, "header?:${field}"]` },
    'a caller without a credential shares its keys with all others, and this field, which may name it, does not count: configure the scope of this route if it tells callers apart'
  )
}

interface Asked {
  readonly rules: Rules
  readonly request: CallerRequest
  readonly whose: WhoseKey
  readonly claims: Claims
  readonly host: UpstreamPolicy['host']
}

function answer (found: ScopeResult, asked: Asked): CallerScope {
  const { rules, request, whose, claims } = asked
  const under = (other: Rules): Scoped | null => {
    const result = other === rules ? found : scopeOf(request, whose.scope, claims, optionsOf(whose, other))
    return result.kind === 'scope' ? scoped(result.scope, { ...asked, rules: other }) : null
  }
  if (found.kind === 'missing') return { kind: 'refused', outcome: rejected('scope-missing', found.detail), under }
  return { kind: 'scope', ...scoped(found.scope, asked), under }
}

/** Two hosts of an upstream that is told them are two applications: by the second rules they have records of their own. */
function scoped (caller: string, { rules, request, host }: Pick<Asked, 'rules' | 'request' | 'host'>): Scoped {
  return { scope: rules === 2 && host === 'preserve' ? scopeOnHost(caller, request) : caller, caller }
}

/** Those that hold now, then the others: what was made before a change of them is its caller's after it. */
export function eitherRules ({ rules }: Ids): readonly Rules[] {
  return rules === 1 ? [1, 2] : [2, 1]
}

function nobody (): null { return null }

function optionsOf (whose: WhoseKey, rules: Rules, shown?: FoundCarriers): Parameters<typeof scopeOf>[3] {
  const { key } = whose
  return {
    rules,
    signing: signing(whose),
    own: () => key === undefined ? [] : [key.header, ...key.sources.flatMap(headersRead)],
    ...(shown !== undefined && { carriers: shown })
  }
}

function signing ({ verify = null }: WhoseKey): Signing {
  return signingOf({ verify })
}

function needsToken ({ scope }: WhoseKey): boolean {
  return scope.kind === 'parts' && scope.parts.some((part) => part.kind === 'jwt')
}

/** null: there is none, which is for the scope to say: another part of it may be what is missing. */
async function verified (context: CallerContext, { rawHeaders }: CallerRequest, { jwt }: WhoseKey): Promise<ClaimsResult | null> {
  const token = bearerToken(rawHeaders)
  return token === null || jwt === null ? null : context.deps.tokens.verify(jwt, token)
}

/** Not "there is none": a client that is told so does not think of renewing the one that it has sent. */
function badToken (fault: TokenFault): Rejected {
  return {
    kind: 'rejected',
    code: 'token-invalid',
    detail: tokenDetail(fault),
    challenge: tokenChallenge(fault),
    reason: faultReason(fault)
  }
}
