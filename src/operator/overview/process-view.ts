/** What a gateway process says of itself. */
import type { ReportedDurability } from '../../core/protocol/durability.ts'
import type { RecentRoute } from '../../ports/telemetry.ts'

export interface GatewayReadiness {
  readonly status: 'ready' | 'degraded' | 'starting' | 'draining' | 'blocked'
  /** Names of stores that cannot be used now. */
  readonly degraded: readonly string[]
  readonly reason: string | null
  /** null: the database has not been read yet. */
  readonly durability: ReportedDurability | null
}

/** `details`: what has changed, or the mistakes. */
export interface ReloadView { readonly atMs: number, readonly result: 'ok' | 'refused', readonly details: readonly string[] }

export interface ProcessView {
  readonly instance: string
  readonly version: string
  readonly node: string
  /** Worker processes. 1: the process itself serves. */
  readonly workers: number
  readonly startedAtMs: number
  readonly loadedAtMs: () => number
  readonly lastReload: () => ReloadView | null
  readonly readiness: () => Promise<GatewayReadiness>
  readonly recent: () => Promise<{ readonly minutes: number, readonly routes: readonly RecentRoute[] }>
  /** Where the records are, a line for each store. */
  readonly where: readonly string[]
}
