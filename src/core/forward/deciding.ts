/**
 * Which fields decide something of a request: its key, whose it is, what is compared, who signed it, in which order it
 * stands. The upstream receives these as they were read, or it would act on another request than the one that was looked
 * up. Names only, all lower case; made once for a policy, never for a request.
 */
import { COMPARED_FIELDS } from '../fingerprint/compared-fields.ts'
import { CARRIERS_DECIDE, COMPARED, FRAMING, HOP_BY_HOP, isForwarded, plainName, USUAL_KEY_HEADER } from '../headers/fields.ts'
import { headersPassing, headersRead } from '../key/sources.ts'
import { headerLines } from '../headers/lines.ts'
import type { IdempotencyPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'
import { signatureHeaders, verifierOf } from '../headers/signature.ts'

export interface FieldRules {
  /**
   * Go on whatever Connection lists. An intermediary removes what is listed (RFC 9110 7.6.1), but then a client would say
   * which fields the upstream gets to see behind the decision that rests on them.
   */
  readonly kept: ReadonlySet<string>
  /** Plain names ({@link plainName}) that have a meaning in one spelling alone. */
  readonly reserved: ReadonlySet<string>
  /** Of those, the ones that a route spells otherwise (`header:X_User`): there the plain spelling is the look-alike. */
  readonly respelled: ReadonlySet<string>
  /** A second line of one of these is two answers to one question, and whoever reads the first line would not see it. */
  readonly single: readonly string[]
  /** Decide, and are believed from trusted proxies alone. */
  readonly trustedOnly: readonly string[]
}

/** Of what passes through: of every route to the same upstream, which reads a field the same wherever it comes from. */
export function rulesOfAll (policies: readonly IdempotencyPolicy[]): FieldRules {
  return rulesFor({
    own: policies.flatMap(namesOf),
    // Who reads a carrier by its usual name means that one, whatever a header of the configuration is called.
    usual: policies.some(({ scope }) => scope.kind === 'credential') ? CARRIERS_DECIDE : [],
    single: policies.flatMap(({ key }) => key.sources.flatMap(headersPassing))
  })
}

/** Where nothing else is known of a route. */
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

/** Of one route. */
export function rulesOf (policy: IdempotencyPolicy): FieldRules {
  const made = RULES.get(policy)
  if (made !== undefined) return made
  const rules = rulesOfAll([policy])
  RULES.set(policy, rules)
  return rules
}

/** Every name that the configuration makes decisive. */
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

/** Framing is written anew and a connection's fields end here, whoever reads them. */
function isCopied (name: string): boolean {
  return !(FRAMING as readonly string[]).includes(name) && (!HOP_BY_HOP.has(name) || CARRIERS_DECIDE.has(name))
}

/**
 * Would a server that folds names take this one for another that has a meaning? Nothing is looked up for a name without
 * an odd character.
 */
export function isLookAlike (lower: string, plain: string, { kept, reserved, respelled }: FieldRules): boolean {
  if (plain === lower) return respelled.size > 0 && respelled.has(lower)
  return reserved.has(plain) && !kept.has(lower)
}

/** Why a guarded request cannot be decided on by its fields as they will reach the upstream, or null. Never echoes a value. */
export function decidingRefusal (rawHeaders: RawHeaders, { single, trustedOnly }: FieldRules, trusted: boolean): string | null {
  const twice = single.find((name) => headerLines(rawHeaders, name).length > 1)
  if (twice !== undefined) return `The request has more than one ${twice} header line.`
  const unbelieved = trusted ? undefined : trustedOnly.find((name) => headerLines(rawHeaders, name).length > 0)
  return unbelieved === undefined
    ? null
    : `The ${unbelieved} header decides on this route, and is believed from trusted proxies alone (trustProxies).`
}
