/**
 * `onceway serve`: from the flags to a configuration, from signals to an end. process/app.ts runs one process,
 * process/cluster/ runs several workers.
 */
import { availableParallelism } from 'node:os'
import { defaultConfig, loadConfig } from '../config/load.ts'
import type { Flags } from '../config/load.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/read/interpolate.ts'
import { WORKERS_MAX } from '../config/schema.ts'
import { inheritedSockets } from '../http/inherited.ts'
import { StartError } from '../ports/errors.ts'
import { configFile, readOptions, textOption, integerOption } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'
import { Signals } from './signals.ts'
import { startWhenFree } from './start-when-free.ts'
import { reportShutdown } from './shutdown-progress.ts'
import { startToy, exampleLines } from './toy.ts'

export const serve: Command = {
  help: `usage: onceway serve [--upstream URL] [--host ADDRESS] [--port N] [--admin-port N] [--data-dir DIR] [--workers N] [--config FILE]

Runs the gateway until SIGTERM or SIGINT. Then it drains and exits 0. A second signal ends it at once. SIGHUP reloads the
file if it is valid (docs/guides/reload.md).

  --upstream URL   guard every POST and PATCH with an Idempotency-Key to this server. With --config it replaces the file's only
                   upstream. Without --upstream and --config the gateway starts a toy payments upstream
  --host ADDRESS   address to listen on (default: 127.0.0.1, with --config the file's, else every address)
  --port N         port to listen on (default: 8080)
  --admin-port N   port of /livez, /readyz, /metrics, the operator API (/api/v1) and the console (/) (default: 8081)
  --data-dir DIR   directory of the embedded store (default: ./.onceway, for the toy a temporary directory)
  --workers N      number of worker processes, with Postgres only. auto: one per processor (default: 1)
  --config FILE    configuration (see docs/reference/configuration.md)

UPSTREAM or ONCEWAY_UPSTREAM sets --upstream. ONCEWAY_CONFIG sets --config, if the file exists. DATABASE_URL and REDIS_URL (or
ONCEWAY_DATABASE_URL and ONCEWAY_REDIS_URL) select Postgres and Redis.

examples:
  onceway serve
  onceway serve --upstream http://127.0.0.1:3000 --port 8080
  DATABASE_URL=postgres://app@db/app onceway serve --config onceway.yaml`,
  run: serveUntilSignal
}

async function serveUntilSignal (args: readonly string[], terminal: Terminal): Promise<number> {
  const options = readOptions(args, {
    upstream: { type: 'string' },
    host: { type: 'string' },
    port: { type: 'string' },
    'admin-port': { type: 'string' },
    'data-dir': { type: 'string' },
    config: { type: 'string' },
    workers: { type: 'string' }
  })
  const target = targetOf(options, terminal)
  const inherited = inheritedSockets(terminal.env, process.pid)
  // Before anything starts, so that a signal during the start stops the gateway too.
  const signals = new Signals(terminal)
  // Everything with its drivers takes a while to load, and a signal may come meanwhile.
  const [{ startApp }, { instanceName }, { longestDrainMs }] = await Promise.all([
    import('../process/app.ts'), import('../process/serving.ts'), import('../process/drain.ts')
  ])
  const toy = target === null ? await startToy(terminal.env, textOption(options, 'data-dir')) : null
  try {
    const config = toy === null
      ? configOf(options, terminal.env, target ?? {})
      : { ...configOf(options, toy.env, { upstreamUrl: toy.url }), dataDir: toy.dataDir }
    const { file } = config
    const reload = file === null ? null : () => configOf(options, terminal.env, target ?? {})
    const listening = (url: string): void => {
      if (toy !== null) [...toy.notes.map((remark) => `toy       ${remark}`), ...exampleLines(url)].forEach(terminal.out)
    }
    const size = workersOf(config)
    if (size === 1) {
      const app = await startWhenFree(
        () => startApp(config, { announce: terminal.out, inherited }),
        { dataDir: config.dataDir, withinMs: longestDrainMs(config), stopped: signals.first, err: terminal.err }
      )
      if (app === null) return 0
      signals.onHangup(() => { app.reload(reload) })
      listening(app.url)
      const shutdown = reportShutdown(await signals.first, () => app.stopping(), terminal)
      await app.stop()
      shutdown.done()
      return 0
    }
    const { startPrimary } = await import('../process/cluster/primary.ts')
    const primary = await startPrimary(config, { size, instance: instanceName(), announce: terminal.out, inherited })
    signals.onHangup(() => { primary.reload(reload) })
    signals.onSecond(primary.kill)
    void primary.complete.then(listening)
    const end = await Promise.race([signals.first, primary.gaveUp])
    const shutdown = reportShutdown(end instanceof Error ? null : end, primary.stopping, terminal)
    const code = await primary.stop()
    shutdown.done()
    if (end instanceof Error) throw end
    return code
  } finally {
    await toy?.stop()
  }
}

/** Number of worker processes. The embedded store allows one. */
function workersOf ({ workers, stores }: Config): number {
  if (workers !== 'auto') return workers
  return stores.postgres === null ? 1 : availableParallelism()
}

interface Target { readonly file?: string, readonly upstreamUrl?: string, readonly upstreamFrom?: string }

/**
 * The file and upstream of flags and environment. null: none, so the toy runs. A file wins over UPSTREAM, because other programs read that
 * variable too. @throws StartError
 */
function targetOf (options: Options, { env, err }: Terminal): Target | null {
  const file = configFile(options, env)
  const named = ([
    ['--upstream', textOption(options, 'upstream')],
    ['ONCEWAY_UPSTREAM', env.ONCEWAY_UPSTREAM],
    ['UPSTREAM', env.UPSTREAM]
  ] as const).find(([from, text]) => text !== undefined && (text !== '' || from === '--upstream'))
  const upstream = file !== undefined && named?.[0] === 'UPSTREAM' ? undefined : named
  if (named !== upstream) {
    err(`onceway: UPSTREAM is not used: ${file} names the upstreams. (ONCEWAY_UPSTREAM replaces its only upstream.)`)
  }
  if (file === undefined && upstream === undefined) {
    const { ONCEWAY_CONFIG: absent = '' } = env
    if (absent !== '') {
      throw new StartError(
        `There is nothing to guard: UPSTREAM is not set, and there is no configuration file ${absent} (ONCEWAY_CONFIG).`,
        2
      )
    }
    return null
  }
  return { ...file !== undefined && { file }, ...upstream?.[1] !== undefined && { upstreamUrl: upstream[1], upstreamFrom: upstream[0] } }
}

function configOf (options: Options, env: Environment, { file, ...upstream }: Target): Config {
  const flags: Flags = {
    ...upstream,
    host: textOption(options, 'host'),
    port: integerOption(options, 'port', { min: 0, max: 65535 }),
    adminPort: integerOption(options, 'admin-port', { min: 0, max: 65535 }),
    dataDir: textOption(options, 'data-dir'),
    workers: textOption(options, 'workers') === 'auto' ? 'auto' : integerOption(options, 'workers', { min: 1, max: WORKERS_MAX })
  }
  return file === undefined ? defaultConfig({ ...flags, upstreamUrl: flags.upstreamUrl ?? '', env }) : loadConfig(file, { env, flags })
}
