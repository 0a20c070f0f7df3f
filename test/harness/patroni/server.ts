/** One server beside Postgres: a program that listens on a port. It keeps its port and its directory. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findServer, findTool } from '../binaries.ts'
import type { Tool } from '../binaries.ts'
import { accepts } from '../ports.ts'
import { launch } from '../process.ts'
import type { Launched, User } from '../process.ts'

export interface HaServerOptions {
  /** Of its log. */
  readonly name: string
  readonly file: string
  readonly args: readonly string[]
  readonly directory: string
  readonly port: number
  readonly user?: User | undefined
  readonly env?: NodeJS.ProcessEnv
}

const START_MS_MAX = 30_000

export class HaServer {
  readonly #options: HaServerOptions
  #running: Launched | null = null

  constructor (options: HaServerOptions) {
    this.#options = options
  }

  get port (): number { return this.#options.port }

  get log (): string { return join(this.#options.directory, `${this.#options.name}.log`) }

  /** Resolves when it listens. */
  async start (): Promise<this> {
    const { name, file, args, directory, port, user, env } = this.#options
    const running = launch({ file, args, directory, log: this.log, user, env, endSignal: 'SIGKILL' })
    this.#running = running
    for (const until = performance.now() + START_MS_MAX; !await accepts(port); await sleep(20)) {
      if (!running.running()) throw new Error(`${name} ended while starting:\n${running.lastLog()}`)
      if (performance.now() > until) throw new Error(`${name} did not listen in time:\n${running.lastLog()}`)
    }
    return this
  }

  get pid (): number | null { return this.#running?.pid ?? null }

  async end (signal: NodeJS.Signals): Promise<void> { await this.#running?.end(signal) }

  async kill (): Promise<void> { await this.#running?.killAll() }
}

/** Debian's. */
export function programOf (tool: Tool | 'redis-server'): string {
  const source = tool === 'redis-server' ? findServer('redis') : findTool(tool)
  if (source.kind !== 'binaries') throw new Error(source.kind === 'none' ? source.why : `${tool} is needed as a program`)
  return join(source.directory, tool)
}
