/**
 * One server process of a test. It is stopped by its pid, never by a name.
 * If the test process is killed and cannot clean up, a watchdog shell sees its pipe close and ends the server.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { atExit } from './exit.ts'

export interface User { readonly uid: number, readonly gid: number }

export interface LaunchOptions {
  readonly file: string
  readonly args: readonly string[]
  /** Working directory. The log is written into it. */
  readonly directory: string
  readonly log: string
  readonly user?: User | undefined
  /** The whole environment. Absent: this process's own. */
  readonly env?: NodeJS.ProcessEnv | undefined
  /** The signal by which the server and all its children end at once and clean up after themselves. */
  readonly endSignal: 'SIGQUIT' | 'SIGKILL' | 'SIGTERM'
}

export interface Launched {
  readonly pid: number
  readonly exited: Promise<void>
  running: () => boolean
  /** Sends the signal and waits for the end. */
  end: (signal: NodeJS.Signals) => Promise<void>
  /** SIGKILL to the process and everything below it, and waits for all of them. */
  killAll: () => Promise<void>
  /** SIGSTOP to the process and everything below it. */
  pause: () => void
  resume: () => void
  lastLog: () => string
}

export function launch (options: LaunchOptions): Launched {
  const log = openSync(options.log, 'a')
  const child = spawn(options.file, options.args, {
    cwd: options.directory,
    stdio: ['ignore', log, log],
    detached: true,
    ...options.user,
    ...options.env !== undefined && { env: options.env }
  })
  closeSync(log)
  child.unref()
  const exited = once(child, 'exit').then(() => {}, () => {})
  const pid = child.pid
  if (pid === undefined) throw new Error(`${options.file} could not be started`)
  const unwatch = watch(pid, options)
  const forget = atExit(() => { if (running(child)) signalAll([pid], 'SIGCONT', options.endSignal) })
  void exited.then(() => { forget(); unwatch() })
  return new LaunchedProcess(child, pid, exited, options.log)
}

class LaunchedProcess implements Launched {
  readonly pid: number
  readonly exited: Promise<void>
  readonly #child: ChildProcess
  readonly #log: string
  #paused: number[] = []

  constructor (child: ChildProcess, pid: number, exited: Promise<void>, log: string) {
    this.#child = child
    this.pid = pid
    this.exited = exited
    this.#log = log
  }

  running () { return running(this.#child) }

  async end (signal: NodeJS.Signals) {
    this.resume()
    if (!this.running()) return
    this.#child.ref()
    signalAll([this.pid], signal)
    await this.exited
  }

  async killAll () {
    const pids = [this.pid, ...descendants(this.pid)]
    signalAll(pids, 'SIGKILL')
    this.#paused = []
    if (this.running()) this.#child.ref()
    await this.exited
    // This process cannot wait for grandchildren. The kernel shows when the last one is gone.
    while (pids.some(alive)) await new Promise((resolve) => setTimeout(resolve, 5))
  }

  pause () {
    // The parent first: a stopped postmaster forks no further children.
    signalAll([this.pid], 'SIGSTOP')
    this.#paused = [this.pid, ...descendants(this.pid)]
    signalAll(this.#paused, 'SIGSTOP')
  }

  resume () {
    signalAll(this.#paused, 'SIGCONT')
    this.#paused = []
  }

  lastLog () { return readFileSync(this.#log, 'utf8').split('\n').slice(-20).join('\n') }
}

/**
 * Ends `pid` and removes its directory when this process's end of the pipe closes. Returns a function that stops the watchdog.
 * The watchdog ends before its pipe closes, so that it never signals a pid that the kernel has reused.
 */
function watch (pid: number, options: LaunchOptions): () => void {
  const child = spawn('/bin/sh', ['-c', WATCHDOG, 'watchdog', String(pid), options.endSignal.slice(3), options.directory], {
    stdio: ['pipe', 'ignore', 'ignore'], detached: true
  })
  child.on('error', () => {})
  child.unref()
  const { stdin } = child as { stdin: NodeJS.WritableStream & { unref?: () => void } }
  stdin.on('error', () => {})
  stdin.unref?.()
  return () => { child.kill('SIGKILL'); stdin.end() }
}

const WATCHDOG = 'cat >/dev/null; kill -CONT "$1" && kill -"$2" "$1"; sleep 1; rm -rf "$3"'

function running (child: ChildProcess) { return child.exitCode === null && child.signalCode === null }

function signalAll (pids: readonly number[], ...signals: NodeJS.Signals[]) {
  for (const pid of pids) {
    for (const signal of signals) {
      try { process.kill(pid, signal) } catch {}
    }
  }
}

/** A zombie counts as gone. */
export function alive (pid: number): boolean {
  try {
    process.kill(pid, 0)
    return statOf(pid)?.state !== 'Z'
  } catch { return false }
}

/** All descendants, without the process itself. */
export function descendants (root: number): number[] {
  const parents = readParents()
  const found: number[] = []
  for (let at = [root]; at.length > 0;) {
    const next = parents.filter(([, parent]) => at.includes(parent)).map(([pid]) => pid)
    found.push(...next)
    at = next
  }
  return found
}

/** [pid, parent] of every process: from /proc where there is one (small images have no ps), else from ps. */
function readParents (): Array<[number, number]> {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((name) => {
      const stat = statOf(Number(name))
      return stat === null ? [] : [[Number(name), stat.parent] as [number, number]]
    })
  } catch {
    const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    return (stdout ?? '').split('\n').map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
  }
}

function statOf (pid: number): { state: string, parent: number } | null {
  try {
    // "pid (name, which may hold spaces and brackets) state ppid …"
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [state = '', parent = '0'] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state, parent: Number(parent) }
  } catch { return null }
}
