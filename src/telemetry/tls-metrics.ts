/** Metrics of listeners that speak TLS. A listener without it has no series. */
import type { Registry } from 'prom-client'
import { declare, MS_PER_SECOND } from './declare.ts'
import type { TlsMeter } from '../ports/telemetry.ts'
import { HANDSHAKE_FAULTS } from './zeros.ts'

export function tlsMeter (registry: Registry): TlsMeter {
  const { counter, labelledGauge } = declare(registry)
  const failures = counter(
    'onceway_tls_handshake_failures_total',
    'TLS handshakes that failed, by reason. closed: the client went away, as health checks of load balancers do.',
    ['listener', 'reason']
  )
  const expiry = labelledGauge(
    'onceway_tls_certificate_expiration_timestamp_seconds',
    'Unix time at which the certificate of a listener expires, or one that is sent with it.',
    ['listener'],
    'min'
  )
  const reads = counter(
    'onceway_tls_certificate_reads_total',
    'Changed certificate files that were read, by result. refused: they cannot be used, and the earlier ones stay.',
    ['listener', 'result']
  )
  return {
    handshakeFailed: (listener, reason) => { failures.inc({ listener, reason }) },
    certificate: (listener, expiresAtMs) => {
      for (const reason of HANDSHAKE_FAULTS) failures.inc({ listener, reason }, 0)
      for (const result of ['ok', 'refused']) reads.inc({ listener, result }, 0)
      expiry.set({ listener }, expiresAtMs / MS_PER_SECOND)
    },
    certificateRead: (listener, result) => { reads.inc({ listener, result }) }
  }
}
