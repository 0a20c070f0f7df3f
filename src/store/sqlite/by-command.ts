/** The embedded store as a command opens it, on this thread: it looks before it makes anything, and serves nobody. */
import type { DatabaseSync } from 'node:sqlite'
import { Database } from './database.ts'
import { openDirectory } from './directory.ts'
import { errorOf, Faulted } from './faults.ts'

/** Beside a gateway that may serve from there. @throws StartError, StoreError */
export function withDatabase<Result> (dataDir: string, nowMs: number, work: (connection: DatabaseSync) => Result): Result {
  const { file } = openDirectory(dataDir, false)
  try {
    // Not exclusive: that would end what is claimed as if its gateway had died.
    const database = new Database({ file, nowMs, exclusive: false })
    try {
      return work(database.connection)
    } finally {
      database.close()
    }
  } catch (error) {
    throw error instanceof Faulted ? errorOf(error.fault) : error
  }
}

/** Where no gateway serves, and none begins to until it is done. @throws StartError, StoreError */
export function withDatabaseAlone<Result> (dataDir: string, nowMs: number, work: (connection: DatabaseSync) => Result): Result {
  openDirectory(dataDir, false)
  const { release } = openDirectory(dataDir, true)
  try {
    return withDatabase(dataDir, nowMs, work)
  } finally {
    release()
  }
}

/** Runs in a transaction of its own. It is committed if `keeps` accepts the result. */
export function inTransaction<Result> (connection: DatabaseSync, work: () => Result, keeps: (result: Result) => boolean): Result {
  connection.exec('begin immediate')
  try {
    const result = work()
    connection.exec(keeps(result) ? 'commit' : 'rollback')
    return result
  } catch (error) {
    if (connection.isTransaction) connection.exec('rollback')
    throw error
  }
}
