/**
 * By which ids this gateway knows its requests: those of the scheme that the database names (core/record/schemes.ts), as far as this
 * process has heard of it. Whoever asks the store by another one is told so, and asks again (ports.ts, Moved).
 */
import { keyHash, recordId } from '../../core/record/record-id.ts'
import type { Identity } from '../../core/record/record-id.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { Rules } from '../../core/record/rules.ts'
import { keysOf, NEWEST_RULES, schemeNames } from '../../core/record/schemes.ts'
import type { Scheme, SchemeKeys, Schemes } from '../../core/record/schemes.ts'
import type { Deps } from './deps.ts'

/** Whose key it is, under given rules; null: under these nobody can tell. */
export type ScopeUnder = (rules: Rules) => string | null

/** A request as the store knows it, and by what. */
export interface Identified extends Identity {
  /** `id` as text. */
  readonly name: string
  readonly scope: string
  readonly key: string
  readonly keys: SchemeKeys
}

/** Its identity is none that is claimed by: it has to be found anew. Nothing was written under it. */
export class IdentityMoved extends Error {
  constructor () {
    super('another scheme of ids claims, or a record of the one before stands')
  }
}

/** Of no database: nothing is ever claimed under it. */
const UNHEARD = 0

interface Known { readonly current: SchemeKeys, readonly earlier: SchemeKeys | null }

export class Ids {
  readonly #deps: () => Deps
  #secrets: readonly Buffer[]
  /** How long marks are kept that are not in the database, which therefore does not know whether any are left. */
  #marksKeptMs: number
  #schemes: Schemes | null = null
  #known: Known | null = null
  #blocked: string | null = null
  #looking: Promise<void> | null = null
  /**
   * By scheme and route. What is lost becomes less, and its algorithms are no more than they were, unless another scheme claims: a
   * failover may have undone a switch that was seen here, and the next one loses more.
   */
  readonly lostAlgorithms = new Map<string, readonly number[]>()
  /** Called when another scheme claims than this process has heard of. */
  onSwitch: () => void = () => {}

  constructor (deps: () => Deps, { secrets = [], marksKeptMs = 0 }: Pick<Deps, 'secrets' | 'marksKeptMs'>) {
    this.#deps = deps
    this.#secrets = secrets
    this.#marksKeptMs = marksKeptMs
  }

  /** A sentence, while this gateway cannot make the ids that its database is asked by. */
  get blocked (): string | null { return this.#blocked }

  /** What it can make ids by, for the others. */
  get names (): readonly string[] { return schemeNames(this.#secrets) }

  /** As far as has been heard. */
  get rules (): Rules { return this.#keys().rules }

  /** The secrets by which what is stored may have been hashed: that of today, and that of the scheme before. */
  get keyed (): readonly SchemeKeys[] {
    const { current, earlier } = this.#known ?? { current: this.#keys(), earlier: null }
    return earlier === null ? [current] : [current, earlier]
  }

  /** It is looked for under the scheme before, too: something of it may be left. */
  get inTransition (): boolean { return this.#schemes?.earlier?.isOver === false || this.#known?.earlier != null }

  /** The number of the scheme whose secret is lost, while anything of it is left; null: none is. */
  get lost (): number | null {
    const earlier = this.#schemes?.earlier
    return earlier?.isLost === true && !earlier.isOver ? earlier.number : null
  }

  /** Marks that were made so long ago are found by nobody. */
  losesMarks (windowMs: number): boolean {
    const earlier = this.#schemes?.earlier
    return earlier?.isLost === true && earlier.ageMs < windowMs
  }

  /** A reload. Marks of before it live on. */
  reconfigure ({ secrets = this.#secrets, marksKeptMs = 0 }: Pick<Deps, 'secrets' | 'marksKeptMs'>): void {
    this.#secrets = secrets
    this.#marksKeptMs = Math.max(this.#marksKeptMs, marksKeptMs)
    if (this.#schemes !== null) this.#take(this.#schemes)
  }

  /** The number of the scheme that claims, by somebody's word. */
  async heard (scheme: number | undefined): Promise<void> {
    if (scheme !== undefined && scheme !== this.#schemes?.current?.number) await this.look()
  }

  /**
   * Asks the database. One at a time: who comes meanwhile may have been told otherwise since it began, and asks once
   * more. @throws as the store does
   */
  async look (): Promise<void> {
    await this.#looking?.catch(() => {})
    this.#looking ??= this.#deps().records.schemes().then((schemes) => { this.#take(schemes) }).finally(() => { this.#looking = null })
    await this.#looking
  }

  /** null: it is blocked. `knows`: something under this name is known in this process. */
  identify (route: GuardedRoute, scopeUnder: ScopeUnder, key: string, knows: (name: string) => boolean): Identified | null {
    if (this.#blocked !== null) return null
    const [now, before] = this.#both(route, scopeUnder, key)
    if (now === null || before === null) return now
    return !knows(now.name) && knows(before.name) ? before : now
  }

  /** The same, once the store has said that it has moved. @throws as the store does */
  async identifyAnew (route: GuardedRoute, scopeUnder: ScopeUnder, key: string): Promise<Identified | null> {
    if (this.#blocked !== null) return null
    const [now, before] = this.#both(route, scopeUnder, key)
    // What is found under its earlier id keeps it.
    return before !== null && await this.stands(route, before.id) ? before : now
  }

  #both (route: GuardedRoute, scopeUnder: ScopeUnder, key: string): [Identified | null, Identified | null] {
    const { current, earlier } = this.#known ?? { current: this.#keys(), earlier: null }
    const before = earlier === null ? null : made(earlier, route, scopeUnder, key, null)
    const now = made(current, route, scopeUnder, key, before?.id ?? null)
    // Under both rules alike, and without a secret: what stands there is found anyway.
    return now !== null && before?.id.equals(now.id) === true ? [{ ...now, earlierId: null }, null] : [now, before]
  }

  /** There is a record, a message or a mark. @throws as the store does */
  async stands ({ name, idempotency: { drop } }: GuardedRoute, id: Buffer): Promise<boolean> {
    const { records, inbox, marks } = this.#deps()
    if (drop !== null) return marks.of(name, drop).stands(id)
    const row = await records.look(id)
    return (row !== null && !row.past) || await inbox.look(id) !== null
  }

  #keys (): SchemeKeys {
    return this.#known?.current ?? { number: UNHEARD, rules: NEWEST_RULES, secret: this.#secrets[0] ?? null }
  }

  #take (schemes: Schemes): void {
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
    if (wrong === null && this.#known?.current.number !== current.number) {
      this.#deps().log.info(
        { event: 'id-scheme-in-use', scheme: current.name, earlier: earlier?.name ?? null },
        'ids are made by this scheme'
      )
    }
    this.#blocked = typeof wrong === 'string' ? wrong : null
    if (typeof keys === 'string' || typeof before === 'string') return
    const isNew = this.#known?.current.number !== keys.number
    this.#known = { current: keys, earlier: before }
    if (!isNew) return
    this.lostAlgorithms.clear()
    this.onSwitch()
  }

  /** A sentence, where they cannot be had. */
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

/** null: nobody can tell whose key it is, under these rules. */
function made (
  keys: SchemeKeys,
  { name: route }: GuardedRoute,
  scopeUnder: ScopeUnder,
  key: string,
  earlierId: Buffer | null
): Identified | null {
  const scope = scopeUnder(keys.rules)
  if (scope === null) return null
  const id = recordId(route, scope, key, keys.secret)
  return { id, name: id.toString('base64url'), scope, key, scheme: keys.number, earlierId, keys }
}

/** As the identity's scheme has it. */
export function keyHashOf ({ keys: { secret }, key }: Identified): Buffer {
  return keyHash(key, secret)
}
