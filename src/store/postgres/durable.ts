/**
 * Visible is not durable where commits wait for a standby: a commit whose wait was cancelled, or whose primary restarted
 * meanwhile, is seen by everybody, and the next promotion may lose it. So nothing is concluded from such a row by reading it.
 * It is looked at once more in one statement with a small write, whose commit lies behind the row's in the log: where that is
 * acknowledged, the standby has the row too. One statement, because between two of them the address may come to lead to
 * another server, which would acknowledge a row that it never had.
 *
 * Where no standby is waited for, a commit is on the disk before anybody sees it, and nothing of this is done. A memory and a
 * file of one process have no such state either.
 *
 * The write is a message of the log's that nobody reads: it takes no lock, leaves no dead row behind, and every role may write
 * it. Transactional, so that its transaction has a number: without one, or with nothing written, a commit waits for nobody.
 */
const PROOF = 'pg_catalog.pg_logical_emit_message(true, \'onceway\', \'\')'

/**
 * `proof` of a look. Its rows are durable when it is acknowledged. `horizon`: whatever was over before this number is
 * durable with them.
 */
export const PROOF_CTE = `proof as materialized (select ${PROOF}, pg_snapshot_xmin(pg_current_snapshot())::text as horizon)`

/** For a look whose rows say more than that it is durable. */
export const PROVEN = `case when current_setting('synchronous_standby_names') <> '' then ${PROOF} end is null as needless`

/**
 * Whether the row may still be lost: there is a standby, and no acknowledged write is known to lie behind the row. Compares
 * numbers of transactions, not times, because nothing bounds the time between a row's timestamp and its commit. An age below
 * zero is a number that this server has not reached.
 */
export function mayBeLost (table: string, horizon: number): string {
  return `case when current_setting('synchronous_standby_names') = '' then false
            else coalesce(age($${horizon}::xid8::xid) < 0 or age(${table}.xmin) <= age($${horizon}::xid8::xid), true) end as may_be_lost`
}

/**
 * What the acknowledged writes of some connections have proven: every transaction that was over before this number is durable.
 */
export class Horizon {
  #number: bigint | null = null

  /** For {@link mayBeLost}. */
  get value (): string | null { return this.#number === null ? null : String(this.#number) }

  /** Looks in parallel may end in another order. */
  reached (horizon: string): void {
    const number = BigInt(horizon)
    if (this.#number === null || number > this.#number) this.#number = number
  }
}

/** Rows that were seen and may be lost. */
const DOUBTFUL = new WeakSet()

export function doubted<Shape extends object> (shape: Shape, { may_be_lost: mayBeLost }: { readonly may_be_lost: boolean }): Shape {
  if (mayBeLost) DOUBTFUL.add(shape)
  return shape
}

export function isDoubtful (shape: object): boolean { return DOUBTFUL.has(shape) }
