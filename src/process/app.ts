/** A gateway in one process: what serves, its admin port, its banner and its reloads. A worker (cluster/) has no admin port. */
import { adminPort } from './admin.ts'
import { banner } from './banner.ts'
import type { Config } from '../config/config.ts'
import { withinCloseTime } from './drain.ts'
import { NONE_INHERITED } from '../http/inherited.ts'
import type { Inherited } from '../http/inherited.ts'
import { reload } from './reload.ts'
import { instanceName, openGateway } from './serving.ts'
import type { UnderWay } from './serving.ts'
import { createLogs } from '../telemetry/log.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import { Reloads } from './process-view.ts'

export interface App {
  readonly url: string
  readonly adminUrl: string
  /**
   * Takes the configuration that `load` reads if a running process can take it (reload.ts). null: there is no file.
   * Never throws.
   */
  readonly reload: (load: (() => Config) | null) => void
  /** What a drain waits for, and the limits of that wait. */
  readonly stopping: () => UnderWay & Config['drain']
  /** Drains (docs/guides/deploy-in-containers.md) and closes everything. Never rejects. */
  readonly stop: () => Promise<void>
}

export interface AppOptions {
  readonly announce: (line: string) => void
  /** Sockets that a service manager hands over. Absent: none. */
  readonly inherited?: Inherited
}

export async function startApp (config: Config, options: AppOptions): Promise<App> {
  const { inherited = NONE_INHERITED } = options
  const instance = instanceName()
  const logs = createLogs({ ...config.log, instance })
  const { log } = logs
  const metrics = createMetrics()
  const serving = await openGateway(config, { logs, meter: metrics, instance, socket: inherited.guarded })
  const reloads = new Reloads(metrics.reloaded)
  const { config: running, readiness, clock, marksOf, where } = serving
  const seen = { log, meter: metrics, metrics, reloads, instance, where, workers: 1 }
  const admin = adminPort({ ...seen, config: running, readiness, clock, marksOf, socket: inherited.admin })
  const close = async (): Promise<void> => {
    await Promise.all([serving.close(), withinCloseTime(admin.close())])
  }
  try {
    const adminUrl = await admin.listen()
    const url = await serving.listen()
    for (const remark of config.warnings) log.warn({ event: 'config-remark', file: config.file }, remark)
    for (const line of banner(config, serving.where, url, adminUrl)) options.announce(line)
    return {
      url,
      adminUrl,
      reload: (load) => {
        if (serving.readiness().phase === 'draining') {
          log.warn({ event: 'reload-skipped' }, 'SIGHUP: this process is draining; nothing is reloaded')
        } else {
          reload(serving.config(), load, {
            log,
            reloaded: reloads.note,
            shortestLeaseMs: serving.leases.shortestMs,
            apply: (next) => {
              serving.reconfigure(next)
              admin.reconfigure()
            }
          })
        }
      },
      stopping: () => ({ ...serving.underWay(), ...serving.config().drain }),
      stop: async () => {
        await serving.drain()
        await close()
      }
    }
  } catch (error) {
    await close()
    throw error
  }
}
