/** The options of the guarded listener. */
import type { CorsPolicy } from '../../core/headers/cors.ts'
import type { IssuedKeysPolicy } from '../../core/policy/policy.ts'
import type { IncomingRequest } from '../../gateway/key/incoming-request.ts'
import type { WayContext } from '../../gateway/way.ts'
import type { Log, Meter, PassLog, RequestLog } from '../../ports/telemetry.ts'
import type { PassThrough } from '../../ports/pass-through.ts'
import type { compileRoutes } from '../../routing/match.ts'
import type { PeerTrust } from './peer.ts'

export interface ServerLimits {
  /** The most connections. Further ones are closed as soon as they are accepted. */
  readonly connections: number
  /** The part of them for one peer while no other peer has any (core/limits/limit.ts). */
  readonly share: number
  /** The longest delay of the event loop before requests are shed. 0: requests are never shed. */
  readonly eventLoopDelayMs: number
  /** The time limit of a guarded body. */
  readonly requestBodyMs: number
  /** The longest that a client neither sends its request nor reads its answer. */
  readonly clientIdleMs: number
  /** The longest that a tunnel is idle. */
  readonly tunnelIdleMs: number
}

export interface ServerOptions {
  readonly gateway: WayContext & { begin: (incoming: IncomingRequest) => void }
  readonly passing: PassThrough
  /**
   * This, `issuedKeys`, `cors`, `problemBaseUri`, `peers` and `limits` are read anew for every request, because a
   * reload changes them.
   */
  readonly routes: ReturnType<typeof compileRoutes>
  /** null or absent: no keys are issued. */
  readonly issuedKeys?: IssuedKeysPolicy | null
  /** null or absent: the gateway's own answers have no CORS fields. */
  readonly cors?: CorsPolicy | null
  readonly problemBaseUri: string
  readonly peers: PeerTrust
  readonly limits: ServerLimits
  readonly log: Log
  readonly requests: RequestLog
  /** Absent: requests that pass through have no lines. */
  readonly passes?: PassLog
  readonly meter: Meter
  /** true: this process ends. Every answer says `Connection: close`. */
  readonly closing: () => boolean
}
