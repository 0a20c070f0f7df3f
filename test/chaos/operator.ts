/**
 * An operator of a run: deletes some settled records, and has the newest scheme of ids claim, by the commands of the
 * product, as he would. Judges nothing.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { withClient } from './audit.ts'
import { MAIN, ownEnvironment } from './gateways.ts'

/** Each is a process of its own, beside everything else on this machine. */
const DELETED = 3
/** Kept a moment ago, so that Redis has copies of them, and on a route whose keys are never sent again. */
const PICK = `select id, encode(owner, 'hex') as owner, attempt from onceway.records
  where route = 'hold' and state = 'completed' and settled_at < clock_timestamp() - interval '300 ms' order by settled_at desc limit ${DELETED}`

/** Of a database that a fault has taken away: shutting down or starting (57P), refused or reset, ended under the question. */
const AWAY = /^57P|^ECONN|terminated/

function isAway (error: unknown): boolean {
  return error instanceof Error && AWAY.test('code' in error ? String(error.code) : error.message)
}

/** Resolves with those whose delete was accepted; none while the database is away. */
export async function deleteSome (database: string, config: string): Promise<string[]> {
  const picked = withClient(database, async (client) => (await client.query<{ id: Buffer, owner: string, attempt: number }>(PICK)).rows)
  const rows = await picked.catch((error: unknown) => {
    if (isAway(error)) return []
    throw error
  })
  const deleted = await Promise.all(rows.map(async ({ id, owner, attempt }) => {
    const record = id.toString('base64url')
    const args = [
      MAIN, 'records', 'delete', record, '--owner', owner, '--attempt', String(attempt), '--who', 'chaos', '--why',
      'to be done anew', '--config', config
    ]
    return promisify(execFile)(process.execPath, args, { env: ownEnvironment() }).then(() => record, () => null)
  }))
  return deleted.filter((record) => record !== null)
}

/** A switch waits for its turn among writers that a fault holds up; the next one tries again. */
const UPGRADED_WITHIN_MS = 20_000

/** Refused where it has been done, and while the database is away: then nothing is changed. */
export async function upgradeIds (config: string): Promise<void> {
  const args = [MAIN, 'ids', 'upgrade', '--yes', '--who', 'chaos', '--why', 'both secrets are everywhere', '--config', config]
  await promisify(execFile)(process.execPath, args, { env: ownEnvironment(), timeout: UPGRADED_WITHIN_MS }).catch(() => {})
}
