/**
 * A new epoch in the embedded store (core/record/epoch.ts), by the only process that has it: one transaction on this thread, where
 * no gateway runs that it could hold up.
 */
import type { DatabaseSync } from 'node:sqlite'
import {
  EPOCH_ATTEMPTS,
  RESTORED_REASON,
  type EpochOrder,
  type EpochResult,
  type OutdatedState,
  type RestoredMessages
} from '../../core/record/epoch.ts'
import { beginGeneration } from './sign-of-life.ts'
import { inTransaction, withDatabaseAlone } from './by-command.ts'

/** Never says `live`: a gateway holds the directory, and its absence is the proof that nobody holds a lease. @throws StartError */
export function bumpEpochIn (dataDir: string, order: EpochOrder, nowMs = Date.now()): EpochResult {
  return withDatabaseAlone(
    dataDir,
    nowMs,
    (connection) => inTransaction(connection, () => bump(connection, order, nowMs), () => !order.dryRun)
  )
}

function bump (connection: DatabaseSync, { who, why }: EpochOrder, nowMs: number): EpochResult {
  const [claimed, released] = [outdate(connection, 'claimed', nowMs), outdate(connection, 'released', nowMs)]
  const messages = reopenMessages(connection, nowMs)
  const epoch = Number(connection.prepare('update installation set epoch = epoch + 1 returning epoch').get()?.epoch)
  beginGeneration(connection, nowMs)
  connection.prepare('insert into epochs (epoch, at, claimed, released, held, again, who, why) values (?, ?, ?, ?, ?, ?, ?, ?)').run(
    epoch, nowMs, claimed, released, messages.held, messages.again, who, why
  )
  return { kind: 'bumped', epoch, claimed, released, messages }
}

function outdate (connection: DatabaseSync, state: OutdatedState, nowMs: number): number {
  const { changes } = connection.prepare(`update records
   set state = 'indeterminate', lease_until = null, settled_at = ?, settled_by = 'operator', expires_at = ? + unknown_keep_ms,
       status = null, headers = null, unknown_stage = ?, unknown_code = ?
 where state = ?`).run(nowMs, nowMs, RESTORED_REASON.stage, RESTORED_REASON.code, state)
  return Number(changes)
}

/** What a worker of the backup had waits again, or is held, as soon as a gateway looks for what dead workers had. */
function reopenMessages (connection: DatabaseSync, nowMs: number): RestoredMessages {
  connection.exec('delete from workers')
  connection.prepare("update messages set attempt = attempt + ? where state in ('waiting', 'delivering', 'held', 'dead') or request_until is not null").run(
    EPOCH_ATTEMPTS
  )
  const { changes: held } = connection.prepare(`update messages
   set state = 'held', owner = null, due_at = null, blocks = stops, error = ?, settled_at = ?, expires_at = ? + dead_keep_ms
 where state in ('waiting', 'delivering') and holds = 1`).run(RESTORED_REASON.code, nowMs, nowMs)
  // A held one may let its group go on, and nobody else here calls whose turn has come meanwhile.
  connection.prepare(`update messages set due_at = max(?, coalesce(not_before, 0))
 where state = 'waiting' and due_at is null and number = (select min(e.number) from messages e where e.group_id = messages.group_id and e.blocks)`).run(nowMs)
  const again = connection.prepare("select count(*) as count from messages where state in ('waiting', 'delivering')").get()?.count
  return { held: Number(held), again: Number(again) }
}
