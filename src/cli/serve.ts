/** `onceway serve`: from the flags to a configuration, from signals to an end. What runs is app.ts's. */
import { defaultConfig, loadConfig } from '../config/load.ts'
import type { Config } from '../config/config.ts'
import { startDemoUpstream } from '../demo/upstream.ts'
import { readOptions, textOption, wholeNumber } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'

/**
 * `npm start` forwards the Ctrl-C that the terminal has already sent to the whole group: the same signal twice within
 * milliseconds is one wish. Nobody presses again on purpose within this time.
 */
const SAME_SIGNAL_MS = 500

export const serve: Command = {
  help: `usage: onceway serve [--upstream URL] [--port N] [--data-dir DIR] [--config FILE]

Runs the gateway until SIGTERM or SIGINT; then it drains and exits 0. A second signal ends it at once. SIGHUP reads the
file again and takes it, if it is right (docs/deployment.md).

  --upstream URL  guard this server: every POST and PATCH that carries an Idempotency-Key (with --config: in the place of
                  the file's one upstream). Without --upstream and --config: a toy payments upstream, to try it out
  --port N        port to listen on (default: 8080)
  --data-dir DIR  where the embedded store keeps its file (default: ./.onceway)
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
    upstream: { type: 'string' }, port: { type: 'string' }, 'data-dir': { type: 'string' }, config: { type: 'string' }
  })
  const isDemo = textOption(options, 'upstream') === undefined && textOption(options, 'config') === undefined
  // Before anything starts: a signal while starting is a wish to stop too.
  const signalled = firstSignal(terminal)
  const hangups = new Hangups()
  // Everything with its drivers takes a while to load, and a signal may come meanwhile.
  const { startApp } = await import('../app.ts')
  const demo = isDemo ? await startDemoUpstream() : null
  try {
    const config = configOf(options, terminal, demo?.url)
    // Nobody routes traffic to a try-out: there is nobody to give notice to.
    const app = await startApp(isDemo && terminal.env.ONCEWAY_DRAIN_DELAY === undefined ? { ...config, drain: { ...config.drain, delayMs: 0 } } : config, { announce: terminal.out })
    hangups.deliver(() => { app.reload(textOption(options, 'config') === undefined ? null : () => configOf(options, terminal, undefined)) })
    if (isDemo) tryLines(app.url).forEach(terminal.out)
    await signalled
    await app.stop()
    return 0
  } finally {
    await demo?.stop()
  }
}

function configOf (options: Options, { env }: Terminal, demoUrl: string | undefined): Config {
  const upstreamUrl = textOption(options, 'upstream') ?? demoUrl
  const port = wholeNumber(options, 'port', { min: 0, max: 65535 })
  const dataDir = textOption(options, 'data-dir')
  const file = textOption(options, 'config')
  if (file === undefined) return defaultConfig({ upstreamUrl: upstreamUrl ?? '', port, dataDir, env })
  return loadConfig(file, {
    env,
    flags: { ...(upstreamUrl !== undefined && { upstreamUrl }), ...(port !== undefined && { port }), ...(dataDir !== undefined && { dataDir }) }
  })
}

/** Resolves with the first signal; a second one ends the process where it stands. */
function firstSignal ({ err }: Terminal): Promise<void> {
  return new Promise((resolve) => {
    let firstAtMs: number | null = null
    const onSignal = (signal: NodeJS.Signals) => {
      if (firstAtMs !== null && performance.now() - firstAtMs < SAME_SIGNAL_MS) return
      if (firstAtMs !== null) {
        err(`onceway: ${signal} again: ending at once; what is under way becomes indeterminate.`)
        process.exit(1)
      }
      firstAtMs = performance.now()
      resolve()
    }
    process.on('SIGTERM', onSignal)
    process.on('SIGINT', onSignal)
  })
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
