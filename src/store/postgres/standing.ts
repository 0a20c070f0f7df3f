/** What the server says of its own durability, asked on a connection of the store's: as its sessions have it, not as the file says. */
import { standingOf, type DurabilitySettings, type Standing } from '../../core/standing.ts'
import type { Session, Statement } from './connections.ts'

/**
 * Standbys are told from logical subscribers by the database that those are in, and from backups by the name that those
 * give: this much of pg_stat_activity every role sees, of pg_stat_replication it may see nothing but the process.
 */
const STANDING: Statement = {
  name: 'standing',
  writes: false,
  text: () => `select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit, current_setting('synchronous_standby_names') as synchronous_standby_names,
       (select count(*)::int from pg_catalog.pg_stat_replication r join pg_catalog.pg_stat_activity a on a.pid = r.pid
         where a.datid is null and a.application_name not in ('pg_basebackup', 'pg_receivewal')) as standbys`
}

export async function readStanding (session: Session): Promise<Standing> {
  const [settings] = await session.run<DurabilitySettings>(STANDING, [])
  if (settings === undefined) throw new Error('a select without from gave no row')
  return standingOf(settings)
}
