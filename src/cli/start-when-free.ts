/** After a restart the previous gateway may still be draining. The new one waits until the data directory is free. */
import { setTimeout as sleep } from 'node:timers/promises'
import { DirectoryHeld, holderOf, isHeld } from '../store/sqlite/directory.ts'

const POLL_MS = 100

export interface WaitOptions {
  readonly dataDir: string
  /** Timeout: the longest that the previous gateway may take to drain and close. */
  readonly withinMs: number
  readonly stopped: Promise<unknown>
  readonly err: (line: string) => void
}

/** null: `stopped` resolved while it waited. Rejects as `start` does, with DirectoryHeld only after `withinMs`. */
export async function startWhenFree<T> (start: () => Promise<T>, { dataDir, withinMs, stopped, err }: WaitOptions): Promise<T | null> {
  const endsAt = performance.now() + withinMs
  let isReported = false
  let isStopped = false
  void stopped.then(() => { isStopped = true })
  for (;;) {
    try {
      return await start()
    } catch (error) {
      if (!(error instanceof DirectoryHeld) || performance.now() >= endsAt) throw error
    }
    if (!isReported) err(`onceway: another onceway${holderText(holderOf(dataDir))} still serves from ${dataDir}: waiting up to ${Math.ceil(withinMs / 1_000)} s for it to stop.`)
    isReported = true
    do {
      await Promise.race([stopped, sleep(POLL_MS)])
      if (isStopped) return null
    } while (isHeld(dataDir) && performance.now() < endsAt)
  }
}

function holderText (pid: number | null): string {
  return pid === null ? '' : ` (process ${pid})`
}
