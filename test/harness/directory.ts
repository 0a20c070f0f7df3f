/** Temporary directories that go away with the test process, however it ends short of SIGKILL. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atExit } from './exit.ts'

export interface Directory { readonly path: string, remove: () => void }

export function makeDirectory (name: string): Directory {
  const path = mkdtempSync(join(tmpdir(), `onceway-${name}-`))
  const forget = atExit(remove)
  function remove () {
    forget()
    rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  }
  return { path, remove }
}
