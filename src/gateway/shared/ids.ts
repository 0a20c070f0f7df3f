/**
 * The ids of requests, made by the scheme that the database names (core/record/schemes.ts).
 * This process may not have heard of a switch. The store then refuses a claim under an old id, and the request is identified
 * again (ports.ts, Moved).
 */
import { keyHash, recordId } from '../../core/record/record-id.ts'
import type { Identity } from '../../core/record/record-id.ts'
import type { DropPolicy, GuardedRoute } from '../../core/policy/policy.ts'
import type { Rules } from '../../core/record/rules.ts'
import { keysOf, NEWEST_RULES, schemeNames } from '../../core/record/schemes.ts'
import type { Scheme, SchemeKeys, Schemes } from '../../core/record/schemes.ts'
import type { MarkStore } from '../../ports/marks.ts'
import type { Deps } from './deps.ts'

/** The scope of a request under the given rules. null: these rules cannot tell whose it is. */
export interface ScopeByRules { readonly byRules: (rules: Rules) => { readonly scope: string } | null }

/** The identity of a request, and what it was made of. */
export interface Identified extends Identity {
  /** `id` as text. */
  readonly name: string
  readonly scope: string
  readonly key: string
  readonly keys: SchemeKeys
}

/** The request's id cannot be claimed any more: it must be identified again. Nothing was written under the id. */
export class IdentityMoved extends Error {
  constructor () {
    super('another scheme of ids claims, or a record of the one before stands')
  }
}

/** The number of no scheme: nothing is ever claimed under it. */
const UNKNOWN_SCHEME = 0

/** What ids are looked up in. Nothing is written. */
export interface IdsDeps {
  readonly records: Pick<Deps['records'], 'schemes' | 'look'>
  readonly inbox: Pick<Deps['inbox'], 'look'>
  readonly marks: { readonly of: (route: string, policy: DropPolicy) => Pick<MarkStore, 'stands'> }
  readonly log: Pick<Deps['log'], 'info' | 'error'>
}

interface ActiveKeys { readonly current: SchemeKeys, readonly earlier: SchemeKeys | null }

export class Ids {
  readonly #deps: () => IdsDeps
  #secrets: readonly Buffer[]
  /** How long marks outside the database are kept. The database cannot know whether any are left. */
  #marksKeptMs: number
  #schemes: Schemes | null = null
  #activeKeys: ActiveKeys | null = null
  #blocked: string | null = null
  #refreshing: Promise<void> | null = null
  /**
   * Cache of the fingerprint algorithms of lost records, by scheme and route. Lost records only become fewer: the cache misses none.
   * A switch of schemes clears it: a failover may have undone an earlier switch, and the next one loses more.
   */
  readonly lostAlgorithms = new Map<string, readonly number[]>()
  /** Called when this process learns that another scheme claims. */
  onSwitch: () => void = () => {}

  constructor (deps: () => IdsDeps, { secrets = [], marksKeptMs = 0 }: Pick<Deps, 'secrets' | 'marksKeptMs'>) {
    this.#deps = deps
    this.#secrets = secrets
    this.#marksKeptMs = marksKeptMs
  }

  /** The reason why this gateway cannot make the ids of its database. null: it can. */
  get blocked (): string | null { return this.#blocked }

  /** The schemes by which this gateway can make ids. Other gateways read them in the registry. */
  get supportedSchemes (): readonly string[] { return schemeNames(this.#secrets) }

  /** The rules of the scheme that claims, as known here. */
  get rules (): Rules { return this.#keys().rules }

  /** The keys by which stored data may have been hashed: those of the current scheme, then those of the earlier one. */
  get schemeKeys (): readonly SchemeKeys[] {
    const { current, earlier } = this.#activeKeys ?? { current: this.#keys(), earlier: null }
    return earlier === null ? [current] : [current, earlier]
  }

  /** Requests are also looked for under the earlier scheme, because records of it may be left. */
  get inTransition (): boolean { return this.#schemes?.earlier?.isOver === false || this.#activeKeys?.earlier != null }

  /** The number of the scheme whose secret is lost, while records of it are left. null: none are. */
  get lost (): number | null {
    const earlier = this.#schemes?.earlier
    return earlier?.isLost === true && !earlier.isOver ? earlier.number : null
  }

  /** Whether marks of such a window may be under a lost secret, where they cannot be found. */
  hasLostMarks (windowMs: number): boolean {
    const earlier = this.#schemes?.earlier
    return earlier?.isLost === true && earlier.ageMs < windowMs
  }

  /** For a reload. Marks that were made before it live on. */
  reconfigure ({ secrets = this.#secrets, marksKeptMs = 0 }: Pick<Deps, 'secrets' | 'marksKeptMs'>): void {
    this.#secrets = secrets
    this.#marksKeptMs = Math.max(this.#marksKeptMs, marksKeptMs)
    if (this.#schemes !== null) this.#apply(this.#schemes)
  }

  /** Refreshes if `scheme`, the number of the scheme that claims, is not the known one. */
  async refreshIfChanged (scheme: number | undefined): Promise<void> {
    if (scheme !== undefined && scheme !== this.#schemes?.current?.number) await this.refresh()
  }

  /**
   * Asks the database which schemes it has. One question at a time. A caller that comes during a question asks again after it,
   * because the answer may be older than what that caller knows. @throws as the store does
   */
  async refresh (): Promise<void> {
    await this.#refreshing?.catch(() => {})
    this.#refreshing ??= this.#deps().records.schemes()
      .then((schemes) => { this.#apply(schemes) })
      .finally(() => { this.#refreshing = null })
    await this.#refreshing
  }

  /** null: blocked. `isInMemory`: this process knows something under that name. */
  identify (route: GuardedRoute, scopeByRules: ScopeByRules, key: string, isInMemory: (name: string) => boolean): Identified | null {
    if (this.#blocked !== null) return null
    const [now, before] = this.#identities(route, scopeByRules, key)
    if (now === null || before === null) return now
    return !isInMemory(now.name) && isInMemory(before.name) ? before : now
  }

  /** The same after the store has said that the id has moved. @throws as the store does */
  async identifyAnew (route: GuardedRoute, scopeByRules: ScopeByRules, key: string): Promise<Identified | null> {
    if (this.#blocked !== null) return null
    const [now, before] = this.#identities(route, scopeByRules, key)
    // A record under the earlier id keeps that id.
    return before !== null && await this.exists(route, before.id) ? before : now
  }

  #identities (route: GuardedRoute, scopeByRules: ScopeByRules, key: string): [Identified | null, Identified | null] {
    const { current, earlier } = this.#activeKeys ?? { current: this.#keys(), earlier: null }
    const before = earlier === null ? null : identityBy(earlier, route, scopeByRules, key, null)
    const now = identityBy(current, route, scopeByRules, key, before?.id ?? null)
    // The id is the same under both schemes: the rules agree, and there is no secret.
    return now !== null && before?.id.equals(now.id) === true ? [{ ...now, earlierId: null }, null] : [now, before]
  }

  /** Whether there is a record, a message or a mark under the id. @throws as the store does */
  async exists ({ name, idempotency: { drop } }: GuardedRoute, id: Buffer): Promise<boolean> {
    const { records, inbox, marks } = this.#deps()
    if (drop !== null) return marks.of(name, drop).stands(id)
    const row = await records.look(id)
    return (row !== null && !row.past) || await inbox.look(id) !== null
  }

  #keys (): SchemeKeys {
    return this.#activeKeys?.current ?? { number: UNKNOWN_SCHEME, rules: NEWEST_RULES, secret: this.#secrets[0] ?? null }
  }

  #apply (schemes: Schemes): void {
    this.#schemes = schemes
    const { current, earlier } = schemes
    if (current === null) return
    const keys = this.#keysOf(current)
    const before = earlier === null || earlier.isLost || (earlier.isOver && earlier.ageMs > this.#marksKeptMs)
      ? null
      : this.#keysOf(earlier)
    const wrong = [keys, before].find((each) => typeof each === 'string') ?? null
    if (typeof wrong === 'string' && wrong !== this.#blocked) {
      this.#deps().log.error({ event: 'id-scheme-unusable', scheme: current.name }, wrong)
    }
    if (wrong === null && this.#activeKeys?.current.number !== current.number) {
      this.#deps().log.info(
        { event: 'id-scheme-in-use', scheme: current.name, earlier: earlier?.name ?? null },
        'ids are made by this scheme'
      )
    }
    this.#blocked = typeof wrong === 'string' ? wrong : null
    if (typeof keys === 'string' || typeof before === 'string') return
    const isNew = this.#activeKeys?.current.number !== keys.number
    this.#activeKeys = { current: keys, earlier: before }
    if (!isNew) return
    this.lostAlgorithms.clear()
    this.onSwitch()
  }

  /** The keys of the scheme, or the reason why this gateway cannot have them. */
  #keysOf (scheme: Scheme): SchemeKeys | string {
    const found = keysOf(scheme, this.#secrets)
    switch (found.kind) {
      case 'keys': return found.keys
      case 'no-secret': return `The ids in this database are made with the secret ${found.fingerprint}, which this gateway does not have: set secret, or previousSecret, to it; where the embedded store has made it itself, put its file secret back beside it and start again (docs/concepts/identity.md says what to do where it is lost).`
      case 'unknown-rules':
        return `The ids in this database are made by the scheme ${scheme.name}, which this build does not know: install the newer release.`
    }
  }
}

/** null: these rules cannot tell whose the request is. */
function identityBy (
  keys: SchemeKeys,
  { name: route }: GuardedRoute,
  scopeByRules: ScopeByRules,
  key: string,
  earlierId: Buffer | null
): Identified | null {
  const scope = scopeByRules.byRules(keys.rules)?.scope
  if (scope === undefined) return null
  const id = recordId(route, scope, key, keys.secret)
  return { id, name: id.toString('base64url'), scope, key, scheme: keys.number, earlierId, keys }
}

/** Hashed by the scheme of the identity. */
export function keyHashOf ({ keys: { secret }, key }: Identified): Buffer {
  return keyHash(key, secret)
}
