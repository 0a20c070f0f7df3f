/**
 * One Postgres under its Patroni. Postgres is no child of Patroni's: it outlives it. So each is found and ended by a pid of its own,
 * the postmaster's from its file.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { alive, descendants, launch } from '../process.ts'
import type { Launched, User } from '../process.ts'
import { programOf } from './server.ts'

export interface PatroniNodeOptions {
  readonly name: string
  readonly directory: string
  /** Its patroni.yml. */
  readonly file: string
  readonly dataDirectory: string
  readonly restPort: number
  readonly postgresPort: number
  /** A superuser's of its own Postgres, past every proxy. */
  readonly url: string
  readonly env: Readonly<Record<string, string>>
  readonly user: User | undefined
}

const REST_MS_MAX = 2_000
const STOP_MS_MAX = 30_000

export class PatroniNode {
  readonly #options: PatroniNodeOptions
  #running: Launched | null = null
  #frozen: number[] = []

  constructor (options: PatroniNodeOptions) {
    this.#options = options
  }

  get name (): string { return this.#options.name }
  get url (): string { return this.#options.url }
  get restUrl (): string { return `http://127.0.0.1:${this.#options.restPort}` }
  get log (): string { return join(this.#options.directory, `${this.name}.log`) }
  get file (): string { return this.#options.file }
  get isRunning (): boolean { return this.#running?.running() === true }

  /** Patroni starts Postgres. A Postgres that still runs is taken over. */
  start (): void {
    const { directory, file, env, user } = this.#options
    const own = Object.entries(process.env).filter(([name]) => !/^(PATRONI_|PG|ONCEWAY_|NODE_)/.test(name))
    this.#running = launch({
      file: programOf('patroni'),
      args: [file],
      directory,
      log: this.log,
      user,
      env: { ...Object.fromEntries(own), HOME: directory, ...env },
      endSignal: 'SIGTERM'
    })
  }

  /** SIGKILL. */
  async kill (what: 'postgres' | 'patroni' | 'both'): Promise<void> {
    const postgres = what === 'patroni' ? [] : this.#postgres()
    if (what !== 'postgres') await this.#running?.killAll()
    signal(postgres, 'SIGKILL')
    while (postgres.some(alive)) await sleep(5)
  }

  /** SIGSTOP to Postgres and Patroni: connections stay open, and nothing answers. */
  freeze (): void {
    this.#frozen = this.#postgres()
    this.#running?.pause()
    // The postmaster first: a stopped one forks no further children.
    signal(this.#frozen.slice(0, 1), 'SIGSTOP')
    this.#frozen = this.#postgres()
    signal(this.#frozen, 'SIGSTOP')
  }

  thaw (): void {
    signal(this.#frozen, 'SIGCONT')
    this.#running?.resume()
    this.#frozen = []
  }

  /** The status that Patroni answers with. 0: nothing in time. */
  async check (path: string): Promise<number> {
    return this.ask('GET', path).then(({ status }) => status, () => 0)
  }

  async ask (
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    body?: object,
    msMax = REST_MS_MAX
  ): Promise<{ status: number, text: string }> {
    const answer = await fetch(`${this.restUrl}${path}`, {
      method,
      signal: AbortSignal.timeout(msMax),
      ...body !== undefined && { body: JSON.stringify(body) }
    })
    return { status: answer.status, text: await answer.text() }
  }

  /** Patroni stops Postgres. What does not end is killed. */
  async stop (): Promise<void> {
    this.thaw()
    const running = this.#running
    if (running?.running() === true) {
      process.kill(running.pid, 'SIGTERM')
      for (const endsAt = performance.now() + STOP_MS_MAX; running.running() && performance.now() < endsAt;) await sleep(20)
    }
    await this.kill('both')
  }

  /** The postmaster and its children. Empty: it does not run. */
  #postgres (): number[] {
    try {
      const [first = ''] = readFileSync(join(this.#options.dataDirectory, 'postmaster.pid'), 'utf8').split('\n')
      const pid = Number(first)
      // The file of a killed one may name a pid that somebody else has by now.
      if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(this.#options.dataDirectory)) return []
      return [pid, ...descendants(pid)]
    } catch { return [] }
  }
}

function signal (pids: readonly number[], name: NodeJS.Signals): void {
  for (const pid of pids) {
    try { process.kill(pid, name) } catch {}
  }
}
