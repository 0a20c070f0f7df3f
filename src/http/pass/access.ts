/** The line of the log for a request that passed through, or for a tunnel. Only if the configuration asks for it, and samples it. */
import type { IncomingMessage } from 'node:http'
import { originForm } from '../../core/headers/lines.ts'
import type { Route } from '../../core/policy/policy.ts'
import type { PassLine } from '../../ports/telemetry.ts'
import type { ServerOptions } from '../shared/options.ts'

export type PassedHow = Pick<PassLine, 'status' | 'ms' | 'requestBytes' | 'responseBytes'>

export function notePassed ({ passes, peers }: ServerOptions, raw: IncomingMessage, id: string, route: Route, how: PassedHow): void {
  if (passes === undefined || !passes.takes()) return
  passes.note({
    requestId: id,
    route: route.name,
    upstream: route.upstream.name,
    method: raw.method ?? '',
    target: originForm(raw.url ?? ''),
    peer: peers.peerOf(raw),
    userAgent: raw.headers['user-agent'] ?? null,
    ...how
  })
}
