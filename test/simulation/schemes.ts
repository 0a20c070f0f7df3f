/**
 * The schemes that a simulated database can have, and whose records are whose under each of them. What tells two callers apart is
 * said here once more, by what they send and not by how the gateway reads it: a scope that forgets something is found out.
 */
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import { recordId } from '../../src/core/record/record-id.ts'
import { NEWEST_RULES, schemeName } from '../../src/core/record/schemes.ts'
import type { Rules } from '../../src/core/record/rules.ts'
import { scopeOf, scopeOnHost } from '../../src/core/scope/scope.ts'
import { callerIn, headersOf, hostOf } from '../crash/outside.ts'
import { nameOf } from '../crash/watched.ts'
import { callerWith, FIRST_RULES, SECOND_RULES } from '../harness/caller.ts'
import type { Schedule, SchemeKind, SimulatedClient } from './schedule.ts'

const SECRETS: Readonly<Partial<Record<SchemeKind, Buffer>>> = {
  keyed: Buffer.from('a secret that nobody can guess'),
  'keyed anew': Buffer.from('another secret, as good as that')
}

function secretOf (kind: SchemeKind): Buffer | null {
  return SECRETS[kind] ?? null
}

export function rulesOfScheme (kind: SchemeKind): Rules {
  return kind === '1' ? 1 : NEWEST_RULES
}

export function nameOfScheme (kind: SchemeKind): string {
  return schemeName(rulesOfScheme(kind), secretOf(kind))
}

export function secretsOf (kinds: readonly SchemeKind[]): Buffer[] {
  return kinds.flatMap((kind) => secretOf(kind) ?? [])
}

/** All that the database may name in this run; the one at its start comes first. */
export function schemesOf ({ scheme, faults }: Pick<Schedule, 'scheme' | 'faults'>): SchemeKind[] {
  return Array.from(new Set([scheme, ...faults.flatMap(({ action }) => action.kind === 'switch' ? [action.to] : [])]))
}

type Asking = Pick<SimulatedClient, 'key' | 'scope' | 'besides' | 'host'>

/** One caller's request, under every scheme of the run. */
export interface Identity {
  /** The same for all that no rules may take for another. */
  readonly name: string
  /** In the order of the schemes. */
  readonly records: readonly string[]
}

export class Identities {
  readonly #route: GuardedRoute
  readonly #kinds: readonly SchemeKind[]
  readonly #byName = new Map<string, Identity>()
  readonly #rules = new Map<string, Rules>()
  /** By all that a caller sends: what of it the first rules look at. */
  readonly #first = new Map<string, string>()

  /** @throws TypeError where a client of the schedule is no caller under one of them */
  constructor (route: GuardedRoute, kinds: readonly SchemeKind[]) {
    this.#route = route
    this.#kinds = kinds
  }

  get all (): readonly Identity[] { return Array.from(this.#byName.values()) }

  of (client: Asking): Identity {
    const caller = this.callerOf(client)
    const name = `${caller} ${client.key}`
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    const identity = { name, records: this.#kinds.map((kind) => this.#recordOf(client, kind)) }
    this.#byName.set(name, identity)
    this.#first.set(caller, client.scope === '' ? this.callerOf({ ...client, host: undefined }) : client.scope)
    return identity
  }

  /** All that tells it from others, as the upstream sees it. */
  callerOf (client: Asking): string {
    return callerIn(this.#route.upstream.host === 'preserve' ? headersOf(client) : headersOf({ ...client, host: undefined }))
  }

  /** By which rules this record is found; null: nobody's here. */
  rulesOf (record: string): Rules | null {
    return this.#rules.get(record) ?? null
  }

  /** What tells callers apart where this record is concerned. */
  scopeIn (record: string, caller: string): string {
    return this.rulesOf(record) === 1 ? this.#first.get(caller) ?? caller : caller
  }

  #recordOf (client: Asking, kind: SchemeKind): string {
    const rules = rulesOfScheme(kind)
    const { name, upstream, idempotency } = this.#route
    const found = scopeOf(callerWith(headersOf(client)), idempotency.scope, null, rules === 1 ? FIRST_RULES : SECOND_RULES)
    if (found.kind !== 'scope') throw new TypeError(found.detail)
    const scope = rules === 2 && upstream.host === 'preserve'
      ? scopeOnHost(found.scope, callerWith([], { forwarded: { host: hostOf(client), trusted: false } }))
      : found.scope
    const record = nameOf(recordId(name, scope, client.key, secretOf(kind)))
    this.#rules.set(record, rules)
    return record
  }
}
