/** How many files a process started from here may hold open: a test with ten thousand connections asks before it begins. */
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

/** As needs(): skipped by name, with the reason, and counted; with CI=true a failure of the file instead. */
export function needsOpenFiles (wanted: number): { skip: string } | { skip: false } {
  const limit = openFilesMax()
  if (limit >= wanted) return { skip: false }
  const why = `needs ${wanted} open files in one process, and ulimit -n allows ${limit}`
  if (process.env.CI === 'true') throw new Error(`CI=true allows no skipped test: ${why}`)
  test(`what needs ${wanted} open files`, { skip: why }, () => {})
  return { skip: why }
}

/** Node lifts its own limit as far as it may, and its children inherit that. */
function openFilesMax (): number {
  const { stdout } = spawnSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' })
  return stdout.trim() === 'unlimited' ? Infinity : Number(stdout)
}
