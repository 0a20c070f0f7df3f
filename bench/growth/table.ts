/** What the records take on disk and what writing them costs in WAL, asked of Postgres itself. One connection of the run's own. */
import { Client } from 'pg'

export interface TableSizes {
  readonly records: number
  /** In bytes; indexes by name. */
  readonly heap: number
  readonly toast: number
  readonly indexes: Readonly<Record<string, number>>
  readonly total: number
}

export interface TableCounts {
  readonly updates: number
  readonly hotUpdates: number
  readonly deletes: number
  readonly live: number
  readonly dead: number
  readonly autovacuums: number
}

const RECORDS = "'onceway.records'::regclass"

export class Table {
  readonly client: Client

  private constructor (client: Client) { this.client = client }

  static async open (database: string): Promise<Table> {
    const client = new Client({ connectionString: database, application_name: 'the measurement itself' })
    await client.connect()
    return new Table(client)
  }

  async close (): Promise<void> { await this.client.end() }

  async rows<Row extends object> (text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.client.query<Row>(text, values)).rows
  }

  async one<Row extends object> (text: string, values: unknown[] = []): Promise<Row> {
    const [row] = await this.rows<Row>(text, values)
    if (row === undefined) throw new Error(`no row: ${text}`)
    return row
  }

  /** Where the WAL ends now, in bytes from its beginning. */
  async walBytes (): Promise<number> {
    return Number((await this.one<{ bytes: string }>("select pg_current_wal_insert_lsn() - '0/0' as bytes")).bytes)
  }

  async walOf<Result> (work: () => Promise<Result>): Promise<{ readonly result: Result, readonly walBytes: number }> {
    const before = await this.walBytes()
    const result = await work()
    return { result, walBytes: await this.walBytes() - before }
  }

  async checkpoint (): Promise<void> { await this.client.query('checkpoint') }

  /** As autovacuum leaves a table that was filled: hint bits and visibility written, statistics known; and all of it on disk. */
  async settle (): Promise<void> {
    await this.client.query('vacuum (analyze) onceway.records')
    await this.checkpoint()
  }

  async sizes (): Promise<TableSizes> {
    const { records, heap, toast, total } = await this.one<Record<'records' | 'heap' | 'toast' | 'total', string>>(
      `select (select count(*) from onceway.records) as records, pg_relation_size(${RECORDS}) as heap,
              coalesce((select pg_total_relation_size(reltoastrelid) from pg_class where oid = ${RECORDS} and reltoastrelid <> 0), 0) as toast,
              pg_total_relation_size(${RECORDS}) as total`)
    const indexes = await this.rows<{ name: string, bytes: string }>(
      `select indexrelid::regclass::text as name, pg_relation_size(indexrelid) as bytes from pg_index where indrelid = ${RECORDS} order by 1`)
    return {
      records: Number(records),
      heap: Number(heap),
      toast: Number(toast),
      total: Number(total),
      indexes: Object.fromEntries(indexes.map(({ name, bytes }) => [name.replace(/^onceway\./, ''), Number(bytes)]))
    }
  }

  /** A backend reports at most once a second: what was written just now may be missing. */
  async counts (): Promise<TableCounts> {
    const row = await this.one<Record<keyof TableCounts, string>>(
      `select n_tup_upd as updates, n_tup_hot_upd as "hotUpdates", n_tup_del as deletes, n_live_tup as live, n_dead_tup as dead,
              autovacuum_count as autovacuums
         from pg_stat_user_tables where relid = ${RECORDS}`)
    const { updates, hotUpdates, deletes, live, dead, autovacuums } = row
    return {
      updates: Number(updates),
      hotUpdates: Number(hotUpdates),
      deletes: Number(deletes),
      live: Number(live),
      dead: Number(dead),
      autovacuums: Number(autovacuums)
    }
  }
}
