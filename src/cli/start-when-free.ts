/** A gateway that is restarted finds the one before still draining: it waits until the data directory is free. */
import { setTimeout as sleep } from 'node:timers/promises'
import { DirectoryHeld, holderOf, isHeld } from '../store/sqlite/directory.ts'

const LOOK_MS = 100

export interface Waiting {
  readonly dataDir: string
  /** As long as the one before may take to drain and close. */
  readonly withinMs: number
  readonly stopped: Promise<unknown>
  readonly err: (line: string) => void
}

/** null: `stopped` while it waited. Rejects as `start` does, with DirectoryHeld only after `withinMs`. */
export async function startWhenFree<T> (start: () => Promise<T>, { dataDir, withinMs, stopped, err }: Waiting): Promise<T | null> {
  const endsAt = performance.now() + withinMs
  let told = false
  let over = false
  void stopped.then(() => { over = true })
  for (;;) {
    try {
      return await start()
    } catch (error) {
      if (!(error instanceof DirectoryHeld) || performance.now() >= endsAt) throw error
    }
    if (!told) err(`onceway: another onceway${by(holderOf(dataDir))} still serves from ${dataDir}: waiting up to ${Math.ceil(withinMs / 1_000)} s for it to stop.`)
    told = true
    do {
      await Promise.race([stopped, sleep(LOOK_MS)])
      if (over) return null
    } while (isHeld(dataDir) && performance.now() < endsAt)
  }
}

function by (pid: number | null): string {
  return pid === null ? '' : ` (process ${pid})`
}
