/**
 * Reloading the configuration of a running process: read it as the start did, and take the whole of it or nothing. What
 * becomes of it is logged and counted. In one process everything happens in one step of the event loop, so no request sees
 * a half, and two reloads never meet; with workers the primary judges, and each of them takes it in one step.
 */
import { orphans } from '../config/compare/orphaned-records.ts'
import { changes, restartOnly } from '../config/compare/changes.ts'
import type { Config } from '../config/config.ts'
import { ConfigInvalid, problemLine } from '../config/read/problem.ts'
import { errorStack, StartError } from '../ports/errors.ts'
import type { Log } from '../ports/telemetry.ts'

export interface ReloadOptions {
  readonly log: Log
  readonly reloaded: (result: 'ok' | 'refused') => void
  /** At the start of the process: see restartOnly. */
  readonly shortestLeaseMs: number
}

/** A configuration that a running process can take, and what is to be said of it. */
export interface CheckedReload {
  readonly config: Config
  readonly changed: readonly string[]
  readonly orphaned: readonly string[]
}

/** What is wrong with a configuration, one sentence each. */
class ReloadRefused extends Error {
  readonly reasons: readonly string[]

  constructor (reasons: readonly string[]) {
    super(reasons.join(' '))
    this.reasons = reasons
  }
}

/**
 * `load`: reads the file; null: there is none. `take`: from now on this one counts; takes it whole, or throws and has
 * changed nothing. Never throws.
 */
export function reload (
  running: Config,
  load: (() => Config) | null,
  options: ReloadOptions & { readonly apply: (config: Config) => void }
): void {
  const judged = checkReload(running, load, options)
  if (judged === null) return
  try {
    options.apply(judged.config)
    noteReloaded(judged, options)
  } catch (error) {
    noteRefused(running, error, options)
  }
}

/** null: nothing is to be taken, and that has been told. Never throws. */
export function checkReload (running: Config, load: (() => Config) | null, options: ReloadOptions): CheckedReload | null {
  if (load === null) {
    options.log.warn({}, 'SIGHUP: there is no file to reload; this process was started without --config')
    return null
  }
  try {
    const config = loaded(running, load, options)
    return { config, changed: changes(running, config), orphaned: orphans(running, config) }
  } catch (error) {
    noteRefused(running, error, options)
    return null
  }
}

export function noteReloaded ({ config, changed, orphaned }: CheckedReload, { log, reloaded }: ReloadOptions): void {
  reloaded('ok')
  log.info({ file: config.file, routes: config.routes.length, upstreams: config.upstreams.length, changed }, 'configuration reloaded')
  for (const sentence of [...orphaned, ...config.remarks]) log.warn({ file: config.file }, sentence)
}

function noteRefused (running: Config, error: unknown, { log, reloaded }: ReloadOptions): void {
  reloaded('refused')
  log.error({ file: running.file, mistakes: reasonsOf(error) }, 'configuration not reloaded: the one that runs stays')
}

function loaded (running: Config, load: () => Config, { shortestLeaseMs }: ReloadOptions): Config {
  const config = load()
  const reasons = restartOnly(running, config, shortestLeaseMs)
  if (reasons.length > 0) throw new ReloadRefused(reasons)
  return config
}

/** As `onceway check` prints them. Anything unforeseen is a bug of ours and comes with its stack. */
function reasonsOf (error: unknown): readonly string[] {
  if (error instanceof ConfigInvalid) return error.problems.map(problemLine)
  if (error instanceof ReloadRefused) return error.reasons
  if (error instanceof StartError) return [error.message]
  return [errorStack(error)]
}
