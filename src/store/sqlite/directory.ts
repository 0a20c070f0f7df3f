/**
 * The data directory: made if need be, and held for the life of the process, so that a second gateway never serves the
 * same records. Holds a lock on a small file of its own, never on the database: the command line may look in meanwhile.
 */
import { existsSync, mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StartError } from '../../errors.ts'
import { BUSY, primaryCode } from './faults.ts'
import { DATABASE, DIRECTORY_MODE, LOCK, makeProtected, protectDirectory, protectFiles } from './protection.ts'

export interface Directory {
  /** The database's path. */
  readonly file: string
  /** A sentence for the log: who else may get at it. */
  readonly remark: string | null
  /** Lets go of the lock. Harmless when there is none. */
  readonly release: () => void
}

/** `exclusive`: make the directory and hold it, as a gateway does. Else it must be there already. Throws StartError. */
export function openDirectory (dataDir: string, exclusive: boolean): Directory {
  const file = databaseFile(dataDir)
  if (exclusive) {
    makeDirectory(dataDir)
    protectFiles(dataDir)
    return { file, release: hold(dataDir), remark: protectDirectory(dataDir) }
  }
  if (!existsSync(file)) throw new StartError(`There is no database in ${dataDir}: start \`onceway serve\` there first, or give its directory with --data-dir.`)
  return { file, remark: null, release: () => {} }
}

export function databaseFile (dataDir: string): string {
  return join(dataDir, DATABASE)
}

/** @throws StartError */
function makeDirectory (dataDir: string): void {
  try {
    makeAll(resolve(dataDir))
  } catch (error) {
    throw unusable(dataDir, error)
  }
}

/** One by one from the top: Node's `recursive` never returns where a file system answers ENOENT for good (/proc). */
function makeAll (directory: string): void {
  if (existsSync(directory)) return
  makeAll(dirname(directory))
  mkdirSync(directory, { mode: DIRECTORY_MODE })
}

/** SQLite's own lock: it ends with the process, however that ends, and leaves nothing stale behind. */
function hold (dataDir: string): () => void {
  let lock: DatabaseSync | null = null
  try {
    const file = join(dataDir, LOCK)
    makeProtected(file)
    lock = new DatabaseSync(file, { timeout: 0 })
    lock.exec('begin exclusive')
  } catch (error) {
    lock?.close()
    if (primaryCode(error) === BUSY) throw new StartError(`Another onceway serves from ${dataDir}: end that process first. (Two gateways need a --data-dir each.)`, 1, error)
    throw unusable(dataDir, error)
  }
  const held = lock
  return () => { if (held.isOpen) held.close() }
}

function unusable (dataDir: string, error: unknown): StartError {
  const cause = error instanceof Error ? error.message : String(error)
  return new StartError(`The data directory ${dataDir} cannot be used (${cause}): give this user the right to write there, or give another --data-dir.`, 1, error)
}
