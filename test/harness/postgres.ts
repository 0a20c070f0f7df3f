/**
 * A real Postgres for one test file, on a free port of 127.0.0.1, in a temporary directory (in memory, if there is room).
 * fsync is on as in production. It never runs as root, and is never a system's instance.
 * If TEST_DATABASE_URL names another server, tests only create databases there.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, cpSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { findServer, unprivilegedUser } from './binaries.ts'
import { makeDirectory, type Directory } from './directory.ts'
import { runContainer } from './docker.ts'
import { freePort } from './ports.ts'
import { own, PASSWORD, template, USER } from './postgres-template.ts'
import { launch, type Launched, type User } from './process.ts'

export interface PostgresServer {
  /** A superuser's, of the database `postgres`. */
  readonly url: string
  readonly port: number
  /** The postmaster's pid. null: not started by this test (a container, or a given server). */
  readonly pid: () => number | null
  /** Waits until it has ended and removes its directory. */
  stop: () => Promise<void>
  /** SIGKILL to all of its processes, like a power cut without damage to the disk. */
  kill: () => Promise<void>
  /** Starts again on the same data and port, after {@link kill} or from running. Resolves when it answers. */
  restart: () => Promise<void>
  /** SIGSTOP to all of its processes: connections stay open, and nothing answers. */
  pause: () => void
  resume: () => void
  /** A new, empty database. Its real name is `name` with a random end. Gone with the server, or on `stop`. */
  createDatabase: (name: string) => Promise<string>
}

/** A cold start with recovery on a slow disk. A warm one takes a tenth of a second. */
const START_MS_MAX = 30_000
/** Little memory, and no sockets outside 127.0.0.1. Durability is as in production, because tests kill it. */
const SETTINGS = [
  '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=', '-c', 'fsync=on', '-c', 'shared_buffers=32MB',
  '-c', 'max_connections=200', '-c', 'max_wal_size=256MB'
]

export interface PostgresServerOptions {
  /** Overrides of {@link SETTINGS} for measurements: name to value, as in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>
  /** The parent of its directory. For measurements, a real disk. */
  readonly below?: string
}

export async function startPostgres ({ settings = {}, below }: PostgresServerOptions = {}): Promise<PostgresServer> {
  const given = process.env.TEST_DATABASE_URL
  const more = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  if (given && more.length > 0) throw new Error('TEST_DATABASE_URL names a server whose settings are not ours to choose')
  if (given) return givenServer(given)
  const source = findServer('postgres')
  if (source.kind === 'none') throw new Error(source.why)
  return source.kind === 'docker' ? startContainer(more) : startBinaries(source.directory, below, more)
}

async function startBinaries (binaries: string, below: string | undefined, more: readonly string[]): Promise<PostgresServer> {
  const user = unprivilegedUser()
  const directory = makeDirectory('postgres', below)
  const cluster = join(directory.path, 'data')
  cpSync(template(binaries, user), cluster, { recursive: true })
  chmodSync(cluster, 0o700)
  own(directory, cluster, user)
  return serveCluster({ binaries, directory, cluster, user, more })
}

/** A directory on which Postgres can be started, and the user for it. */
export interface Cluster {
  readonly binaries: string
  readonly directory: Directory
  readonly cluster: string
  readonly user: User | undefined
  readonly more: readonly string[]
}

export async function serveCluster ({ binaries, directory, cluster, user, more }: Cluster): Promise<PostgresServer> {
  const port = await freePort()
  const start = () => launch({
    file: join(binaries, 'postgres'),
    args: ['-D', cluster, '-p', String(port), ...SETTINGS, ...more],
    directory: directory.path,
    log: join(directory.path, 'log'),
    user,
    endSignal: 'SIGQUIT'
  })
  let running = start()
  const url = urlOf(port)
  await answers(url, running)
  return {
    url,
    port,
    pid: () => running.pid,
    async stop () { await running.end('SIGINT'); directory.remove() },
    kill: () => running.killAll(),
    async restart () {
      await running.end('SIGINT')
      running = start()
      await answers(url, running)
    },
    pause: () => { running.pause() },
    resume: () => { running.resume() },
    createDatabase: (name) => createDatabase(url, name)
  }
}

async function startContainer (more: readonly string[]): Promise<PostgresServer> {
  const port = await freePort()
  const url = urlOf(port)
  const container = runContainer(
    'postgres:16-alpine',
    [port, 5432],
    [`POSTGRES_USER=${USER}`, `POSTGRES_PASSWORD=${PASSWORD}`, 'POSTGRES_DB=postgres'],
    more.length === 0 ? [] : ['postgres', ...more]
  )
  await answers(url, null)
  return {
    url,
    port,
    pid: () => null,
    async stop () { container.stop() },
    async kill () { container.kill() },
    async restart () { container.start(); await answers(url, null) },
    pause: () => { container.pause() },
    resume: () => { container.resume() },
    createDatabase: (name) => createDatabase(url, name)
  }
}

function givenServer (url: string): PostgresServer {
  const created: string[] = []
  const refuse = () => { throw new Error('TEST_DATABASE_URL names a server that is not ours to stop: say needs(\'own postgres\')') }
  return {
    url,
    port: Number(new URL(url).port || 5432),
    pid: () => null,
    async stop () { for (const database of created) await query(url, `drop database if exists "${database}" with (force)`) },
    kill: refuse,
    restart: refuse,
    pause: refuse,
    resume: refuse,
    async createDatabase (name) {
      const database = await createDatabase(url, name)
      created.push(new URL(database).pathname.slice(1))
      return database
    }
  }
}

async function createDatabase (url: string, name: string): Promise<string> {
  const database = `${name.toLowerCase().replace(/[^a-z0-9]+/g, '_').slice(0, 40)}_${randomBytes(4).toString('hex')}`
  await query(url, `create database "${database}"`)
  const made = new URL(url)
  made.pathname = `/${database}`
  return made.href
}

/** One statement on a connection of its own. */
/** `withinMs`: each of connecting and the answer. Default: 20 s to connect, and no limit for the answer. */
export async function query (url: string, text: string, withinMs?: number): Promise<Array<Record<string, unknown>>> {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: withinMs ?? 20_000,
    ...withinMs !== undefined && { query_timeout: withinMs }
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end().catch(() => {})
  }
}

function urlOf (port: number) { return `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/postgres` }

async function answers (url: string, running: Launched | null) {
  const until = performance.now() + START_MS_MAX
  for (;;) {
    try {
      await query(url, 'select 1')
      return
    } catch (error) {
      if (running !== null && !running.running()) throw new Error(`postgres ended while starting:\n${running.lastLog()}`, { cause: error })
      if (performance.now() > until) throw new Error('postgres did not answer in time', { cause: error })
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
  }
}
