/** The admin port of a process, with what operators ask it. One process serves, or several workers of it do (cluster/). */
import type { Config } from '../config/config.ts'
import { createAdmin, readinessAnswer } from '../http/admin.ts'
import type { AdminOptions } from '../http/admin.ts'
import { listen } from '../http/listen.ts'
import type { ProcessView } from '../operator/overview/process-view.ts'
import type { Log, TlsMeter } from '../ports/telemetry.ts'
import type { Series } from '../telemetry/aggregate.ts'
import { RecentRates } from '../telemetry/recent.ts'
import { ListenerCertificates } from './certificates.ts'
import { SYSTEM_CLOCK } from './clock.ts'
import { Operators } from './operators.ts'
import type { OperatorsOptions } from './operators.ts'
import { processView } from './process-view.ts'
import type { Reloads } from './process-view.ts'

export interface AdminPortOptions extends Pick<AdminOptions, 'readiness' | 'alive'>, Pick<OperatorsOptions, 'clock' | 'marksOf'>,
  Pick<ProcessView, 'instance' | 'workers' | 'where'> {
  /** The configuration that is in force. */
  readonly config: () => Config
  readonly log: Log
  readonly meter: TlsMeter
  readonly metrics: AdminOptions['metrics'] & { readonly series: () => Promise<Series> }
  readonly reloads: Reloads
  /** The descriptor of its socket. null: it is opened by the configuration. */
  readonly socket: number | null
}

export interface AdminPort {
  /** Resolves with the URL. @throws StartError */
  readonly listen: () => Promise<string>
  /** The configuration in force is another one. */
  readonly reconfigure: () => void
  readonly close: () => Promise<void>
}

/** @throws StartError */
export function adminPort (options: AdminPortOptions): AdminPort {
  const { config, log, metrics, readiness, reloads, clock, marksOf, alive, socket } = options
  const recent = new RecentRates(metrics.series)
  const gateway = processView({
    ...options,
    reloads,
    readiness: async () => readinessAnswer(await readiness(), config().admin.readiness),
    recent: () => recent.read()
  })
  const operators = new Operators({ config, log, gateway, marksOf, ...(clock !== undefined && { clock }) })
  const certificates = ListenerCertificates.open('admin', config().admin.tls, options)
  const admin = createAdmin({
    readiness,
    metrics,
    log,
    operators: { config, clock: SYSTEM_CLOCK, context: () => operators.context() },
    ...(alive !== undefined && { alive }),
    ...(certificates !== null && { tls: certificates }),
    get mode () { return config().admin.readiness },
    get hosts () { return config().admin.hosts }
  })
  return {
    listen: async () => {
      const url = await listen(admin, config().admin, 'admin', socket)
      recent.start()
      return url
    },
    reconfigure: () => { certificates?.reconfigure(config().admin.tls) },
    close: async () => {
      recent.stop()
      certificates?.close()
      await Promise.allSettled([admin.close(), operators.close()])
    }
  }
}
