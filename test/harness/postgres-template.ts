/**
 * initdb takes over a second, and a copy of its result a tenth of that. So initdb runs once for all test processes of one parent, and
 * each process copies the result.
 */
import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeDirectory, type Directory } from './directory.ts'
import type { User } from './process.ts'

/** The superuser of every cluster that the harness makes. */
export const USER = 'onceway'
export const PASSWORD = 'of-the-test'

/** Named by user id: users share the temporary directory, and cannot read or remove each other's templates. */
const PREFIX = `onceway-template-${process.getuid?.() ?? ''}-`

export function template (binaries: string, user: User | undefined): string {
  removeLeftovers()
  // Processes that init has adopted have no common run, and init never ends.
  const made = join(tmpdir(), `${PREFIX}${process.ppid === 1 ? process.pid : process.ppid}`)
  if (!existsSync(made)) makeTemplate(binaries, user, made)
  return made
}

/** Templates of runs that have ended. */
function removeLeftovers () {
  for (const name of readdirSync(tmpdir()).filter((name) => name.startsWith(PREFIX))) {
    const pid = Number(name.slice(PREFIX.length))
    if (!Number.isInteger(pid) || lives(pid)) continue
    // Any process can take such a name. A directory that cannot be removed stays, and costs this run nothing.
    try { rmSync(join(tmpdir(), name), { recursive: true, force: true }) } catch {}
  }
}

function makeTemplate (binaries: string, user: User | undefined, made: string) {
  // It is renamed at the end, and that works within one file system only.
  const directory = makeDirectory('initdb', tmpdir())
  const password = join(directory.path, 'password')
  writeFileSync(password, PASSWORD)
  own(directory, password, user)
  const cluster = join(directory.path, 'data')
  const { status, stderr } = spawnSync(join(binaries, 'initdb'), [
    '--pgdata', cluster, '--username', USER, '--pwfile', password, '--auth', 'scram-sha-256',
    '--encoding', 'UTF8', '--locale', 'C', '--no-sync', '--no-instructions'
  ], { cwd: directory.path, encoding: 'utf8', ...user })
  if (status !== 0) throw new Error(`initdb failed: ${stderr}`)
  // If another test process was first, its template is as good.
  try { renameSync(cluster, made) } catch {}
  directory.remove()
}

/** Gives the directory, and `path` with all that is in it, to `user`. */
export function own (directory: Directory, path: string, user: User | undefined) {
  if (user === undefined) return
  chownSync(directory.path, user.uid, user.gid)
  chownAll(path, user)
}

function chownAll (path: string, user: User) {
  chownSync(path, user.uid, user.gid)
  if (!statSync(path).isDirectory()) return
  for (const entry of readdirSync(path)) chownAll(join(path, entry), user)
}

function lives (pid: number): boolean {
  try { return process.kill(pid, 0) } catch (error) { return (error as NodeJS.ErrnoException).code === 'EPERM' }
}
