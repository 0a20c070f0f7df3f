/** Temporary directories that are removed when the test process ends, except by SIGKILL. */
import { accessSync, constants, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atExit } from './exit.ts'

export interface Directory { readonly path: string, remove: () => void }

const SHARED_MEMORY = '/dev/shm'
/** Enough for some clusters at once, each with its largest write-ahead log. A container often has 64 MiB there. */
const ROOM_LEAST_BYTES = 2 * 1024 ** 3

/**
 * In memory, if the system has a file system for it. Commits of a test must outlive its processes, not the machine.
 * The copy of a cluster takes a tenth of the time that it takes on a disk.
 */
export const QUICKEST = hasRoom(SHARED_MEMORY) ? SHARED_MEMORY : tmpdir()

function hasRoom (path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    const { bavail, bsize } = statfsSync(path)
    return bavail * bsize >= ROOM_LEAST_BYTES
  } catch { return false }
}

/** `below`: the parent. For measurements, and for programs, which cannot run from every directory, it is `tmpdir()`. */
export function makeDirectory (name: string, below = QUICKEST): Directory {
  const path = mkdtempSync(join(below, `onceway-${name}-`))
  const forget = atExit(remove)
  function remove () {
    forget()
    rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  }
  return { path, remove }
}
