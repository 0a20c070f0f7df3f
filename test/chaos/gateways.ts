/**
 * The gateways of a run, as users run them: processes of the command line, one seat each, replaced when they end.
 * Records for every process when it ran, when it was frozen, and whether its end was intended.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { atExit } from '../harness/exit.ts'
import type { CoreWait } from './core-waits.ts'
import { CoreWaits } from './core-waits.ts'
import type { Configured } from './differ.ts'
import { pause } from './stores.ts'

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const BREAKER = new URL('../broken/register.ts', import.meta.url).href

export interface SeatOptions {
  readonly name: string
  /** Of this run. Config, log and the embedded store's directory go there. */
  readonly directory: string
  /** The possible configurations. It begins with the first. */
  readonly configs: readonly string[]
  /** A break of test/broken, or null for the gateway as it is. */
  readonly broken: string | null
  /** Where its process listens now. */
  readonly onListening: (port: number) => Promise<void>
  readonly onTrouble: (what: string) => void
}

/** The run's own environment must not configure the gateway. */
export function ownEnvironment (): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(ONCEWAY_|DATABASE_URL|REDIS_URL|PG|NODE_TEST_CONTEXT|NODE_OPTIONS)/.test(name))
  )
}

/** One process: from when to when, and its pauses. */
export interface Incarnation {
  readonly pid: number
  readonly fromMs: number
  untilMs: number | null
  readonly frozen: Array<{ readonly fromMs: number, untilMs: number | null }>
  /** Times in which it, or a process between it and its clients, waited for a core without being frozen. */
  readonly waits: CoreWait[]
}

/** The longest start on a machine that runs everything else too. */
const START_MS_MAX = 90_000
/** Its own drain (8 s), cut-off (5 s), closing (9 s). */
const TERM_MS_MAX = 60_000

export class Seat {
  readonly incarnations: Incarnation[] = []
  /** Which configuration it had, and from when on. */
  readonly configured: Configured[] = []
  /** Of its newest process. */
  adminUrl: string | null = null
  readonly log: string
  readonly #options: SeatOptions
  readonly #waits = new CoreWaits()
  #child: ChildProcess | null = null
  #exited: Promise<number | NodeJS.Signals> = Promise.resolve(0)
  #meant = false
  #forget: () => void = () => {}

  constructor (options: SeatOptions) {
    this.#options = options
    this.log = join(options.directory, `${options.name}.log`)
    this.#write(0)
    writeFileSync(this.log, '')
  }

  /** Processes that start from now on have this configuration. */
  configure (variant: number): void {
    this.#write(variant)
  }

  /** SIGHUP. */
  reload (variant: number): void {
    this.#write(variant)
    this.#child?.kill('SIGHUP')
  }

  #write (variant: number): void {
    const config = this.#options.configs[variant]
    if (config === undefined) return
    writeFileSync(this.configFile, config)
    this.configured.push({ fromMs: Date.now(), variant })
  }

  get name (): string { return this.#options.name }

  get configFile (): string { return join(this.#options.directory, `${this.name}.yaml`) }

  async start (): Promise<void> {
    const { directory, name, onListening } = this.#options
    const from = readFileSync(this.log).length
    const log = openSync(this.log, 'a')
    const child = spawn(
      process.execPath,
      [...this.#imports(), MAIN, 'serve', '--config', this.configFile, '--data-dir', join(directory, name)],
      { stdio: ['ignore', log, log], env: this.#environment() }
    )
    closeSync(log)
    this.#child = child
    this.#meant = false
    this.#forget = atExit(() => { child.kill('SIGKILL') })
    const incarnation: Incarnation = { pid: child.pid ?? 0, fromMs: Date.now(), untilMs: null, frozen: [], waits: [] }
    this.incarnations.push(incarnation)
    this.#exited = new Promise((resolve) => { child.once('exit', (code, signal) => { resolve(code ?? signal ?? 0) }) })
    void this.#exited.then((code) => { this.#ended(incarnation, code) })
    await onListening(await this.#port(from))
  }

  async kill (): Promise<void> {
    this.#meant = true
    this.#child?.kill('SIGKILL')
    await this.#exited
  }

  /** As a rolling deployment does it: it drains, and ends by itself with 0. */
  async terminate (): Promise<void> {
    this.#meant = true
    this.#child?.kill('SIGTERM')
    const ended = await Promise.race([
      this.#exited,
      new Promise<string>((resolve) => { setTimeout(resolve, TERM_MS_MAX, 'still running').unref() })
    ])
    if (ended === 0) return
    this.#options.onTrouble(`${this.name} should have drained and ended with 0 after SIGTERM, and: ${ended}`)
    await this.kill()
  }

  freeze (): void {
    this.incarnations.at(-1)?.frozen.push({ fromMs: Date.now(), untilMs: null })
    this.#child?.kill('SIGSTOP')
  }

  thaw (): void {
    const pause = this.incarnations.at(-1)?.frozen.at(-1)
    this.#child?.kill('SIGCONT')
    if (pause !== undefined) pause.untilMs = Date.now()
  }

  /** Called periodically: how long it, and the processes beside it, have waited for a core since the last call. */
  look (beside: readonly number[]): void {
    const incarnation = this.incarnations.at(-1)
    if (incarnation === undefined || incarnation.untilMs !== null) return
    const wait = this.#waits.look([incarnation.pid, ...beside])
    if (wait !== null && incarnation.frozen.at(-1)?.untilMs !== null) incarnation.waits.push(wait)
  }

  #ended (incarnation: Incarnation, code: number | NodeJS.Signals): void {
    incarnation.untilMs = Date.now()
    this.#forget()
    if (!this.#meant) {
      this.#options.onTrouble(
        `${this.name} ended by itself with ${code}:\n${readFileSync(this.log, 'utf8').split('\n').slice(-12).join('\n')}`
      )
    }
  }

  #imports (): string[] {
    return this.#options.broken === null ? [] : ['--import', BREAKER]
  }

  #environment (): NodeJS.ProcessEnv {
    return { ...ownEnvironment(), ...this.#options.broken === null ? {} : { ONCEWAY_BREAK: this.#options.broken } }
  }

  async #port (from: number): Promise<number> {
    for (const until = performance.now() + START_MS_MAX; performance.now() < until; await pause(20)) {
      const said = readFileSync(this.log).subarray(from).toString()
      const [, port, admin] = /listens on http:\/\/[^ ]*:(\d+) +\(admin: (http:[^)]+)\)/.exec(said) ?? []
      if (port !== undefined) {
        this.adminUrl = admin ?? null
        return Number(port)
      }
      if (this.incarnations.at(-1)?.untilMs !== null) throw new Error(`${this.name} ended while starting:\n${said}`)
    }
    throw new Error(`${this.name} did not start:\n${readFileSync(this.log).subarray(from).toString()}`)
  }
}
