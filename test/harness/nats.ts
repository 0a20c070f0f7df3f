/** A real NATS with JetStream for one run: on a free port of 127.0.0.1, in a temporary directory, never a system's instance. */
import { join } from 'node:path'
import { findTool } from './binaries.ts'
import { makeDirectory } from './directory.ts'
import { freePort } from './ports.ts'
import { launch } from './process.ts'
import { said } from './said.ts'

export interface NatsServer {
  readonly url: string
  readonly version: string
  /** Waits until it has ended and removes its directory. */
  stop: () => Promise<void>
}

const START_MS_MAX = 15_000

export async function startNats (): Promise<NatsServer> {
  const source = findTool('nats-server')
  if (source.kind !== 'binaries') throw new Error(source.kind === 'none' ? source.why : 'no nats-server from a container')
  const directory = makeDirectory('nats')
  const port = await freePort()
  const log = join(directory.path, 'log')
  const running = launch({
    file: join(source.directory, 'nats-server'),
    args: ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', directory.path],
    directory: directory.path,
    log,
    endSignal: 'SIGKILL'
  })
  const text = await said({ name: 'nats-server', log, running, what: /Server is ready/, longestMs: START_MS_MAX })
  return {
    url: `nats://127.0.0.1:${port}`,
    version: /Version: +(\S+)/.exec(text)?.[1] ?? 'of no version',
    async stop () { await running.killAll(); directory.remove() }
  }
}
