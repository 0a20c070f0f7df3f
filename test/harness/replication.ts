/**
 * A primary and a streaming standby behind one stable address, for failovers as clients of that address see them.
 * The stream goes through a relay of its own, so that it can be held up.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findPostgresTools, unprivilegedUser } from './binaries.ts'
import { makeDirectory } from './directory.ts'
import { own, PASSWORD, USER } from './postgres-template.ts'
import { query, serveCluster, startPostgres } from './postgres.ts'
import type { PostgresServer } from './postgres.ts'
import { Relay } from './relay.ts'

export interface Pair {
  /** Of the address that stays: a superuser's, of the database `postgres`. */
  readonly url: string
  readonly port: number
  readonly primary: () => PostgresServer
  readonly standby: () => PostgresServer | null
  createDatabase: (name: string) => Promise<string>
  /** Holds up what the primary writes from now on, on the way to the standby. */
  holdStream: () => void
  /** The address leads there from now on. Open connections are cut. */
  aim: (server: PostgresServer) => void
  /** The same without a cut of open connections, like a name that resolves to another address from now on. */
  aimNewOnes: (server: PostgresServer) => void
  /** SIGKILL to the primary. No server answers until {@link promote}. */
  killPrimary: () => Promise<void>
  /** The standby becomes the primary, and the address leads to it. */
  promote: () => Promise<void>
  /** Starts a new standby of the current primary, so that the pair is complete again. */
  rebuild: () => Promise<void>
  stop: () => Promise<void>
}

export interface PairOptions {
  /** Commits wait for the standby. */
  readonly synchronous: boolean
}

const STREAMING_MS_MAX = 20_000
/** A primary that restarts is followed again at once: until then no commit of a synchronous pair ends. */
const SEEKS_SOON = ['-c', 'wal_retrieve_retry_interval=100ms']

export async function startPair (options: PairOptions): Promise<Pair> {
  const pair = new ReplicatedPair(options, await startPostgres())
  await pair.start()
  return pair
}

class ReplicatedPair implements Pair {
  readonly #options: PairOptions
  readonly #front: Relay
  #stream: Relay | null = null
  #primary: PostgresServer
  #standby: PostgresServer | null = null

  constructor (options: PairOptions, primary: PostgresServer) {
    this.#options = options
    this.#primary = primary
    this.#front = new Relay(primary.port)
  }

  get port (): number { return this.#front.port }

  get url (): string { return urlOf(this.#front.port, 'postgres') }

  primary (): PostgresServer { return this.#primary }

  standby (): PostgresServer | null { return this.#standby }

  async start (): Promise<void> {
    await this.#front.listen()
    await this.rebuild()
  }

  async createDatabase (name: string): Promise<string> {
    const made = new URL(await this.#primary.createDatabase(name))
    made.port = String(this.#front.port)
    return made.href
  }

  holdStream (): void { this.#stream?.hold() }

  aim (server: PostgresServer): void {
    this.aimNewOnes(server)
    this.#front.cut()
  }

  aimNewOnes (server: PostgresServer): void { this.#front.aim(server.port) }

  async killPrimary (): Promise<void> {
    this.#front.aim(null)
    await this.#primary.kill()
    this.#front.cut()
  }

  async promote (): Promise<void> {
    const standby = this.#standby
    if (standby === null) throw new Error('there is no standby to promote')
    await query(standby.url, 'select pg_promote(true, 20)')
    // It has no standby to wait for.
    await query(standby.url, 'alter system reset synchronous_standby_names')
    await query(standby.url, 'select pg_reload_conf()')
    const old = this.#primary
    this.#primary = standby
    this.#standby = null
    this.aim(standby)
    await old.stop()
  }

  async rebuild (): Promise<void> {
    const stream = new Relay(this.#primary.port)
    await stream.listen()
    await this.#stream?.close()
    this.#stream = stream
    // The slot of a standby that is gone.
    await query(this.#primary.url, 'select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active')
    this.#standby = await cloneOf(stream.port)
    await this.#until('select 1 from pg_stat_replication where state = \'streaming\'', 'the standby to stream')
    if (!this.#options.synchronous) return
    await query(this.#primary.url, 'alter system set synchronous_standby_names = \'*\'')
    await query(this.#primary.url, 'select pg_reload_conf()')
    await this.#until('select 1 from pg_stat_replication where sync_state = \'sync\'', 'the standby to be synchronous')
    // Commits use a flag that the checkpointer sets some time after all processes have read the settings.
    await query(this.#primary.url, 'checkpoint')
  }

  async stop (): Promise<void> {
    await this.#front.close()
    await this.#stream?.close()
    // A standby that cannot reach its primary still ends at once.
    for (const server of [this.#standby, this.#primary]) {
      await server?.kill()
      await server?.stop()
    }
  }

  async #until (statement: string, what: string): Promise<void> {
    const endsAt = performance.now() + STREAMING_MS_MAX
    while ((await query(this.#primary.url, statement)).length === 0) {
      if (performance.now() > endsAt) throw new Error(`waited in vain for ${what}`)
      await sleep(20)
    }
  }
}

/** An independent copy of the server on this port, like a restored backup or a snapshot of the disk. */
export async function snapshotOf (port: number): Promise<PostgresServer> { return copyOf(port, []) }

/** A standby of the server on this port, which follows it by a slot of its own as in production. */
async function cloneOf (port: number): Promise<PostgresServer> {
  return copyOf(port, ['--write-recovery-conf', '--create-slot', '--slot', `standby_${randomBytes(4).toString('hex')}`])
}

async function copyOf (port: number, more: readonly string[]): Promise<PostgresServer> {
  const source = findPostgresTools()
  if (source.kind !== 'binaries') throw new Error('a standby is made by the tools of Postgres: say needs(\'postgres tools\')')
  const [directory, user] = [makeDirectory('standby'), unprivilegedUser()]
  const cluster = join(directory.path, 'data')
  if (user !== undefined) own(directory, directory.path, user)
  const copying = spawn(join(source.directory, 'pg_basebackup'), [
    '--pgdata', cluster, '--dbname', urlOf(port, 'postgres'), ...more, '--wal-method', 'stream', '--checkpoint', 'fast',
    '--no-sync'
  ], {
    cwd: directory.path, stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, PGPASSWORD: PASSWORD }, ...user
  })
  let said = ''
  copying.stderr.on('data', (chunk: Buffer) => { said += chunk.toString() })
  const [code] = await once(copying, 'close') as [number | null]
  if (code !== 0) throw new Error(`pg_basebackup failed: ${said}`)
  chmodSync(cluster, 0o700)
  return serveCluster({ binaries: source.directory, directory, cluster, user, more: SEEKS_SOON })
}

function urlOf (port: number, database: string): string { return `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/${database}` }
