/**
 * Reloads the configuration of a running process. The file is read as at the start, and taken as a whole or not at all.
 * The result is logged and counted. In one process a reload is one step of the event loop, so no request sees half of
 * it, and no two reloads overlap. With workers, the primary checks the file, and each worker takes it in one step.
 */
import { orphans } from '../config/compare/orphaned-records.ts'
import { changes, restartOnly } from '../config/compare/changes.ts'
import type { Config } from '../config/config.ts'
import { ConfigInvalid, problemLine } from '../config/read/problem.ts'
import { errorStack, StartError } from '../ports/errors.ts'
import type { Log } from '../ports/telemetry.ts'

export interface ReloadOptions {
  readonly log: Log
  /** `details`: what has changed, or the mistakes. */
  readonly reloaded: (result: 'ok' | 'refused', details: readonly string[]) => void
  /** The value at the start of the process: see restartOnly. */
  readonly shortestLeaseMs: number
}

/** A configuration that a running process can take, and the remarks about it. */
export interface CheckedReload {
  readonly config: Config
  readonly changed: readonly string[]
  readonly orphaned: readonly string[]
}

/** The mistakes of a configuration, one sentence each. */
class ReloadRefused extends Error {
  readonly reasons: readonly string[]

  constructor (reasons: readonly string[]) {
    super(reasons.join(' '))
    this.reasons = reasons
  }
}

/**
 * `load` reads the file. null: there is none. `apply` takes the configuration as a whole, or throws and has changed
 * nothing. Never throws.
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

/** null: nothing to take, and that has been logged. Never throws. */
export function checkReload (running: Config, load: (() => Config) | null, options: ReloadOptions): CheckedReload | null {
  if (load === null) {
    options.log.warn({ event: 'reload-skipped' }, 'SIGHUP: there is no file to reload; this process was started without --config')
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
  reloaded('ok', changed)
  log.info(
    { event: 'config-reloaded', file: config.file, routes: config.routes.length, upstreams: config.upstreams.length, changed },
    'configuration reloaded'
  )
  for (const sentence of orphaned) log.warn({ event: 'records-orphaned', file: config.file }, sentence)
  for (const remark of config.warnings) log.warn({ event: 'config-remark', file: config.file }, remark)
}

function noteRefused (running: Config, error: unknown, { log, reloaded }: ReloadOptions): void {
  const mistakes = reasonsOf(error)
  reloaded('refused', mistakes)
  log.error(
    { event: 'config-refused', file: running.file, mistakes },
    'configuration not reloaded: the one that runs stays'
  )
}

function loaded (running: Config, load: () => Config, { shortestLeaseMs }: ReloadOptions): Config {
  const config = load()
  const reasons = restartOnly(running, config, shortestLeaseMs)
  if (reasons.length > 0) throw new ReloadRefused(reasons)
  return config
}

/** As `onceway check` prints them. An unforeseen error is a bug and comes with its stack. */
function reasonsOf (error: unknown): readonly string[] {
  if (error instanceof ConfigInvalid) return error.problems.map(problemLine)
  if (error instanceof ReloadRefused) return error.reasons
  if (error instanceof StartError) return [error.message]
  return [errorStack(error)]
}
