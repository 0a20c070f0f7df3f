/**
 * The callers of a run, and the possible ids of their requests: by the first scheme, and by the one that `onceway ids upgrade` switches
 * to. For the judge a request has one name. Judges nothing.
 */
import type { Client } from 'pg'
import { recordId } from '../../src/core/record/record-id.ts'
import type { RawHeaders } from '../../src/core/record/record.ts'
import type { Rules } from '../../src/core/record/rules.ts'
import { FIRST_NAME, NEWEST_RULES, schemeName } from '../../src/core/record/schemes.ts'
import { scopeOf, scopeOnHost } from '../../src/core/scope/scope.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { callerWith, FIRST_RULES, SECOND_RULES } from '../harness/caller.ts'
import type { Written } from './audit.ts'

export interface Caller {
  readonly authorization: string
  /** A credential for a gate before the application, for example. */
  readonly apiKey?: string
  readonly tenant?: string
  /** Absent: the address of the request. */
  readonly host?: string
}

export function fieldsOf ({ authorization, apiKey, tenant, host }: Caller): RawHeaders {
  return [
    'Authorization',
    authorization,
    ...apiKey === undefined ? [] : ['X-Api-Key', apiKey],
    ...tenant === undefined ? [] : ['X-Tenant', tenant],
    ...host === undefined ? [] : ['Host', host]
  ]
}

/** The hosts that callers name. Every other one is an address of this machine. */
const HOST = /\.test(:\d+)?$/

/** Everything that tells callers apart, as the gateway sees it. */
export function callerIn (field: (name: string) => string | undefined): string {
  const host = field('host')
  return [field('authorization'), field('x-api-key'), field('x-tenant'), host !== undefined && HOST.test(host) ? `at ${host}` : undefined]
    .filter((each) => each !== undefined)
    .join(' ')
}

export function callerText ({ authorization, apiKey, tenant, host }: Caller): string {
  const fields: Readonly<Record<string, string | undefined>> = { authorization, 'x-api-key': apiKey, 'x-tenant': tenant, host }
  return callerIn((name) => fields[name])
}

// ---------------------------------------------------------------- schemes

export interface RunScheme { readonly rules: Rules, readonly secret: string | null }

/** The configurations of the run have both secrets. The first is rotated to the second. */
export const [PREVIOUS_SECRET, SECRET] = ['the secret before, for chaos', 'the secret from now on, for chaos']

/** What a database may be found with. */
export const BEGINNINGS: readonly RunScheme[] = [
  { rules: 1, secret: null },
  { rules: NEWEST_RULES, secret: null },
  { rules: NEWEST_RULES, secret: PREVIOUS_SECRET }
]
/** What it is switched to. */
export const NEWEST: RunScheme = { rules: NEWEST_RULES, secret: SECRET }
/** The scheme of a new database, if no configuration has a secret. */
export const USUAL: RunScheme = { rules: NEWEST_RULES, secret: null }

function bytesOf ({ secret }: RunScheme): Buffer | null {
  return secret === null ? null : Buffer.from(secret)
}

function nameOf (scheme: RunScheme): string {
  return scheme.rules === 1 ? FIRST_NAME : schemeName(scheme.rules, bytesOf(scheme))
}

/** A database that has this one, before the first gateway sees it. */
export async function prepareScheme (client: Client, scheme: RunScheme): Promise<void> {
  await migrate(client, { schema: 'onceway', mode: 'auto' })
  await client.query('update onceway.schemes set name = $1', [nameOf(scheme)])
}

/** How many records of each there are, by its name. */
export async function recordsByScheme (client: Client): Promise<ReadonlyMap<string, number>> {
  const { rows } = await client.query<{ name: string, records: number }>(
    'select s.name, count(*)::int as records from onceway.records r join onceway.schemes s on s.number = r.scheme group by s.name'
  )
  return new Map(rows.map(({ name, records }) => [name, records]))
}

// ---------------------------------------------------------------- identities

export class Identities {
  readonly #schemes: readonly RunScheme[]
  readonly #preserves: boolean
  readonly #names = new Map<string, string>()
  readonly #ids = new Map<string, readonly string[]>()

  /** In the order in which they claim. `preserves`: the upstream gets the client's Host, and every caller names one. */
  constructor (schemes: readonly [RunScheme, ...RunScheme[]], preserves: boolean) {
    this.#schemes = schemes
    this.#preserves = preserves
  }

  /** The first rules use only the credential, so callers of such a run have one each. */
  get tellsAllApart (): boolean { return this.#schemes.every(({ rules }) => rules !== 1) }

  get haveHosts (): boolean { return this.#preserves }

  /** The request's name: its id under the last of the schemes, as it stands in `Onceway-Key`. */
  of (route: string, caller: Caller, key: string): string {
    const ids = this.#schemes.map((scheme) => this.#idOf(scheme, route, caller, key))
    const name = ids.at(-1) as string
    for (const id of ids) {
      if ((this.#names.get(id) ?? name) !== name) {
        throw new Error(`${route}, ${callerText(caller)}, ${key}: another request has this id as well`)
      }
      this.#names.set(id, name)
    }
    this.#ids.set(name, ids)
    return name
  }

  /** The request's name, from an id in a row or at the upstream. */
  nameOf (id: string): string {
    return this.#names.get(id) ?? id
  }

  idsOf (name: string): readonly string[] {
    return this.#ids.get(name) ?? [name]
  }

  /** By their requests' names, each with the id that it had. What goes in the transaction that claims under the other id goes before it. */
  named (written: readonly Written[]): Written[] {
    const claimed = new Map(written
      .filter(({ state, gone }) => state === 'claimed' && !gone)
      .map((each) => [`${each.transaction} ${this.nameOf(each.record)}`, each]))
    return written.map((each): Written => {
      const record = this.nameOf(each.record)
      const claim = each.gone ? claimed.get(`${each.transaction} ${record}`) : undefined
      return {
        ...each,
        record,
        id: each.record,
        ...claim !== undefined && claim.record !== each.record && { atMs: claim.atMs - JUST_BEFORE_MS }
      }
    }).sort((one, other) => one.atMs - other.atMs)
  }

  #idOf ({ rules, secret }: RunScheme, route: string, caller: Caller, key: string): string {
    const found = scopeOf(
      callerWith(fieldsOf(caller)),
      { kind: 'credential', anonymous: false, cookies: 'refuse' },
      null,
      rules === 1 ? FIRST_RULES : SECOND_RULES
    )
    if (found.kind !== 'scope') throw new Error(found.detail)
    const scope = rules !== 1 && this.#preserves
      ? scopeOnHost(found.scope, callerWith([], { forwarded: { host: caller.host ?? null, trusted: false } }))
      : found.scope
    return recordId(route, scope, key, bytesOf({ rules, secret })).toString('base64url')
  }
}

const JUST_BEFORE_MS = 0.0005
