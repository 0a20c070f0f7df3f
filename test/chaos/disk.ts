/**
 * A small disk of the run's own, which can be filled up without harm to others: a tmpfs, if this process may mount one.
 * If not, the run goes on without it, and reports it.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, rmSync, rmdirSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atExit } from '../harness/exit.ts'

export interface Disk {
  readonly path: string
  fill: () => void
  empty: () => void
  remove: () => void
}

const PREFIX = 'onceway-chaos-disk-'
/** A template, a cluster, its write-ahead log at its largest, and an hour's rows. */
const SIZE = '900m'

/** Or the reason why not. */
export function mountDisk (): Disk | string {
  removeLeftOver()
  if (spawnSync('fallocate', ['--version']).status !== 0) return 'there is no fallocate here to fill a disk with'
  const path = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', path], { encoding: 'utf8' })
  if (mounted.status !== 0) {
    rmdirSync(path)
    return `no tmpfs can be mounted here (${(mounted.stderr ?? String(mounted.error ?? '')).trim()})`
  }
  chmodSync(path, 0o777)
  const forget = atExit(() => { unmount(path) })
  const ballast = join(path, 'ballast')
  return {
    path,
    fill: () => { fill(path, ballast) },
    empty: () => { rmSync(ballast, { force: true }) },
    remove: () => {
      forget()
      unmount(path)
    }
  }
}

/** Takes all free space. Space that others free later is not taken. */
function fill (path: string, file: string): void {
  const { bavail, bsize } = statfsSync(path)
  spawnSync('fallocate', ['-l', String(Math.max(bsize, bavail * bsize)), file])
}

function unmount (path: string): void {
  spawnSync('umount', ['-l', path])
  try { rmdirSync(path) } catch {}
}

/** Of runs that were killed so that they could not clean up. */
function removeLeftOver (): void {
  for (const name of readdirSync(tmpdir()).filter((name) => name.startsWith(PREFIX))) {
    const pid = Number(name.slice(PREFIX.length).split('-')[0])
    if (!lives(pid)) unmount(join(tmpdir(), name))
  }
}

function lives (pid: number): boolean {
  try { return process.kill(pid, 0) } catch (error) { return (error as NodeJS.ErrnoException).code === 'EPERM' }
}
