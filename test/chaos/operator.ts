/** An operator of a run: deletes some settled records and switches to the newest scheme of ids, by the CLI. Judges nothing. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { withClient } from './audit.ts'
import { MAIN, ownEnvironment } from './gateways.ts'

/** Each is a process of its own, beside everything else on this machine. */
const DELETED = 3
/** Settled a moment ago, so that Redis has copies, and on a route whose keys are never sent again. */
const PICK = `select id, encode(owner, 'hex') as owner, attempt from onceway.records
  where route = 'hold' and state = 'completed' and settled_at < clock_timestamp() - interval '300 ms' order by settled_at desc limit ${DELETED}`

/** Of a database that a fault has taken away: shutting down or starting (57P), refused or reset, ended under the question. */
const AWAY = /^57P|^ECONN|terminated/

function isAway (error: unknown): boolean {
  return error instanceof Error && AWAY.test('code' in error ? String(error.code) : error.message)
}

/** Resolves with the records whose delete was accepted. None while the database is down. */
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

/** A switch waits for writers that a fault holds up. The next switch tries again. */
const UPGRADED_WITHIN_MS = 20_000

/** Refused if it is done already, and while the database is down. Then nothing changes. */
export async function upgradeIds (config: string): Promise<void> {
  const args = [MAIN, 'ids', 'upgrade', '--yes', '--who', 'chaos', '--why', 'both secrets are everywhere', '--config', config]
  await promisify(execFile)(process.execPath, args, { env: ownEnvironment(), timeout: UPGRADED_WITHIN_MS }).catch(() => {})
}
