/**
 * The environment of an example: servers on free ports (ground.ts), and gateways and programs as processes. All of it is in temporary
 * directories and is removed at the end.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { makeDirectory } from '../../test/harness/directory.ts'
import { eventually } from '../../test/harness/eventually.ts'
import { freePort } from '../../test/harness/ports.ts'
import { startProcess } from '../../test/harness/process-gateway.ts'
import type { ProcessGateway } from '../../test/harness/process-gateway.ts'
import { launch } from '../../test/harness/process.ts'
import type { Launched } from '../../test/harness/process.ts'
import { Ground } from './ground.ts'

const EXAMPLES = fileURLToPath(new URL('..', import.meta.url))
/** Timeout for the start of a program, on a busy machine. */
const START_MS_MAX = 30_000
/** The byte of a line end. */
const NEWLINE = 10

type Row = Record<string, unknown>
type Variables = Readonly<Record<string, string>>

export class Stage {
  readonly ground: Ground
  readonly #directory = makeDirectory('example')
  readonly #after: Array<() => unknown> = []

  /** Without `ground`, the stage has its own servers. */
  constructor (ground?: Ground) {
    this.ground = ground ?? new Ground()
    if (ground === undefined) this.after(async () => this.ground.clear())
  }

  /** Registers a cleanup. They run in reverse order at the end. */
  after (end: () => unknown): void { this.#after.push(end) }

  async clear (): Promise<void> {
    for (const end of this.#after.splice(0).reverse()) await end()
    this.#directory.remove()
  }

  /** One connection for many queries. */
  async database (url: string): Promise<(text: string) => Promise<Row[]>> {
    const client = new Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    this.after(async () => client.end())
    return async (text) => (await client.query<Row>(text)).rows
  }

  /** Starts a gateway with a file of the examples. `port` and `directory` let a restarted gateway keep its address and its data. */
  async gateway (file: string, env: Variables, { port = 0, directory }: Place = {}): Promise<ProcessGateway> {
    return startProcess({ after: (end) => { this.after(end) } }, {
      args: ['--config', join(EXAMPLES, file), ...directory === undefined ? [] : ['--data-dir', this.path(directory)]],
      env: {
        ONCEWAY_LISTEN_HOST: '127.0.0.1',
        ONCEWAY_LISTEN_PORT: String(port),
        ONCEWAY_ADMIN_PORT: '0',
        ONCEWAY_LOG_LEVEL: 'warn',
        ...env
      }
    })
  }

  /** Starts a program. `file` is below `examples/`. */
  async program (file: string, env: Variables): Promise<Program> {
    const program = new Program(join(EXAMPLES, file), this.#directory.path, `${file.replaceAll('/', '-')}-${this.#after.length}.log`, env)
    this.after(async () => program.kill())
    await program.start()
    return program
  }

  async consumer (file = 'consumer.ts', env: Variables = {}): Promise<Consumer> {
    const port = await freePort()
    const ledger = this.lines(`ledger-${port}.txt`)
    const program = await this.program(file, { PORT: String(port), LEDGER: ledger.path, ...env })
    return { program, url: `http://127.0.0.1:${port}`, ledger }
  }

  lines (name: string): Lines { return new Lines(this.path(name)) }

  /** Path of a temporary file. */
  path (name: string): string { return join(this.#directory.path, name) }
}

export interface Place { readonly port?: number, readonly directory?: string }

export interface Consumer {
  readonly program: Program
  readonly url: string
  /** Everything that the consumer has recorded, in order. */
  readonly ledger: Lines
}

/** A file that a program appends lines to. */
export class Lines {
  readonly path: string
  #read = 0
  #count = 0

  constructor (path: string) {
    this.path = path
    writeFileSync(path, '')
  }

  /** Number of lines. Reads only the new part of the file. */
  count (): number {
    const file = readFileSync(this.path)
    for (let at = file.indexOf(NEWLINE, this.#read); at >= 0; at = file.indexOf(NEWLINE, this.#read)) {
      this.#count++
      this.#read = at + 1
    }
    return this.#count
  }

  all (): string[] { return readFileSync(this.path, 'utf8').split('\n').slice(0, -1) }
}

/** A process that is started, killed and started again. */
export class Program {
  readonly #file: string
  readonly #directory: string
  readonly #log: string
  readonly #env: Variables
  #running: Launched | null = null

  constructor (file: string, directory: string, log: string, env: Variables) {
    this.#file = file
    this.#directory = directory
    this.#log = join(directory, log)
    this.#env = env
  }

  /** Resolves after the first output. */
  async start (): Promise<void> {
    writeFileSync(this.#log, '')
    const { PATH = '', HOME = '' } = process.env
    this.#running = launch({
      file: process.execPath,
      args: [this.#file],
      directory: this.#directory,
      log: this.#log,
      env: { PATH, HOME, ...this.#env },
      endSignal: 'SIGKILL'
    })
    await eventually(() => readFileSync(this.#log).length > 0, `${this.#file} says something`, START_MS_MAX)
  }

  get ended (): boolean { return this.#running?.running() === false }

  /** Throws with the program's output if it has ended. */
  check (): void {
    if (this.ended) throw new Error(`${this.#file} has ended:\n${this.#said()}`)
  }

  async kill (): Promise<void> { await this.#running?.end('SIGKILL') }

  /** Lets it finish its work (SIGTERM). */
  async stop (): Promise<void> { await this.#running?.end('SIGTERM') }

  async restart (): Promise<void> {
    await this.kill()
    await this.start()
  }

  #said (): string { return readFileSync(this.#log, 'utf8') }
}
