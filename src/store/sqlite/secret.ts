/**
 * The secret that keys the ids of an embedded store (core/record/schemes.ts), in a file beside it. Without it, a copy of the
 * database cannot be searched. It is made once. If it is lost, docs/concepts/identity.md says what to do.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { SECRET_BYTES_MIN } from '../../core/record/schemes.ts'
import { errorText, StartError } from '../../ports/errors.ts'
import { databaseFile, openDirectory } from './directory.ts'
import { SECRET } from './protection.ts'

const SECRET_BYTES = 32
/** Only its owner may read and write it. */
const SECRET_MODE = 0o600

export function secretFile (dataDir: string): string {
  return join(dataDir, SECRET)
}

/** null: there is none. @throws StartError for a file that holds none. */
export function readSecret (dataDir: string): Buffer | null {
  const file = secretFile(dataDir)
  if (!existsSync(file)) return null
  if (!statSync(file).isFile()) throw new StartError(`The secret beside the embedded store cannot be read (${file}): it is no file.`)
  try {
    const secret = Buffer.from(readFileSync(file, 'utf8').trim(), 'base64url')
    if (secret.length >= SECRET_BYTES_MIN) return secret
  } catch (error) {
    throw new StartError(`The secret beside the embedded store cannot be read (${file}): ${errorText(error)}.`, 1, error)
  }
  throw new StartError(
    `The file ${file} holds no secret: put back the one that was made there, or read docs/concepts/identity.md on lost secrets.`
  )
}

/** As {@link readSecret}, but makes a secret if there is no store yet. */
export function secretToServe (dataDir: string): Buffer | null {
  return existsSync(databaseFile(dataDir)) ? readSecret(dataDir) : makeSecret(dataDir)
}

/** An existing secret stays. Meanwhile no process serves from the directory, and none makes another secret. @throws StartError */
export function makeSecret (dataDir: string): Buffer {
  const { release } = openDirectory(dataDir, true)
  try {
    return readSecret(dataDir) ?? writeSecret(dataDir, randomBytes(SECRET_BYTES))
  } finally {
    release()
  }
}

/** The secret is durable and complete before any id is made with it. @throws StartError */
function writeSecret (dataDir: string, secret: Buffer): Buffer {
  const [file, early] = [secretFile(dataDir), `${secretFile(dataDir)}.new`]
  try {
    // Left by a process that did not finish.
    rmSync(early, { force: true })
    synced(openSync(early, 'wx', SECRET_MODE), (descriptor) => { writeSync(descriptor, `${secret.toString('base64url')}\n`) })
    renameSync(early, file)
    synced(openSync(dataDir, 'r'), () => {})
    return secret
  } catch (error) {
    throw new StartError(`The secret beside the embedded store cannot be written (${file}): ${errorText(error)}.`, 1, error)
  }
}

function synced (descriptor: number, write: (descriptor: number) => void): void {
  try {
    write(descriptor)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
