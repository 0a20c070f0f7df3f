/** A process of the benchmark: its log in a file, nothing of the run's own environment in its own. */
import { connect } from 'node:net'
import { existsSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { eventually } from '../test/harness/eventually.ts'
import { launch } from '../test/harness/process.ts'
import type { Launched } from '../test/harness/process.ts'
import { BEGUN } from './allocations/allocated.ts'
import type { Allocated } from './allocations/allocated.ts'

/** Of an inbox's deliveries: they wait, or go as fast as they can. */
export type Wish = 'held' | 'free'

export interface Child {
  readonly url: string
  readonly pid: number
  /** The end of its log, if it is not running any more; else null. */
  readonly trouble: () => string | null
  /** Logs are written as in earnest, and kept no longer than a turn: a gateway writes a line for every request. */
  readonly forgetLog: () => void
  /** Resolves when the log says `answer`. Forgets the log. */
  readonly signal: (signal: NodeJS.Signals, answer: string) => Promise<void>
  /** null: it is not on Node, or not one process. Between two calls, what the main thread allocates is counted. */
  readonly allocations: (() => Promise<Allocated | null>) | null
  /** Of an inbox; others have none to hold. */
  readonly deliveries: (wish: Wish) => Promise<void>
  readonly stop: () => Promise<void>
}

export interface ChildOptions {
  readonly name: string
  readonly file: string
  readonly args: readonly string[]
  readonly directory: string
  readonly env?: Readonly<Record<string, string>>
  /** Where it will listen; else its log says `listens on http…://…`. */
  readonly url?: string
  /** By which it and its children end, should this run end without stopping them. */
  readonly endSignal?: 'SIGQUIT' | 'SIGKILL'
}

const STARTS_WITHIN_MS = 30_000

export async function startChild ({ name, file, args, directory, env = {}, url, endSignal = 'SIGKILL' }: ChildOptions): Promise<Child> {
  const log = join(directory, `${name}.log`)
  const launched = launch({ file, args, directory, log, env: { ...cleanEnvironment(), ...env }, endSignal })
  const listening = await eventuallyListens(launched, url ?? null, log, name)
  return {
    url: listening,
    pid: launched.pid,
    trouble: () => launched.running() ? null : `${name} has ended:\n${launched.lastLog()}`,
    forgetLog: () => { truncateSync(log) },
    async signal (signal, answer) {
      truncateSync(log)
      process.kill(launched.pid, signal)
      await eventually(() => readFileSync(log, 'utf8').includes(answer), () => `${name} does not say "${answer}":\n${launched.lastLog()}`)
    },
    allocations: null,
    deliveries: async () => { throw new Error(`${name} delivers nothing`) },
    stop: () => launched.killAll()
  }
}

const PRELOAD = fileURLToPath(new URL('allocations/preload.ts', import.meta.url))

/** A contestant on Node, which can be told to count what it allocates. */
export async function startNode (
  name: string,
  directory: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>
): Promise<Child> {
  const file = join(directory, `${name}.allocated`)
  const child = await startChild({
    name,
    file: process.execPath,
    args: ['--import', PRELOAD, ...args],
    directory,
    env: { ...env, ALLOCATED: file }
  })
  return {
    ...child,
    async allocations () {
      process.kill(child.pid, 'SIGWINCH')
      await eventually(() => existsSync(file), () => `${name} does not say what it allocates`)
      const said = readFileSync(file, 'utf8')
      rmSync(file)
      return said === BEGUN ? null : JSON.parse(said) as Allocated
    }
  }
}

async function eventuallyListens (launched: Launched, url: string | null, log: string, name: string): Promise<string> {
  const said = (): string | null => /listens on (https?:\S+)/.exec(readFileSync(log, 'utf8'))?.[1] ?? null
  const listens = async (): Promise<boolean> => url === null ? said() !== null : accepts(url)
  await eventually(
    async () => !launched.running() || await listens(),
    () => `${name} does not listen:\n${launched.lastLog()}`,
    STARTS_WITHIN_MS
  )
  const found = url ?? said()
  if (!launched.running() || found === null) throw new Error(`${name} ended while starting:\n${launched.lastLog()}`)
  return found
}

async function accepts (url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  try {
    return await new Promise<boolean>((resolve) => {
      socket.once('connect', () => { resolve(true) }).once('error', () => { resolve(false) })
    })
  } finally {
    socket.destroy()
  }
}

function cleanEnvironment (): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(ONCEWAY_|DATABASE_URL|REDIS_URL|PG|NODE_TEST_CONTEXT|NODE_OPTIONS)/.test(name))
  )
}
