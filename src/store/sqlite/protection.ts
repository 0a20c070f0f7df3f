/**
 * Who may read the embedded store: its owner alone. SQLite gives its own files beside the database (-wal, -shm) the
 * database's mode. Windows has no modes. There the directory's access list counts, which is the administrator's.
 */
import { chmodSync, closeSync, existsSync, lstatSync, openSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { StartError } from '../../ports/errors.ts'

/** The files hold keys, paths and answers of other people. */
export const DIRECTORY_MODE = 0o700
const FILE_MODE = 0o600
const OF_OTHERS = 0o077
const WRITTEN_BY_ALL = 0o002

export const DATABASE = 'onceway.db'
export const LOCK = 'onceway.lock'
export const SECRET = 'secret'
const OWN_FILES: ReadonlySet<string> = new Set([
  DATABASE, `${DATABASE}-wal`, `${DATABASE}-shm`, `${DATABASE}-journal`, LOCK, `${LOCK}-journal`, SECRET,
  `${SECRET}.new`
])

const HAS_MODES = process.platform !== 'win32'

/** Existing files, and files that were copied here, become their owner's alone. @throws StartError if they cannot */
export function protectFiles (dataDir: string): void {
  for (const name of HAS_MODES ? OWN_FILES : []) {
    const file = join(dataDir, name)
    if (!existsSync(file)) continue
    if (!statSync(file).isFile()) {
      throw new StartError(`${file} is no file: the embedded store keeps one there. Move it away, or give another --data-dir.`)
    }
    if ((statSync(file).mode & OF_OTHERS) === 0) continue
    if (lstatSync(file).isSymbolicLink()) {
      throw new StartError(`Other users may read what ${file} is a link to: \`chmod 600\` that, or put the file itself there.`)
    }
    try {
      chmodSync(file, FILE_MODE)
    } catch (error) {
      throw new StartError(
        `Other users may read ${file}, and this one may not change that: \`chmod 600\` it as its owner, or give another --data-dir.`,
        1,
        error
      )
    }
  }
}

/** Makes a missing file as its owner's alone, before SQLite opens it. */
export function makeProtected (file: string): void {
  closeSync(openSync(file, 'a', FILE_MODE))
}

/**
 * If a directory is this user's and holds nothing else, it is closed to others. Returns a sentence if others may replace its
 * files all the same: all users, or the files' owner. null: there is nothing to say.
 */
export function protectDirectory (dataDir: string): string | null {
  if (!HAS_MODES) return null
  const { mode, uid } = statSync(dataDir)
  const others = [dataDir, ...Array.from(OWN_FILES, (name) => join(dataDir, name))].find((file) =>
    existsSync(file) && statSync(file).uid !== process.getuid?.())
  if (others !== undefined) return `${others} belongs to another user than the gateway's, who may read and replace what is in it; \`chown\` it, or give a data directory of its own`
  if ((mode & OF_OTHERS) === 0) return null
  if (uid === process.getuid?.() && readdirSync(dataDir).every((name) => OWN_FILES.has(name))) {
    chmodSync(dataDir, DIRECTORY_MODE)
    return null
  }
  return (mode & WRITTEN_BY_ALL) === 0
    ? null
    : `every user may write to the data directory ${dataDir}, and so replace what is in it; give one of its own, with mode 0700`
}
