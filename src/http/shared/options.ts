/** What the guarded listener is given. */
import type { CorsPolicy } from '../../core/headers/cors.ts'
import type { IssuedKeysPolicy } from '../../core/policy/policy.ts'
import type { PipelineContext } from '../../gateway/pipeline.ts'
import type { Log, Meter, RequestLog } from '../../ports/telemetry.ts'
import type { PassThrough } from '../../ports/pass-through.ts'
import type { compileRoutes } from '../../routing/match.ts'
import type { PeerTrust } from './peer.ts'

export interface ServerLimits {
  /** Connections at once; the next ones are closed as they are accepted. */
  readonly connections: number
  /** Of them, for one peer while no other has any (core/limits/limit.ts). */
  readonly share: number
  /** How late the event loop may be; 0: requests are never shed. */
  readonly eventLoopDelayMs: number
  /** A guarded body must be whole by then. */
  readonly requestBodyMs: number
  /** The longest that a client neither goes on with its request nor reads its answer. */
  readonly clientIdleMs: number
  /** The longest that nothing moves in a tunnel. */
  readonly tunnelIdleMs: number
}

export interface ServerOptions {
  readonly gateway: PipelineContext
  readonly passing: PassThrough
  /** This, `issuedKeys`, `cors`, `problemBaseUri`, `peers` and `limits` are looked at anew for every request: a reload changes them. */
  readonly routes: ReturnType<typeof compileRoutes>
  /** null or absent: no keys are given out. */
  readonly issuedKeys?: IssuedKeysPolicy | null
  /** null or absent: nothing is said of other origins on the gateway's own answers. */
  readonly cors?: CorsPolicy | null
  readonly problemBaseUri: string
  readonly peers: PeerTrust
  readonly limits: ServerLimits
  readonly log: Log
  readonly requests: RequestLog
  readonly meter: Meter
  /** true: this process is on its way out; every answer says `Connection: close`. */
  readonly closing: () => boolean
}
