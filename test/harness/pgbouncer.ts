/**
 * A real PgBouncer in transaction mode for one test file, in front of a Postgres of the harness. It is Debian's package (12: 1.18,
 * which has no prepared statements in this mode). It runs on a free port, in a temporary directory, never as root.
 */
import { chmodSync, chownSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findTool, unprivilegedUser } from './binaries.ts'
import { makeDirectory } from './directory.ts'
import { accepts, freePort } from './ports.ts'
import { PASSWORD, USER } from './postgres-template.ts'
import { launch } from './process.ts'

export interface PgBouncer {
  readonly port: number
  /** The same database and user, through the pooler. */
  readonly through: (database: string) => string
  /** SIGKILL: ends the connections of all clients and servers. */
  kill: () => Promise<void>
  /** SIGSTOP: connections stay open, and nothing passes. */
  pause: () => void
  resume: () => void
  /** Starts again on the same port, after {@link kill} or from running. */
  restart: () => Promise<void>
  stop: () => Promise<void>
}

export interface PgBouncerOptions {
  /** Where Postgres listens on 127.0.0.1. */
  readonly target: number
  /** Of pgbouncer.ini's section of that name, over ours. */
  readonly settings?: Readonly<Record<string, string | number>>
}

const START_MS_MAX = 15_000

export async function startPgBouncer ({ target, settings = {} }: PgBouncerOptions): Promise<PgBouncer> {
  const tool = findTool('pgbouncer')
  if (tool.kind !== 'binaries') throw new Error(tool.kind === 'none' ? tool.why : 'pgbouncer comes from no container')
  const directory = makeDirectory('pgbouncer')
  const user = unprivilegedUser()
  const port = await freePort()
  const file = join(directory.path, 'pgbouncer.ini')
  const users = join(directory.path, 'users')
  const ini = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: users,
    pool_mode: 'transaction',
    // Fewer than a gateway's connections, so that sessions are really shared.
    default_pool_size: 6,
    max_client_conn: 500,
    // A server that was down is tried again soon, and waiting clients are not refused before it is back.
    server_login_retry: 1,
    ...settings
  }
  writeFileSync(users, `"${USER}" "${PASSWORD}"\n`)
  writeFileSync(file, `[databases]\n* = host=127.0.0.1 port=${target}\n[pgbouncer]\n${Object.entries(ini).map(([name, value]) => `${name} = ${value}`).join('\n')}\n`)
  for (const path of [users, file]) chmodSync(path, 0o600)
  if (user !== undefined) for (const path of [directory.path, users, file]) chownSync(path, user.uid, user.gid)
  const start = () => launch({
    file: join(tool.directory, 'pgbouncer'),
    args: [file],
    directory: directory.path,
    log: join(directory.path, 'log'),
    user,
    endSignal: 'SIGKILL'
  })
  let running = start()
  const listens = async (): Promise<void> => {
    const until = performance.now() + START_MS_MAX
    while (!await accepts(port)) {
      if (!running.running()) throw new Error(`pgbouncer ended while starting:\n${running.lastLog()}`)
      if (performance.now() > until) throw new Error(`pgbouncer did not listen in time:\n${running.lastLog()}`)
      await sleep(10)
    }
  }
  await listens()
  return {
    port,
    through (database) {
      const url = new URL(database)
      url.port = String(port)
      return url.href
    },
    kill: () => running.killAll(),
    pause: () => { running.pause() },
    resume: () => { running.resume() },
    async restart () {
      await running.killAll()
      running = start()
      await listens()
    },
    async stop () {
      await running.killAll()
      directory.remove()
    }
  }
}
