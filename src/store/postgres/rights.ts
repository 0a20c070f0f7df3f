/**
 * The rights that the gateway's role needs in its schema. A role that lacks one would claim and then not settle, or answer 503
 * to every request. So a gateway checks before it serves, and again when there is a reason. The result is the SQL that grants
 * what is missing.
 */
import { escapeIdentifier } from 'pg'
import { LacksRights } from '../../ports/errors.ts'
import type { Log } from '../../ports/telemetry.ts'
import { texts } from './arrays.ts'
import { UNBALANCED } from './statements.ts'

const WRITTEN = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const
const KEPT = ['SELECT', 'INSERT', 'UPDATE'] as const
const LISTED = ['SELECT', 'INSERT', 'DELETE'] as const
const CHANGED = ['SELECT', 'UPDATE'] as const
const READ = ['SELECT'] as const

/** Of the statements of a gateway. Operators' commands need more (docs/guides/deploy-with-postgres.md). */
export const RIGHTS: Readonly<Record<string, readonly string[]>> = {
  records: WRITTEN,
  marks: WRITTEN,
  messages: WRITTEN,
  deliveries: LISTED,
  workers: WRITTEN,
  tenant_pauses: WRITTEN,
  delivery_bounds: KEPT,
  gateways: WRITTEN,
  gateway_routes: WRITTEN,
  failing_routes: WRITTEN,
  paused_routes: WRITTEN,
  record_counts: WRITTEN,
  installation: CHANGED,
  clock: CHANGED,
  schemes: CHANGED,
  migrations: READ,
  audit: READ,
  message_numbers: ['USAGE']
}
const SEQUENCES: ReadonlySet<string> = new Set(['message_numbers'])

/**
 * By oid: by name Postgres would refuse to look into a schema that this role may not use. A table of a later migration
 * is not there yet.
 */
export const RIGHTS_LOOK = `${UNBALANCED} select current_user::text as role, pg_catalog.has_schema_privilege(n.oid, 'USAGE') as uses,
       array(select w.relation || ' ' || w.privilege
               from unnest($2::text[], $3::text[]) with ordinality as w (relation, privilege, place)
               join pg_catalog.pg_class c on c.relname = w.relation and c.relnamespace = n.oid
              where not case c.relkind when 'S' then pg_catalog.has_sequence_privilege(c.oid, w.privilege) else pg_catalog.has_table_privilege(c.oid, w.privilege) end
              order by w.place) as missing
  from pg_catalog.pg_namespace n where n.nspname = $1`

interface Looked { readonly role: string, readonly uses: boolean, /** `relation privilege` */ readonly missing: readonly string[] }

export type AskRights = (values: Array<string | Buffer>) => Promise<readonly object[]>

/** The SQL that gives the role what it lacks. null: it lacks nothing, or there is no schema yet. */
export async function missingRights (ask: AskRights, schema: string): Promise<string | null> {
  const wanted = Object.entries(RIGHTS).flatMap(([relation, privileges]) => privileges.map((privilege) => [relation, privilege] as const))
  const [looked] = await ask([
    schema,
    texts(wanted.map(([relation]) => relation)),
    texts(wanted.map(([, privilege]) => privilege))
  ]) as readonly Looked[]
  return looked === undefined ? null : grantsFor(looked, schema)
}

function grantsFor ({ role, uses, missing }: Looked, schema: string): string | null {
  const [to, within] = [escapeIdentifier(role), escapeIdentifier(schema)]
  const privileges = Map.groupBy(missing.map((each) => each.split(' ') as [string, string]), ([relation]) => relation)
  const relations = Map.groupBy(
    privileges,
    ([relation, pairs]) => `${pairs.map(([, privilege]) => privilege).join(', ')} ON ${SEQUENCES.has(relation) ? 'SEQUENCE ' : ''}`
  )
  const grants = [
    ...uses ? [] : [`GRANT USAGE ON SCHEMA ${within} TO ${to};`],
    ...Array.from(
      relations,
      ([what, each]) => `GRANT ${what}${each.map(([relation]) => `${within}.${escapeIdentifier(relation)}`).join(', ')} TO ${to};`
    )
  ]
  return grants.length === 0 ? null : grants.join(' ')
}

export function lacksRights (address: string, grants: string): LacksRights {
  return new LacksRights(`The gateway's role lacks rights in ${address}. Run as the owner of the schema: ${grants}`)
}

export interface RightsWatchOptions {
  readonly read: () => Promise<string | null>
  readonly address: string
  readonly log: Log
}

/** One look a second at most, however many statements are refused. While something is missing, one every second. */
const LOOK_EVERY_MS = 1_000

/** Whether the role still has its rights, while the gateway serves. */
export class RightsWatch {
  readonly #options: RightsWatchOptions
  #missing: string | null = null
  #timer: NodeJS.Timeout | null = null
  #closed = false

  constructor (options: RightsWatchOptions) {
    this.#options = options
  }

  /** A sentence for /readyz. null: nothing is missing. */
  get missing (): string | null { return this.#missing }

  /** There is a reason to look: the server has refused a statement, or another one may have answered. */
  suspect (): void {
    if (this.#closed || this.#timer !== null) return
    this.#timer = setTimeout(() => { void this.#look() }, LOOK_EVERY_MS).unref()
  }

  close (): void {
    this.#closed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  async #look (): Promise<void> {
    const { read, address, log } = this.#options
    try {
      const grants = await read()
      const missing = grants === null ? null : lacksRights(address, grants).message
      if (missing === null && this.#missing !== null) {
        log.info(
          { event: 'database-rights-restored', where: address },
          'the role has the rights that it needs again'
        )
      }
      if (missing !== null && this.#missing === null) log.error({ event: 'database-rights-missing', where: address }, missing)
      this.#missing = missing
    } catch {
      // Not reached: its own statements say so, and the next connection is a reason to look again.
    }
    this.#timer = null
    if (this.#missing !== null) this.suspect()
  }
}
