/**
 * The data directory. It is made if it is missing, and held for the life of the process. So a second gateway never serves the
 * same records. The lock is on a small file of its own, never on the database, so that the command line may read meanwhile.
 */
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { errorText, StartError } from '../../ports/errors.ts'
import { BUSY, primaryCode } from './faults.ts'
import { DATABASE, DIRECTORY_MODE, LOCK, makeProtected, protectDirectory, protectFiles } from './protection.ts'

export interface Directory {
  /** The database's path. */
  readonly file: string
  /** A sentence for the log: who else may reach the files. */
  readonly remark: string | null
  /** Releases the lock. Harmless if there is none. */
  readonly release: () => void
}

/** `exclusive`: make the directory and hold it, as a gateway does. Else it must exist already. Throws StartError. */
export function openDirectory (dataDir: string, exclusive: boolean): Directory {
  const file = databaseFile(dataDir)
  if (exclusive) {
    makeDirectory(dataDir)
    protectFiles(dataDir)
    return { file, release: hold(dataDir), remark: protectDirectory(dataDir) }
  }
  if (!existsSync(file)) {
    throw new StartError(`There is no database in ${dataDir}: start \`onceway serve\` there first, or give its directory with --data-dir.`)
  }
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

/** Made one by one from the top. Node's `recursive` never returns if a file system answers ENOENT for good (/proc). */
function makeAll (directory: string): void {
  if (existsSync(directory)) return
  makeAll(dirname(directory))
  mkdirSync(directory, { mode: DIRECTORY_MODE })
}

/** Another process serves from this directory. It may be on its way out. */
export class DirectoryHeld extends StartError {
  constructor (dataDir: string, cause: unknown) {
    const pid = holderOf(dataDir)
    super(`Another onceway serves from ${dataDir}${pid === null ? '' : ` (process ${pid})`}: end that process first. (Two gateways need a --data-dir each.)`, 1, cause)
  }
}

/** Whether a process serves from this directory at the moment. @throws StartError */
export function isHeld (dataDir: string): boolean {
  if (!existsSync(join(dataDir, LOCK))) return false
  try {
    hold(dataDir)()
    return false
  } catch (error) {
    if (error instanceof DirectoryHeld) return true
    throw error
  }
}

/** The process that serves from this directory, if the system says so. Linux does. */
export function holderOf (dataDir: string): number | null {
  try {
    const { dev, ino } = statSync(join(dataDir, LOCK))
    const hex = (value: number): string => value.toString(16).padStart(2, '0')
    const file = `${hex((dev >> 8) & 0xfff)}:${hex((dev & 0xff) | ((dev >> 12) & 0xfff00))}:${ino}`
    // "1: POSIX  ADVISORY  WRITE 4711 08:01:1234567 1073741824 1073742335". A waiting one has "->" behind its number.
    const lines = readFileSync('/proc/locks', 'utf8').split('\n').map((line) => line.trim().split(/\s+/))
    const pid = Number(lines.find(([, kind, , access, , place]) => kind === 'POSIX' && access === 'WRITE' && place === file)?.[4])
    return pid > 0 ? pid : null
  } catch {
    return null
  }
}

/** SQLite's own lock. It ends with the process, however that ends, and leaves nothing stale behind. */
function hold (dataDir: string): () => void {
  let lock: DatabaseSync | null = null
  try {
    const file = join(dataDir, LOCK)
    makeProtected(file)
    lock = new DatabaseSync(file, { timeout: 0 })
    lock.exec('begin exclusive')
  } catch (error) {
    lock?.close()
    if (primaryCode(error) === BUSY) throw new DirectoryHeld(dataDir, error)
    throw unusable(dataDir, error)
  }
  const held = lock
  return () => { if (held.isOpen) held.close() }
}

function unusable (dataDir: string, error: unknown): StartError {
  const cause = errorText(error)
  return new StartError(
    `The data directory ${dataDir} cannot be used (${cause}): give this user the right to write there, or give another --data-dir.`,
    1,
    error
  )
}
