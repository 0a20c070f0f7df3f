/** What a gateway process says of itself to operators. */
import type { ReadinessAnswer } from '../http/admin.ts'
import type { GatewayReadiness, ProcessView, ReloadView } from '../operator/overview/process-view.ts'
import { VERSION } from '../version.ts'

type Reloaded = (result: ReloadView['result']) => void

/** The last reload, for as long as the process lives. */
export class Reloads {
  readonly #counted: Reloaded
  last: ReloadView | null = null
  loadedAtMs = Date.now()

  constructor (counted: Reloaded) {
    this.#counted = counted
  }

  readonly note = (result: ReloadView['result'], details: readonly string[]): void => {
    this.#counted(result)
    this.last = { atMs: Date.now(), result, details }
    if (result === 'ok') this.loadedAtMs = this.last.atMs
  }
}

interface Sources extends Pick<ProcessView, 'instance' | 'workers' | 'where' | 'recent'> {
  readonly reloads: Reloads
  readonly readiness: () => Promise<ReadinessAnswer>
}

export function processView ({ reloads, readiness, ...sources }: Sources): ProcessView {
  return {
    ...sources,
    version: VERSION,
    node: process.version,
    startedAtMs: Math.round(performance.timeOrigin),
    loadedAtMs: () => reloads.loadedAtMs,
    lastReload: () => reloads.last,
    readiness: async () => readinessOf(await readiness())
  }
}

function readinessOf ({ status, degraded, reason, promise, reasons, remarks }: ReadinessAnswer): GatewayReadiness {
  return {
    status,
    degraded,
    reason: reason ?? null,
    durability: promise === undefined ? null : { promise, reasons: reasons ?? [], remarks: remarks ?? [] }
  }
}
