/** One server of the cluster beside Postgres: a Debian program that listens on a port. It keeps its port and its directory. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findServer, findTool } from '../binaries.ts'
import type { Tool } from '../binaries.ts'
import { launch } from '../process.ts'
import type { Launched, User } from '../process.ts'

export interface HaServerOptions {
  /** Of its log. */
  readonly name: string
  readonly tool: Extract<Tool, 'etcd' | 'haproxy' | 'pgbouncer'> | 'redis-server'
  readonly args: readonly string[]
  readonly directory: string
  readonly port: number
  readonly user: User | undefined
}

const START_MS_MAX = 30_000

export class HaServer {
  readonly #options: HaServerOptions
  readonly #file: string
  #running: Launched | null = null

  constructor (options: HaServerOptions) {
    this.#options = options
    const source = options.tool === 'redis-server' ? findServer('redis') : findTool(options.tool)
    if (source.kind !== 'binaries') throw new Error(source.kind === 'none' ? source.why : `${options.tool} as a program`)
    this.#file = join(source.directory, options.tool)
  }

  get port (): number { return this.#options.port }

  get log (): string { return join(this.#options.directory, `${this.#options.name}.log`) }

  /** Resolves when it listens. */
  async start (): Promise<this> {
    const { name, args, directory, port, user } = this.#options
    const running = launch({ file: this.#file, args, directory, log: this.log, user, endSignal: 'SIGKILL' })
    this.#running = running
    for (const until = performance.now() + START_MS_MAX; !await accepts(port); await sleep(20)) {
      if (!running.running()) throw new Error(`${name} ended while starting:\n${running.lastLog()}`)
      if (performance.now() > until) throw new Error(`${name} did not listen in time:\n${running.lastLog()}`)
    }
    return this
  }

  async kill (): Promise<void> { await this.#running?.killAll() }

  async restart (): Promise<void> {
    await this.kill()
    await this.start()
  }
}

async function accepts (port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
