/** Files that a running process reads again. A pipe under such a name would hold up everything, because its reader waits for a writer. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'

/** @throws Error, in one sentence that names the file and never shows its text */
export function readRegularFile (file: string, bytesMax: number): string {
  try {
    // The open of a pipe would wait too.
    const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const stat = fstatSync(descriptor)
      if (!stat.isFile()) throw new Error(`${file} is no regular file`)
      if (stat.size > bytesMax) throw new Error(`${file} is too large (${stat.size} bytes)`)
      return readFileSync(descriptor, 'utf8')
    } finally {
      closeSync(descriptor)
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    throw new Error(`${file} cannot be read (${code})`, { cause: error })
  }
}
