/**
 * What operators read and change one at a time, with a limit in the database. One transaction, whose setting a pooler cannot give to
 * another client.
 */
import { StoreUnavailable } from '../../ports/errors.ts'
import { Horizon } from './durable.ts'
import { isTimeOver } from './faults.ts'
import type { Session, Statement } from './statements.ts'

const BEGIN: Statement = { name: 'limited_begin', writes: false, text: () => 'begin' }
const LIMIT: Statement = { name: 'limited_limit', writes: false, text: () => "select set_config('statement_timeout', $1, true)" }
/** If its reply is lost, nobody knows whether the change is there. */
const COMMIT: Statement = { name: 'limited_commit', writes: true, text: () => 'commit' }
/** Nothing was changed, so nothing can be in doubt. */
const END: Statement = { name: 'limited_end', writes: false, text: () => 'commit' }
const ROLLBACK: Statement = { name: 'limited_rollback', writes: false, text: () => 'rollback' }

/** `isUsable` false: the connection does not answer, so that a rollback would only wait as long again. */
export interface LimitedSession extends Session { readonly isUsable: boolean }

/** @throws as every statement. A statement whose time is over has changed nothing. */
export async function limited<Result> (
  session: LimitedSession,
  operation: string,
  withinMs: number,
  work: (session: Session) => Promise<Result>
): Promise<Result> {
  let writes = false
  const noting: Session = {
    lockTimeout: session.lockTimeout,
    // What a look proves holds once the transaction is acknowledged. Other sessions must not rely on it before.
    horizon: new Horizon(),
    run: async (statement, values) => {
      writes ||= statement.writes
      return session.run(statement, values)
    }
  }
  await session.run(BEGIN, [])
  try {
    await session.run(LIMIT, [`${withinMs}ms`])
    const result = await work(noting)
    await session.run(writes ? COMMIT : END, [])
    return result
  } catch (error) {
    if (session.isUsable) await session.run(ROLLBACK, []).catch(() => {})
    if (!isTimeOver(error)) throw error
    throw new StoreUnavailable('postgres', operation, false, new Error(`it was not done within ${withinMs} ms, and ended`), true)
  }
}
