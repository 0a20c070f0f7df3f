/** Temporary directories that go away with the test process, however it ends short of SIGKILL. */
import { accessSync, constants, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atExit } from './exit.ts'

export interface Directory { readonly path: string, remove: () => void }

const SHARED_MEMORY = '/dev/shm'
/** Some clusters at once, each with its write-ahead log at its largest. A container often has 64 MiB there. */
const ROOM_LEAST_BYTES = 2 * 1024 ** 3

/**
 * In memory, where the system has a place for files there: what a test commits has to outlive its processes, not the
 * machine, and to copy a cluster takes a tenth of what it takes on a disk.
 */
export const QUICKEST = hasRoom(SHARED_MEMORY) ? SHARED_MEMORY : tmpdir()

function hasRoom (path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    const { bavail, bsize } = statfsSync(path)
    return bavail * bsize >= ROOM_LEAST_BYTES
  } catch { return false }
}

/** `below`: where. For measurements, and for programs, which may not be run from everywhere, it is `tmpdir()`. */
export function makeDirectory (name: string, below = QUICKEST): Directory {
  const path = mkdtempSync(join(below, `onceway-${name}-`))
  const forget = atExit(remove)
  function remove () {
    forget()
    rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  }
  return { path, remove }
}
