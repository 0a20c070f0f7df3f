/**
 * Metrics of everything that the guarded port answers. A route has 41 series of the counter at most (8 methods with 5 statuses, and the
 * switches of GET), and 20 of the histogram.
 */
import type { Registry } from 'prom-client'
import { declare, MS_PER_SECOND, REQUEST_BUCKETS } from './declare.ts'
import { NO_ROUTE } from '../ports/telemetry.ts'
import type { Meter } from '../ports/telemetry.ts'

/** Any other method is the last one. */
export const HTTP_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'OTHER'] as const
/** By the first digit of the status. */
export const HTTP_STATUSES = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

const OTHER = HTTP_METHODS.length - 1
const INDEX_OF_METHOD: ReadonlyMap<string, number> = new Map(HTTP_METHODS.map((method, index) => [method, index]))
const PER_CLASS = 100
const HIGHEST = HTTP_STATUSES.length - 1

/** `reads`: called before the metrics are read. Until then answers are counted in numbers of our own, as guarded requests are. */
export function httpMeter (registry: Registry, reads: Array<() => void>): Pick<Meter, 'answered' | 'serves'> {
  const { counter, histogram } = declare(registry)
  const answers = counter(
    'onceway_http_requests_total',
    'Requests on the guarded port, guarded or not, by the class of the status that answered them.',
    ['route', 'method', 'status']
  )
  const seconds = histogram(
    'onceway_http_request_duration_seconds',
    'Duration of requests on the guarded port, from the complete head to the end of the response. A tunnel counts until its switch.',
    ['route'],
    REQUEST_BUCKETS
  )
  const counts = new Map<string, Float64Array>()
  const begin = (route: string): Float64Array => {
    const made = new Float64Array(HTTP_METHODS.length * HTTP_STATUSES.length)
    counts.set(route, made)
    return made
  }
  reads.push(() => {
    for (const [route, cells] of counts) {
      cells.forEach((count, cell) => {
        if (count > 0) answers.inc(labelsOf(route, cell), count)
      })
      cells.fill(0)
    }
  })
  return {
    serves: (routes) => {
      for (const { name: route, methods } of [...routes, { name: NO_ROUTE, methods: [] }]) {
        for (const method of HTTP_METHODS) {
          if (methods.length > 0 && !methods.includes(method)) continue
          for (const status of HTTP_STATUSES) if (method === 'GET' || status !== '1xx') answers.inc({ route, method, status }, 0)
        }
      }
    },
    answered: (route, method, status, ms) => {
      const cells = counts.get(route) ?? begin(route)
      const index = method === undefined ? OTHER : INDEX_OF_METHOD.get(method) ?? OTHER
      const cell = index * HTTP_STATUSES.length + Math.min(HIGHEST, Math.floor(status / PER_CLASS))
      cells[cell] = (cells[cell] ?? 0) + 1
      if (ms !== null) seconds.observe(ms / MS_PER_SECOND, route)
    }
  }
}

function labelsOf (route: string, cell: number): { readonly route: string, readonly method: string, readonly status: string } {
  const method = HTTP_METHODS[Math.floor(cell / HTTP_STATUSES.length)] ?? 'OTHER'
  return { route, method, status: HTTP_STATUSES[cell % HTTP_STATUSES.length] ?? 'none' }
}
