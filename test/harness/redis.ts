/**
 * A real Redis for one test file, on a free port of 127.0.0.1, without persistence. It is never a system's instance.
 * If TEST_REDIS_URL names another server, tests use it and never stop or pause it.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { findServer } from './binaries.ts'
import { clientOf } from './certificates.ts'
import type { Certificates } from './certificates.ts'
import { makeDirectory } from './directory.ts'
import { runContainer } from './docker.ts'
import { freePort } from './ports.ts'
import { launch, type Launched } from './process.ts'

export interface RedisServer {
  readonly url: string
  readonly port: number
  /** null: not started by this test (a container, or a given server). */
  readonly pid: () => number | null
  readonly running: () => boolean
  /** Waits until it has ended and removes its directory. */
  stop: () => Promise<void>
  kill: () => Promise<void>
  /** Starts again on the same port, empty. Resolves when it answers. */
  restart: () => Promise<void>
  /** SIGSTOP: connections stay open, and nothing answers. */
  pause: () => void
  resume: () => void
}

export interface RedisOptions {
  /** Further arguments of redis-server, such as `['--maxmemory', '1mb']`. */
  readonly args?: readonly string[]
  /** Speaks only TLS. Clients need a certificate of the same authority, unless the arguments say otherwise. */
  readonly tls?: Certificates
}

const START_MS_MAX = 15_000
const PERSIST_NOTHING = ['--save', '', '--appendonly', 'no']

export async function startRedis (options: RedisOptions = {}): Promise<RedisServer> {
  const given = process.env.TEST_REDIS_URL
  if (given) return givenServer(given)
  const source = findServer('redis')
  if (source.kind === 'none') throw new Error(source.why)
  const args = [...PERSIST_NOTHING, ...options.args ?? []]
  if (source.kind === 'docker' && options.tls === undefined) return startContainer(args)
  if (source.kind === 'docker') throw new Error('a Redis that speaks TLS needs redis-server as a program')
  return startBinary(join(source.directory, 'redis-server'), args, options.tls)
}

async function startBinary (file: string, args: readonly string[], tls: Certificates | undefined): Promise<RedisServer> {
  const directory = makeDirectory('redis')
  const port = await freePort()
  const start = () => launch({
    file,
    args: [
      ...tls?.redisArgs(port) ?? ['--port', String(port)],
      '--bind',
      '127.0.0.1',
      '--daemonize',
      'no',
      '--dir',
      directory.path,
      ...args
    ],
    directory: directory.path,
    log: join(directory.path, 'log'),
    endSignal: 'SIGKILL'
  })
  let running = start()
  await answers(port, running, tls)
  return {
    url: tls === undefined ? urlOf(port) : `rediss://127.0.0.1:${port}/0`,
    port,
    pid: () => running.pid,
    running: () => running.running(),
    async stop () { await running.killAll(); directory.remove() },
    kill: () => running.killAll(),
    async restart () {
      await running.killAll()
      running = start()
      await answers(port, running, tls)
    },
    pause: () => { running.pause() },
    resume: () => { running.resume() }
  }
}

async function startContainer (args: readonly string[]): Promise<RedisServer> {
  const port = await freePort()
  const container = runContainer('redis:7-alpine', [port, 6379], [], ['redis-server', ...args])
  await answers(port, null)
  return {
    url: urlOf(port),
    port,
    pid: () => null,
    running: () => true,
    async stop () { container.stop() },
    async kill () { container.kill() },
    async restart () { container.kill(); container.start(); await answers(port, null) },
    pause: () => { container.pause() },
    resume: () => { container.resume() }
  }
}

function givenServer (url: string): RedisServer {
  const refuse = () => { throw new Error('TEST_REDIS_URL names a server that is not ours to stop: say needs(\'own redis\')') }
  return {
    url,
    port: Number(new URL(url).port || 6379),
    pid: () => null,
    running: () => true,
    async stop () {},
    kill: refuse,
    restart: refuse,
    pause: refuse,
    resume: refuse
  }
}

function urlOf (port: number) { return `redis://127.0.0.1:${port}/0` }

async function answers (port: number, running: Launched | null, tls?: Certificates) {
  const until = performance.now() + START_MS_MAX
  while (!await pong(port, tls)) {
    if (running !== null && !running.running()) throw new Error(`redis-server ended while starting:\n${running.lastLog()}`)
    if (performance.now() > until) throw new Error('redis-server did not answer in time')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

async function pong (port: number, tls: Certificates | undefined): Promise<boolean> {
  const socket = tls === undefined ? connect(port, '127.0.0.1') : connectTls({ port, host: '127.0.0.1', ...clientOf(tls).tls })
  try {
    await once(socket, tls === undefined ? 'connect' : 'secureConnect')
    socket.write('PING\r\n')
    const [reply] = await once(socket, 'data') as [Buffer]
    return /^\+PONG|^-NOAUTH/.test(reply.toString('latin1'))
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
