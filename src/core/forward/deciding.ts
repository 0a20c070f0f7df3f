/**
 * Which fields decide about a request: its key, its scope, what is compared, who signed it, and its order. The upstream must receive them
 * as they were read. Otherwise it would act on another request than the one that was looked up. Names only, in lower case. Made once per
 * policy, never per request.
 */
import { COMPARED_FIELDS } from '../fingerprint/compared-fields.ts'
import { CARRIERS_DECIDE, COMPARED, FRAMING, HOP_BY_HOP, isForwarded, plainName, USUAL_KEY_HEADER } from '../headers/fields.ts'
import { headersPassing, headersRead } from '../key/sources.ts'
import { requestRefusal } from '../headers/headers.ts'
import { countLines } from '../headers/lines.ts'
import type { IdempotencyPolicy, KeyPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'
import { signatureHeaders, verifierOf } from '../headers/signature.ts'

export interface FieldRules {
  /**
   * Forwarded even if Connection lists them. An intermediary removes listed fields (RFC 9110 7.6.1). But then a client could hide the
   * deciding fields from the upstream.
   */
  readonly kept: ReadonlySet<string>
  /** Plain names ({@link plainName}) that have a meaning in one spelling only. */
  readonly reserved: ReadonlySet<string>
  /** Names among them that a route spells otherwise (`header:X_User`). There the plain spelling is the look-alike. */
  readonly respelled: ReadonlySet<string>
  /** Fields that may have one line only. A reader of the first line would not see a second one. */
  readonly single: readonly string[]
  /** Deciding fields that are believed only from trusted proxies. */
  readonly trustedOnly: readonly string[]
}

/** The rules for unguarded requests: those of every route to the same upstream, which reads a field the same on each of them. */
export function rulesOfAll (policies: readonly IdempotencyPolicy[]): FieldRules {
  return rulesFor({
    own: policies.flatMap(namesOf),
    // A reader of a carrier by its usual name means the carrier, even if the configuration has a header of that name.
    usual: policies.some(({ scope }) => scope.kind === 'credential') ? CARRIERS_DECIDE : [],
    single: policies.flatMap(({ key }) => key.sources.flatMap(headersPassing))
  })
}

/** The rules if only the key header is known. */
export function rulesOfKey (header: string): FieldRules {
  return rulesFor({ own: [header], usual: [], single: [] })
}

function rulesFor ({ own: names, usual, single }: {
  readonly own: readonly string[]
  readonly usual: Iterable<string>
  readonly single: readonly string[]
}): FieldRules {
  const own = new Set([...names.filter(isCopied), ...usual])
  const respelled = new Set([...own].map(plainName).filter((plain) => !own.has(plain)))
  const known = [USUAL_KEY_HEADER, ...CARRIERS_DECIDE, ...COMPARED, ...ALL_COMPARED].filter((name) => !respelled.has(name))
  const kept = new Set([...known, ...own])
  return {
    kept,
    reserved: new Set([...[...kept].map(plainName), ...FRAMING, ...HOP_BY_HOP]),
    respelled,
    single: [...new Set([...COMPARED, ...single])],
    trustedOnly: names.filter((name) => isForwarded(plainName(name)))
  }
}

const ALL_COMPARED = COMPARED_FIELDS.flatMap(({ names }) => names)

const RULES = new WeakMap<IdempotencyPolicy, FieldRules>()

/** The rules of one route. */
export function rulesOf (policy: IdempotencyPolicy): FieldRules {
  const made = RULES.get(policy)
  if (made !== undefined) return made
  const rules = rulesOfAll([policy])
  RULES.set(policy, rules)
  return rules
}

/** Every name that the configuration makes deciding. */
function namesOf (policy: IdempotencyPolicy): readonly string[] {
  const { key, scope, fingerprint, inbox } = policy
  const verify = verifierOf(policy)
  return [
    ...key.sources.flatMap(headersRead),
    ...key.sources.flatMap(headersPassing),
    ...(scope.kind === 'parts' ? scope.parts.flatMap((part) => part.kind === 'header' ? [part.name.toLowerCase()] : []) : []),
    ...(fingerprint.headers ?? []).map((name) => name.toLowerCase()),
    ...(verify === null ? [] : signatureHeaders(verify)),
    ...(inbox?.order?.kind === 'header' ? [inbox.order.name] : [])
  ]
}

/** Framing is written anew, and a connection's fields end here. This does not depend on the reader. */
function isCopied (name: string): boolean {
  return !(FRAMING as readonly string[]).includes(name) && (!HOP_BY_HOP.has(name) || CARRIERS_DECIDE.has(name))
}

/**
 * Whether a server that folds names would take this field for another with a meaning. A name without unusual characters needs no look-up.
 */
export function isLookAlike (lower: string, plain: string, { kept, reserved, respelled }: FieldRules): boolean {
  if (plain === lower) return respelled.size > 0 && respelled.has(lower)
  return reserved.has(plain) && !kept.has(lower)
}

/** Why a guarded request cannot be decided by its fields, as they will reach the upstream. null: it can. Never repeats a value. */
export function decidingRefusal (rawHeaders: RawHeaders, { single, trustedOnly }: FieldRules, trusted: boolean): string | null {
  for (const name of single) {
    if (countLines(rawHeaders, name) > 1) return `The request has more than one ${name} header line.`
  }
  const unbelieved = trusted ? undefined : trustedOnly.find((name) => countLines(rawHeaders, name) > 0)
  return unbelieved === undefined
    ? null
    : `The ${unbelieved} header decides on this route, and is believed from trusted proxies alone (trustProxies).`
}

/** Refuses a request that tells the next hop to remove a field of the key. */
export function takenAwayRefusal (rawHeaders: RawHeaders, { sources }: Pick<KeyPolicy, 'sources'>): string | null {
  for (const source of sources) {
    for (const name of headersRead(source)) {
      const refusal = name === USUAL_KEY_HEADER ? null : requestRefusal(rawHeaders, name)
      if (refusal !== null) return refusal
    }
  }
  return null
}
