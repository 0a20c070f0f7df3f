/** `onceway serve`: from the flags to a configuration, from signals to an end. What runs is app.ts's, or workers/' if there are several. */
import { availableParallelism } from 'node:os'
import { defaultConfig, loadConfig } from '../config/load.ts'
import type { Config } from '../config/config.ts'
import { WORKERS_MAX } from '../config/schema.ts'
import { startDemoUpstream } from '../demo/upstream.ts'
import { readOptions, textOption, wholeNumber } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'

/**
 * `npm start` forwards the Ctrl-C that the terminal has already sent to the whole group: the same signal twice within
 * milliseconds is one wish. Nobody presses again on purpose within this time.
 */
const SAME_SIGNAL_MS = 500

export const serve: Command = {
  help: `usage: onceway serve [--upstream URL] [--port N] [--data-dir DIR] [--workers N] [--config FILE]

Runs the gateway until SIGTERM or SIGINT; then it drains and exits 0. A second signal ends it at once. SIGHUP reads the
file again and takes it, if it is right (docs/deployment.md).

  --upstream URL  guard this server: every POST and PATCH that carries an Idempotency-Key (with --config: in the place of
                  the file's one upstream). Without --upstream and --config: a toy payments upstream, to try it out
  --port N        port to listen on (default: 8080)
  --data-dir DIR  where the embedded store keeps its file (default: ./.onceway)
  --workers N     processes that serve, with Postgres only; auto: one for each processor (default: 1)
  --config FILE   configuration (see docs/configuration.md)

DATABASE_URL and REDIS_URL (or ONCEWAY_DATABASE_URL, ONCEWAY_REDIS_URL) make it run on Postgres and Redis.

examples:
  onceway serve
  onceway serve --upstream http://127.0.0.1:3000 --port 8080
  DATABASE_URL=postgres://app@db/app onceway serve --config onceway.yaml`,
  run: serveUntilSignal
}

async function serveUntilSignal (args: readonly string[], terminal: Terminal): Promise<number> {
  const options = readOptions(args, {
    upstream: { type: 'string' }, port: { type: 'string' }, 'data-dir': { type: 'string' }, config: { type: 'string' }, workers: { type: 'string' }
  })
  const isDemo = textOption(options, 'upstream') === undefined && textOption(options, 'config') === undefined
  // Before anything starts: a signal while starting is a wish to stop too.
  const signals = new Signals(terminal)
  // Everything with its drivers takes a while to load, and a signal may come meanwhile.
  const { instanceName, startApp } = await import('../app.ts')
  const demo = isDemo ? await startDemoUpstream() : null
  try {
    const read = configOf(options, terminal, demo?.url)
    // Nobody routes traffic to a try-out: there is nobody to give notice to.
    const config = isDemo && terminal.env.ONCEWAY_DRAIN_DELAY === undefined ? { ...read, drain: { ...read.drain, delayMs: 0 } } : read
    const reload = textOption(options, 'config') === undefined ? null : () => configOf(options, terminal, undefined)
    const listening = (url: string): void => { if (isDemo) tryLines(url).forEach(terminal.out) }
    const size = workersOf(config)
    if (size === 1) {
      const app = await startApp(config, { announce: terminal.out })
      signals.onHangup(() => { app.reload(reload) })
      listening(app.url)
      await signals.first
      await app.stop()
      return 0
    }
    const { startPrimary } = await import('../workers/primary.ts')
    const primary = await startPrimary(config, { size, instance: instanceName(), announce: terminal.out })
    signals.onHangup(() => { primary.reload(reload) })
    signals.onSecond(primary.kill)
    void primary.complete.then(listening)
    const hopeless = await Promise.race([signals.first, primary.gaveUp])
    const code = await primary.stop()
    if (hopeless instanceof Error) throw hopeless
    return code
  } finally {
    await demo?.stop()
  }
}

/** How many processes serve. The embedded store belongs to one. */
function workersOf ({ workers, stores }: Config): number {
  if (workers !== 'auto') return workers
  return stores.postgres === null ? 1 : availableParallelism()
}

function configOf (options: Options, { env }: Terminal, demoUrl: string | undefined): Config {
  const upstreamUrl = textOption(options, 'upstream') ?? demoUrl
  const port = wholeNumber(options, 'port', { min: 0, max: 65535 })
  const dataDir = textOption(options, 'data-dir')
  const workers = textOption(options, 'workers') === 'auto' ? 'auto' : wholeNumber(options, 'workers', { min: 1, max: WORKERS_MAX })
  const file = textOption(options, 'config')
  if (file === undefined) return defaultConfig({ upstreamUrl: upstreamUrl ?? '', port, dataDir, workers, env })
  return loadConfig(file, {
    env,
    flags: { ...(upstreamUrl !== undefined && { upstreamUrl }), ...(port !== undefined && { port }), ...(dataDir !== undefined && { dataDir }), ...(workers !== undefined && { workers }) }
  })
}

/** SIGTERM and SIGINT: the first one is a wish to stop, a second one ends the process where it stands. SIGHUP: see {@link Hangups}. */
class Signals {
  readonly first: Promise<void>
  readonly #hangups = new Hangups()
  #onSecond: () => void = () => {}

  constructor ({ err }: Terminal) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.first = promise
    let firstAtMs: number | null = null
    const onSignal = (signal: NodeJS.Signals) => {
      if (firstAtMs !== null && performance.now() - firstAtMs < SAME_SIGNAL_MS) return
      if (firstAtMs !== null) {
        err(`onceway: ${signal} again: ending at once; what is under way becomes indeterminate.`)
        this.#onSecond()
        process.exit(1)
      }
      firstAtMs = performance.now()
      resolve()
    }
    process.on('SIGTERM', onSignal)
    process.on('SIGINT', onSignal)
  }

  onHangup (reload: () => void): void {
    this.#hangups.deliver(reload)
  }

  /** Before the process ends at a second signal. */
  onSecond (end: () => void): void {
    this.#onSecond = end
  }
}

/** SIGHUP is a wish to reload, whenever it comes: left alone, it would end the process. One that comes too early is kept. */
class Hangups {
  #early = false
  #reload: (() => void) | null = null

  constructor () {
    process.on('SIGHUP', () => {
      if (this.#reload === null) this.#early = true
      else this.#reload()
    })
  }

  deliver (reload: () => void): void {
    this.#reload = reload
    if (this.#early) reload()
  }
}

export function tryLines (url: string): string[] {
  const pay = `curl -i ${url}/v1/payments -H 'Content-Type: application/json' -H 'Idempotency-Key: order-1'`
  return [
    '',
    'It guards a toy payments API that is not idempotent by itself. Try:',
    '',
    `  ${pay} -d '{"amount": 100, "currency": "EUR"}'    # executed: a new payment`,
    `  ${pay} -d '{"amount": 100, "currency": "EUR"}'    # replayed: the same payment`,
    `  ${pay} -d '{"amount": 999, "currency": "EUR"}'    # 422: the same key, another request`,
    `  curl ${url}/v1/payments                            # one payment was made`,
    ''
  ]
}
