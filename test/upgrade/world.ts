/**
 * The gateways of a play: seats behind a balancer, each on its two ports, on which one release after the other takes place;
 * with the stores under them and the upstream behind.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../harness/eventually.ts'
import { startProcess, bareEnv } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { makeDirectory } from '../harness/directory.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import type { RedisServer } from '../harness/redis.ts'
import { Balancer } from '../e2e/balancer.ts'
import type { Answered, Ask } from '../e2e/balancer.ts'
import { Book } from './book.ts'
import { configOf, DRAIN_DELAY_MS, LEASE_MS } from './config.ts'
import type { Release } from './release.ts'

/** A test, or whatever else has an end. */
export interface Ending { after: (end: () => Promise<void>) => void }

/** Postgres, with Redis or without; or, for neither, the embedded store: then there is one gateway. */
export interface Stores { readonly postgres: PostgresServer | null, readonly redis: RedisServer | null }

export interface World {
  readonly ending: Ending
  readonly book: Book
  readonly balancer: Balancer
  readonly ask: (ask: Ask) => Promise<Answered>
  readonly seats: readonly Seat[]
  /** The stores that may keep marks. */
  readonly markStores: readonly string[]
  readonly isEmbedded: boolean
  /** null: the embedded store. */
  readonly database: string | null
}

/** In every gateway's environment: releases that know nothing of it read nothing of it. The embedded store makes its own. */
const SECRET = 'a secret that nobody can guess'

const BALANCER = { pollEveryMs: 100, freshMs: DRAIN_DELAY_MS / 2 }

export async function startWorld (ending: Ending, stores: Stores, release: Release, timeoutMs?: number): Promise<World> {
  const book = await Book.open()
  ending.after(async () => { await book.close() })
  const database = await stores.postgres?.createDatabase('upgrade') ?? null
  const redis = stores.redis?.url ?? null
  const seats: Seat[] = []
  for (let number = 0; number < (database === null ? 1 : 2); number++) {
    seats.push(
      new Seat(
        ending,
        configOf({ database, redis, upstream: book.url, ...timeoutMs === undefined ? {} : { timeoutMs } }),
        database === null ? null : SECRET
      )
    )
  }
  await Promise.all(seats.map(async (seat) => seat.start(release)))
  const balancer = new Balancer(seats, BALANCER)
  ending.after(async () => balancer.stop())
  for (const seat of seats) await balancer.ready(seat)
  return {
    ending,
    book,
    balancer,
    ask: async (ask) => { book.note(ask.key); return asked(balancer, ask) },
    seats,
    markStores: ['database', ...redis === null ? [] : ['redis']],
    isEmbedded: database === null,
    database
  }
}

/** Of an event whose mark is in Redis alone: a mark that nobody ended is over by then. */
const ASKED_FOR_MS = LEASE_MS + 1_000
const ASKED_AGAIN_MS = 100

/**
 * Once; but Redis, where it alone has the marks, has a fraction of a second to answer before an event is refused unsent
 * (docs/guides/drop-duplicates.md), and a busy machine may take that long: such an event is asked for again. Its mark
 * may stand all the same, and says that it is in flight.
 */
async function asked (balancer: Balancer, ask: Ask): Promise<Answered> {
  const untilMs = performance.now() + ASKED_FOR_MS
  for (let refused = false; ;) {
    const answer = await balancer.ask(ask)
    const code = codeOf(answer)
    refused ||= code === 'store-unavailable'
    if (
      ask.path !== '/drop-redis/things' ||
      !refused ||
      (code !== 'store-unavailable' && code !== 'in-flight') ||
      performance.now() > untilMs
    ) {
      return answer
    }
    await new Promise((resolve) => { setTimeout(resolve, ASKED_AGAIN_MS) })
  }
}

/** Refuses every connection. */
const NOBODY = 'http://127.0.0.1:1'

export class Seat {
  /** Of the process that is there: each has ports of its own, for somebody else may take one that was let go of. */
  url = NOBODY
  adminUrl = NOBODY
  readonly #ending: Ending
  readonly #files: readonly string[]
  readonly #dataDir: string
  readonly #env: Readonly<Record<string, string>>
  /** When a process of it was killed. */
  readonly killedAtMs: number[] = []
  #release: Release | null = null
  #process: ProcessGateway | null = null

  constructor (ending: Ending, config: string, secret: string | null) {
    this.#ending = ending
    const directory = makeDirectory('seat')
    ending.after(async () => { directory.remove() })
    const file = join(directory.path, 'onceway.yaml')
    writeFileSync(file, config)
    this.#dataDir = join(directory.path, 'store')
    this.#files = ['--config', file, '--data-dir', this.#dataDir]
    this.#env = secret === null ? {} : { ONCEWAY_SECRET: secret }
  }

  /** What ids are keyed with once they are. */
  get secret (): Buffer {
    const { ONCEWAY_SECRET: given } = this.#env
    return given === undefined ? Buffer.from(readFileSync(join(this.#dataDir, 'secret'), 'utf8').trim(), 'base64url') : Buffer.from(given)
  }

  async start (release: Release): Promise<void> {
    this.#release = release
    const started = await this.#startProcess(release)
    this.#process = started
    this.url = started.url
    this.adminUrl = started.adminUrl
  }

  async #startProcess ({ main, env }: Release): Promise<ProcessGateway> {
    return startProcess(this.#ending, { main, args: this.#files, env: { ...env, ...this.#env } })
  }

  /** What it says instead of serving here. Throws if it serves. */
  async refused (release: Release): Promise<string> {
    const serves = await this.#startProcess(release).catch((error: unknown) => error instanceof Error ? error.message : String(error))
    if (typeof serves === 'string') return serves
    throw new Error(`${release.name} should not serve any more`)
  }

  /** The balancer sends nothing here any more, and what it has sent is answered. */
  async withdraw (balancer: Balancer): Promise<void> {
    this.adminUrl = NOBODY
    await eventually(() => balancer.isIdle(this), 'nothing that was balanced is under way there')
  }

  async kill (): Promise<void> {
    this.killedAtMs.push(Date.now())
    this.#process?.signal('SIGKILL')
    await this.#process?.exited
    this.#leave()
  }

  /** As an orchestrator does it. Throws unless it drains and ends with 0. */
  async terminate (): Promise<void> {
    this.#process?.signal('SIGTERM')
    const ended = await this.#process?.exited
    this.#leave()
    if (ended !== 0) throw new Error(`${this.#release?.name} should have drained and ended with 0 after SIGTERM, and: ${ended}\n${this.#process?.output()}`)
  }

  #leave (): void {
    this.url = NOBODY
    this.adminUrl = NOBODY
  }

  /** `onceway …` of the release that runs here, beside it. */
  async command (...args: readonly string[]): Promise<void> {
    const { main, env } = this.#release as Release
    const child = spawn(process.execPath, [main, ...args, ...this.#files], {
      env: { ...bareEnv(), ...env, ...this.#env },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => { said += chunk.toString() })
    const [code] = await once(child, 'close') as [number | null]
    if (code !== 0) throw new Error(`onceway ${args.join(' ')} ended with ${code}: ${said}`)
  }
}

/** What an answer is for a client: everything of it but what tells a replay from an original, and this connection's own. */
export function printOf ({ status, headers, body }: Answered): string {
  const kept = Object.entries(headers).filter(([name]) => !NOT_THE_UPSTREAMS.has(name)).toSorted(([one], [other]) => one < other ? -1 : 1)
  return JSON.stringify([status, kept, body.toString('base64')])
}

const NOT_THE_UPSTREAMS: ReadonlySet<string> = new Set([
  'idempotency-status', 'idempotent-replayed', 'idempotency-expires', 'x-request-id', 'request-id', 'date',
  'connection', 'keep-alive', 'content-length', 'transfer-encoding'
])

/** In a few words, for a finding. */
export function saidBy ({ status, headers, body }: Answered): string {
  return `${status} ${String(headers['idempotency-status'] ?? '')} ${body.toString().slice(0, 160)}`
}

export function codeOf ({ headers, body }: Answered): string | null {
  if (headers['content-type'] !== 'application/problem+json') return null
  return String((JSON.parse(body.toString()) as { readonly code?: unknown }).code)
}

export type { Answered, Ask }
