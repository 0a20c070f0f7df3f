/**
 * A real RabbitMQ for one run: a node of its own on free ports of 127.0.0.1, with its own directories, cookie and port
 * mapper (epmd), never a system's instance. It takes seconds to start: Erlang loads all of it.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findTool } from './binaries.ts'
import type { Tool } from './binaries.ts'
import { makeDirectory } from './directory.ts'
import { freePort } from './ports.ts'
import { launch } from './process.ts'
import { said } from './said.ts'

export interface RabbitServer {
  readonly url: string
  readonly version: string
  /** Waits until it has ended and removes its directory. */
  stop: () => Promise<void>
}

/** Five seconds of one core on an idle machine. */
const START_MS_MAX = 180_000
const CONFIG = `
log.console = true
log.console.level = info
`

export async function startRabbit (): Promise<RabbitServer> {
  const directory = makeDirectory('rabbitmq')
  const file = (name: string) => join(directory.path, name)
  const [port, distribution, mapper] = [await freePort(), await freePort(), await freePort()]
  const env = {
    PATH: process.env.PATH,
    HOME: directory.path,
    ERL_EPMD_PORT: String(mapper),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `onceway-${port}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(distribution),
    RABBITMQ_MNESIA_BASE: file('mnesia'),
    RABBITMQ_LOG_BASE: file('logs'),
    RABBITMQ_PLUGINS_EXPAND_DIR: file('plugins'),
    RABBITMQ_ENABLED_PLUGINS_FILE: file('enabled-plugins'),
    RABBITMQ_CONFIG_FILE: file('rabbitmq.conf'),
    // Otherwise it would read the system's file.
    RABBITMQ_CONF_ENV_FILE: file('rabbitmq-env.conf'),
    // One scheduler that sleeps when idle. The distribution listens on 127.0.0.1 only.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}',
    // The script becomes the server instead of waiting for it.
    RUNNING_UNDER_SYSTEMD: 'true'
  }
  writeFileSync(file('enabled-plugins'), '[].\n')
  writeFileSync(file('rabbitmq.conf'), CONFIG)
  writeFileSync(file('rabbitmq-env.conf'), '')
  const names = launch({
    file: pathOf('epmd'),
    args: ['-port', String(mapper), '-address', '127.0.0.1'],
    directory: directory.path,
    log: file('epmd.log'),
    env,
    endSignal: 'SIGKILL'
  })
  const running = launch({
    file: pathOf('rabbitmq-server'),
    args: [],
    directory: directory.path,
    log: file('log'),
    env,
    endSignal: 'SIGKILL'
  })
  const text = await said({ name: 'rabbitmq-server', log: file('log'), running, what: /Server startup complete/, longestMs: START_MS_MAX })
  return {
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    version: /RabbitMQ (\d[\d.]*)/.exec(text)?.[1] ?? 'of no version',
    async stop () {
      await running.killAll()
      await names.killAll()
      directory.remove()
    }
  }
}

function pathOf (tool: Tool): string {
  const source = findTool(tool)
  if (source.kind !== 'binaries') throw new Error(source.kind === 'none' ? source.why : `no ${tool} from a container`)
  return join(source.directory, tool)
}
