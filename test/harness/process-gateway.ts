/**
 * The gateway as users run it: a process that is started by the command line, and controlled by signals and a configuration file.
 * It ends with the test that started it.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeDirectory } from './directory.ts'
import { atExit } from './exit.ts'
import { descendants } from './process.ts'

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

const REGISTER = fileURLToPath(new URL('../broken/register.ts', import.meta.url))

export type LogLine = Record<string, unknown> & { readonly msg?: string, readonly level?: string }

export interface ProcessGateway {
  readonly url: string
  readonly adminUrl: string
  readonly pid: number
  /** Everything on stdout and stderr so far. */
  readonly output: () => string
  readonly logLines: () => LogLine[]
  readonly signal: (signal: NodeJS.Signals) => void
  /** The exit code, or the signal's name. */
  readonly exited: Promise<number | NodeJS.Signals>
  /** Resolves when a log line satisfies `is`. */
  readonly logged: (is: (line: LogLine) => boolean) => Promise<LogLine>
}

export interface ProcessGatewayOptions {
  /** YAML. `listen.port` and `admin.port` should be 0. */
  readonly config?: string
  /** Of another release than the tree's. */
  readonly main?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** A test, or another owner that ends. */
interface Ending { after: (end: () => Promise<void>) => void }

/** Longest start on a busy machine, with workers. It takes half a second on an idle one. */
const START_MS_MAX = 60_000

export async function startProcess (t: Ending, options: ProcessGatewayOptions): Promise<ProcessGateway> {
  const directory = makeDirectory('gateway')
  const args = [options.main ?? MAIN, 'serve', '--data-dir', join(directory.path, 'store'), ...options.args ?? []]
  if (options.config !== undefined) {
    const file = join(directory.path, 'onceway.yaml')
    writeFileSync(file, options.config)
    args.push('--config', file)
  }
  const child = spawn(process.execPath, [...brokenArgs(), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...cleanEnv(), ...options.env }
  })
  const forget = atExit(() => { child.kill('SIGKILL') })
  t.after(async () => {
    // Its workers too: without it they would drain, and hold the test's pipes until they have.
    const workers = child.pid === undefined || child.exitCode !== null || child.signalCode !== null ? [] : descendants(child.pid)
    child.kill('SIGCONT')
    child.kill('SIGKILL')
    for (const pid of workers) {
      try { process.kill(pid, 'SIGKILL') } catch {}
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    forget()
    directory.remove()
  })
  return started(child)
}

/** Resolves when the gateway listens, with its ports from what it prints. */
export async function started (child: ChildProcess): Promise<ProcessGateway> {
  let output = ''
  const listeners = new Set<() => void>()
  const take = (chunk: Buffer): void => {
    output += chunk.toString('utf8')
    for (const listener of Array.from(listeners)) listener()
  }
  child.stdout?.on('data', take)
  child.stderr?.on('data', take)
  const exited = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals)
  const until = async <T> (find: () => T | null, ms: number): Promise<T> => new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => { reject(new Error(`not seen in ${ms} ms in:\n${output}`)) }, ms)
    const look = (): void => {
      const found = find()
      if (found === null) return
      clearTimeout(timer)
      listeners.delete(look)
      resolve(found)
    }
    listeners.add(look)
    void exited.then((code) => { look(); clearTimeout(timer); reject(new Error(`ended with ${code} before it was seen:\n${output}`)) })
    look()
  })
  const logLines = (): LogLine[] => output.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as LogLine)
  const found = await until(() => /listens on (https?:\S+) +\(admin: (https?:[^)]+)\)/.exec(output), START_MS_MAX)
  return {
    url: found[1] as string,
    adminUrl: found[2] as string,
    pid: child.pid as number,
    output: () => output,
    logLines,
    signal: (signal) => { child.kill(signal) },
    exited,
    logged: async (is) => until(() => logLines().find(is) ?? null, START_MS_MAX)
  }
}

/** If a test runs on a broken build, so do its gateways (test/broken/). */
function brokenArgs (): string[] {
  return process.env.ONCEWAY_BREAK === undefined ? [] : ['--import', REGISTER]
}

/** The part of the environment that a gateway needs. The compile cache halves its start time. */
export function bareEnv (): Record<string, string> {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE } = process.env
  return { PATH, HOME, ...NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE } }
}

/** The test's own environment must not configure the gateway. */
function cleanEnv (): Record<string, string> {
  return Object.fromEntries(Object.entries(process.env).filter(([name, value]) =>
    value !== undefined &&
    !/^(ONCEWAY_(?!BREAK$)|DATABASE_URL|REDIS_URL|PG|NODE_TEST_CONTEXT|NODE_OPTIONS)/.test(name))) as Record<string, string>
}
