/** The scope of a request: from the cache of its connection, from its head alone, or from a token that is verified first. */
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
import type { ScopeCache } from './scope-cache.ts'
import type { Notices } from '../shared/notices.ts'
import type { Deps } from '../shared/deps.ts'
import { scopeInputsOf } from './scope-cache.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

export interface CallerContext {
  readonly deps: Pick<Deps, 'tokens' | 'log'>
  readonly ids: Pick<Ids, 'rules'>
  readonly notices: Pick<Notices, 'warn'>
  readonly scopeCache: ScopeCache
}

export interface CallerRequest extends Caller {
  /** The connection: the same object for its whole life. Absent: nothing is cached for it. */
  readonly connection?: object
}

/**
 * How the caller of a request is found. `jwt`: how tokens are verified, if a part of the scope is a claim.
 * `verify`: how signatures are verified, if callers sign.
 */
export type CallerPolicy = Pick<IdempotencyPolicy, 'scope' | 'jwt'> & Partial<Pick<IdempotencyPolicy, 'key' | 'verify'>>

/** `scope`: part of the record's id. `caller`: the same without the host, for issued keys and for limits per caller. */
export interface Scoped { readonly scope: string, readonly caller: string }

/** The scope of the same request and claims under either rules. null: these rules cannot tell whose it is. */
interface ByRules { readonly byRules: (rules: Rules) => Scoped | null }

export type CallerScope =
  | { readonly kind: 'scope' } & Scoped & ByRules
  | { readonly kind: 'refused', readonly outcome: Rejected } & ByRules

/** As {@link scopeOfHead}. A token is verified first, if the policy needs one. */
export async function callerScope (
  context: CallerContext,
  request: CallerRequest,
  policy: CallerPolicy,
  place: string,
  host: UpstreamPolicy['host'] = 'upstream'
): Promise<CallerScope> {
  return scopeOfHead(context, request, policy, place, host) ??
    scopeOfToken(context, request, policy, place, host, await verifyToken(context, request, policy))
}

/**
 * The scope that the head alone gives. `place`: for the log. `host`: which Host the upstream gets. With `preserve`, the host is part of the
 * scope. null: a token must be verified first.
 */
export function scopeOfHead (
  context: CallerContext,
  request: CallerRequest,
  policy: CallerPolicy,
  place: string,
  host: UpstreamPolicy['host'] = 'upstream'
): CallerScope | null {
  return needsToken(policy) && hasToken(request, policy) ? null : scopeOfToken(context, request, policy, place, host, null)
}

function scopeOfToken (
  context: CallerContext,
  request: CallerRequest,
  policy: CallerPolicy,
  place: string,
  host: UpstreamPolicy['host'],
  token: ClaimsResult | null
): CallerScope {
  const { rules } = context.ids
  const { connection } = request
  const setting = { rules, trusted: request.forwarded.trusted, signing: signing(policy) }
  const known = connection === undefined || policy.scope.kind !== 'credential'
    ? null
    : context.scopeCache.find(connection, request.rawHeaders, setting)
  if (known !== null) return callerScopeOf({ kind: 'scope', scope: known }, { rules, request, policy, claims: null, host })
  const inputs = connection === undefined ? null : scopeInputsOf(request.rawHeaders, policy.scope, setting)
  if (token?.kind === 'unavailable') return { kind: 'refused', outcome: rejected('scope-unavailable'), byRules: noScope }
  if (token?.kind === 'invalid') return { kind: 'refused', outcome: tokenRefusal(token.fault), byRules: noScope }
  const claims = token?.claims ?? null
  const found = scopeOf(request, policy.scope, claims, optionsOf(policy, rules, inputs?.shown))
  if (found.kind === 'scope') {
    if (isAnonymous(found.scope, policy)) warnUncounted(context, request, policy, place)
    if (found.warning !== undefined) context.deps.log.debug({ event: 'scope-warning', route: place }, found.warning)
    else if (inputs !== null && connection !== undefined) context.scopeCache.keep(connection, inputs, found.scope)
  }
  return callerScopeOf(found, { rules, request, policy, claims, host })
}

function isAnonymous (scope: string, { scope: scopePolicy }: CallerPolicy): boolean {
  return scopePolicy.kind === 'credential' && scopePolicy.anonymous && (scope === 'anonymous' || /^anonymous[,:]/.test(scope))
}

/** Two callers that differ only in this field share their keys. */
function warnUncounted (context: CallerContext, request: CallerRequest, policy: CallerPolicy, route: string): void {
  const field = firstUncounted(request.rawHeaders, context.ids.rules, policy.key?.sources.flatMap(headersRead) ?? [])
  if (field === null) return
  context.notices.warn(
    'scope-field-uncounted',
    route,
    field.toLowerCase(),
    { field, configure: `scope: [public, "header?:${field}"]` },
    'a caller without a credential shares its keys with all others, and this field, which may name it, does not count: configure the scope of this route if it tells callers apart'
  )
}

interface ScopeQuery {
  readonly rules: Rules
  readonly request: CallerRequest
  readonly policy: CallerPolicy
  readonly claims: Claims
  readonly host: UpstreamPolicy['host']
}

function callerScopeOf (found: ScopeResult, asked: ScopeQuery): CallerScope {
  return found.kind === 'missing' ? new NoScope(found.detail, asked) : new FoundScope(found.scope, asked)
}

/** Scopes by other rules are made only when they are asked for, while records of two schemes are left. */
class FoundScope implements Scoped, ByRules {
  readonly kind = 'scope'
  readonly scope: string
  readonly caller: string
  readonly #asked: ScopeQuery

  constructor (caller: string, asked: ScopeQuery) {
    this.caller = caller
    this.scope = onHost(caller, asked)
    this.#asked = asked
  }

  byRules (other: Rules): Scoped | null {
    return other === this.#asked.rules ? this : scopedBy(other, this.#asked)
  }
}

class NoScope implements ByRules {
  readonly kind = 'refused'
  readonly outcome: Rejected
  readonly #asked: ScopeQuery

  constructor (detail: string, asked: ScopeQuery) {
    this.outcome = rejected('scope-missing', detail)
    this.#asked = asked
  }

  byRules (other: Rules): Scoped | null {
    return other === this.#asked.rules ? null : scopedBy(other, this.#asked)
  }
}

function scopedBy (rules: Rules, asked: ScopeQuery): Scoped | null {
  const { request, policy, claims } = asked
  const result = scopeOf(request, policy.scope, claims, optionsOf(policy, rules))
  return result.kind === 'scope' ? { scope: onHost(result.scope, { ...asked, rules }), caller: result.scope } : null
}

/** With `host: preserve`, two hosts are two applications. Under the second rules each has its own records. */
function onHost (caller: string, { rules, request, host }: Pick<ScopeQuery, 'rules' | 'request' | 'host'>): string {
  return rules === 2 && host === 'preserve' ? scopeOnHost(caller, request) : caller
}

/** The current rules, then the others: what a caller made before a change of rules stays its own. */
export function currentRulesFirst ({ rules }: Pick<Ids, 'rules'>): readonly Rules[] {
  return rules === 1 ? [1, 2] : [2, 1]
}

function noScope (): null { return null }

function optionsOf (policy: CallerPolicy, rules: Rules, shown?: FoundCarriers): Parameters<typeof scopeOf>[3] {
  const { key } = policy
  return {
    rules,
    signing: signing(policy),
    own: () => key === undefined ? [] : [key.header, ...key.sources.flatMap(headersRead)],
    ...(shown !== undefined && { carriers: shown })
  }
}

function signing ({ verify = null }: CallerPolicy): Signing {
  return signingOf({ verify })
}

function needsToken ({ scope }: CallerPolicy): boolean {
  return scope.kind === 'parts' && scope.parts.some((part) => part.kind === 'jwt')
}

/** If there is no token, {@link scopeOf} reports what is missing, which may be another part. */
function hasToken ({ rawHeaders }: CallerRequest, { jwt }: CallerPolicy): boolean {
  return jwt !== null && bearerToken(rawHeaders) !== null
}

async function verifyToken (context: CallerContext, { rawHeaders }: CallerRequest, { jwt }: CallerPolicy): Promise<ClaimsResult | null> {
  const token = bearerToken(rawHeaders)
  return token === null || jwt === null ? null : context.deps.tokens.verify(jwt, token)
}

/** Does not say that the token is missing: the client would not think of renewing the one that it sent. */
function tokenRefusal (fault: TokenFault): Rejected {
  return {
    kind: 'rejected',
    code: 'token-invalid',
    detail: tokenDetail(fault),
    challenge: tokenChallenge(fault),
    reason: faultReason(fault)
  }
}
