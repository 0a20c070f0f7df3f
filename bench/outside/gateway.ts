/** The gateway of one replica. If the replica is killed, its gateway is killed too. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { eventually } from '../../test/harness/eventually.ts'
import { freePort } from '../../test/harness/ports.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** Migrations included. The harness waits for a minute. */
const STARTS_WITHIN_MS = 50_000

interface Depth { readonly waiting: number, readonly delivering: number }

interface Gateway {
  readonly url: string
  /** What its metrics say of the inbox, of all replicas together. null: they do not answer. */
  readonly depth: () => Promise<Depth | null>
  readonly exited: Promise<unknown>
  /** Lets what is in flight end. */
  readonly stop: () => Promise<void>
}

interface GatewayOptions {
  readonly databaseUrl: string
  readonly consumerUrl: string
  readonly concurrency: number
  /** Of its own, for its configuration and log. */
  readonly directory: string
}

export async function startGateway (options: GatewayOptions): Promise<Gateway> {
  const [port, adminPort] = [await freePort(), await freePort()]
  const file = join(options.directory, 'onceway.yaml')
  mkdirSync(options.directory, { recursive: true })
  writeFileSync(file, configuration(options, port, adminPort))
  const log = openSync(join(options.directory, 'onceway.log'), 'a')
  const { PATH, MALLOC_ARENA_MAX } = process.env
  const command = [process.execPath, '--max-semi-space-size=32', MAIN, 'serve', '--config', file]
  const gateway = spawn('setpriv', ['--pdeathsig', 'KILL', ...command], {
    cwd: options.directory,
    stdio: ['ignore', log, log],
    env: { PATH, MALLOC_ARENA_MAX }
  })
  closeSync(log)
  const exited = once(gateway, 'exit')
  const running = (): boolean => gateway.exitCode === null && gateway.signalCode === null
  const ask = async (path: string): Promise<string | null> => {
    const { statusCode, body } = await request(`http://127.0.0.1:${adminPort}${path}`)
    const text = await body.text()
    return statusCode === 200 ? text : null
  }
  const isReady = async (): Promise<boolean> => await ask('/readyz').catch(() => null) !== null
  await eventually(
    async () => !running() || await isReady(),
    `the gateway is ready: ${options.directory}`,
    STARTS_WITHIN_MS
  )
  return {
    url: `http://127.0.0.1:${port}`,
    exited,
    async depth () {
      const text = await ask('/metrics').catch(() => null)
      const [waiting, delivering] = [messages(text, 'waiting'), messages(text, 'delivering')]
      return waiting === null || delivering === null ? null : { waiting, delivering }
    },
    async stop () {
      gateway.kill('SIGTERM')
      await exited
    }
  }
}

function messages (metrics: string | null, state: string): number | null {
  const value = new RegExp(`^onceway_inbox_messages\\{[^}]*state="${state}"[^}]*\\} (\\S+)$`, 'm').exec(metrics ?? '')?.[1]
  return value === undefined ? null : Number(value)
}

/** Keys are stored as text, so that the judgement can name what is left. */
function configuration ({ databaseUrl, consumerUrl, concurrency }: GatewayOptions, port: number, adminPort: number): string {
  return [
    'version: 1',
    `listen: { host: 127.0.0.1, port: ${port} }`,
    `admin: { host: 127.0.0.1, port: ${adminPort} }`,
    'drain: { delay: 0s, timeout: 5s }',
    `stores: { postgres: { url: "${databaseUrl}" } }`,
    `upstreams: { consumer: { url: "${consumerUrl}" } }`,
    'routes:',
    '  - name: jobs',
    '    match: { path: /jobs }',
    '    upstream: consumer',
    '    idempotency:',
    '      mode: inbox',
    '      profile: relay',
    '      scope: public',
    '      key: { from: "header:Idempotency-Key", required: true, store: text }',
    `      inbox: { concurrency: ${concurrency} }`,
    ''
  ].join('\n')
}
