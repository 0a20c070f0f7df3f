/**
 * What the server's settings say of durability. Read on a connection of the store, because sessions may differ from the file.
 */
import { durabilityOf, type DurabilitySettings, type Durability } from '../../core/protocol/durability.ts'
import type { Session, Statement } from './statements.ts'

/**
 * Standbys, logical subscribers and backups must be told apart. A subscriber has a database, and a backup gives itself a name.
 * Every role may read this much of pg_stat_activity, and all of the slots. Of pg_stat_replication it may read only the process.
 * Each promotion gives the primary another timeline. Fails on a standby.
 */
const DURABILITY: Statement = {
  name: 'standing',
  writes: false,
  text: () => `with connected as (
  select a.pid, a.application_name from pg_catalog.pg_stat_replication r join pg_catalog.pg_stat_activity a on a.pid = r.pid
   where a.datid is null
), slots as (
  select s.slot_name::text as slot, s.active_pid, c.application_name from pg_catalog.pg_replication_slots s left join connected c on c.pid = s.active_pid
   where s.slot_type = 'physical' and not s.temporary
)
select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit, current_setting('synchronous_standby_names') as synchronous_standby_names,
       substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) as timeline,
       array(select application_name from connected where application_name not in ('pg_basebackup', 'pg_receivewal')) as standbys,
       array(select slot from slots where active_pid is not null) as used, array(select coalesce(application_name, slot) from slots where active_pid is not null) as used_by,
       array(select slot from slots where active_pid is null) as unused`
}

interface Said extends Omit<DurabilitySettings, 'away'> {
  readonly timeline: string
  /** Slots in use, and in the same order by which application. */
  readonly used: readonly string[]
  readonly used_by: readonly string[]
  readonly unused: readonly string[]
}

/** Without a slot, the server has usually removed the log that a standby lacks by then. It must be set up anew. */
const SEEN_MS = 60 * 60 * 1000
/** More standbys than any installation has. */
const SEEN_MAX = 64
const BACKUPS: ReadonlySet<string> = new Set(['pg_basebackup', 'pg_receivewal'])

/** One per store. A standby that is away is known by its slot, or because this process has seen it. */
export class DurabilityReader {
  #timeline = ''
  /** By name: when it was last connected, monotonic milliseconds. */
  readonly #seen = new Map<string, number>()
  /** By slot: the application that uses it. */
  readonly #owners = new Map<string, string>()

  async read (session: Session): Promise<Durability> {
    const [said] = await session.run<Said>(DURABILITY, [])
    if (said === undefined) throw new Error('a select without from gave no row')
    return durabilityOf({ ...said, away: this.#awayOf(said, performance.now()) })
  }

  #awayOf ({ timeline, standbys, used, used_by: usedBy, unused }: Said, nowMs: number): string[] {
    // Another primary: a standby of the old one may be this server.
    if (timeline !== this.#timeline) this.#forget(timeline)
    for (const [index, slot] of used.entries()) this.#owners.set(slot, usedBy[index] ?? slot)
    for (const slot of Array.from(this.#owners.keys())) if (!used.includes(slot) && !unused.includes(slot)) this.#owners.delete(slot)
    const waitedFor = unused.map((slot) => this.#owners.get(slot) ?? slot).filter((name) => !BACKUPS.has(name))
    for (const name of standbys.slice(0, SEEN_MAX)) this.#seen.set(name, nowMs)
    for (const [name, atMs] of Array.from(this.#seen)) if (nowMs - atMs > SEEN_MS || this.#seen.size > SEEN_MAX) this.#seen.delete(name)
    const gone = Array.from(this.#seen.keys()).filter((name) => !standbys.includes(name) && !waitedFor.includes(name))
    return [...waitedFor, ...gone]
  }

  #forget (timeline: string): void {
    this.#timeline = timeline
    this.#seen.clear()
    this.#owners.clear()
  }
}
