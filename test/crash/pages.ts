/**
 * Error pages of hops between the gateway and its upstream, word for word as the products send them.
 * No page says whether the upstream executed the request. The simulation of the hop decides that.
 */
import type { RawHeaders } from '../../src/core/record/record.ts'

export interface Page {
  readonly name: string
  readonly status: number
  readonly headers: RawHeaders
  readonly body: string
  /** What the hop may have seen of the upstream when it wrote the page. */
  readonly reached: 'never' | 'perhaps'
}

const TEXT = ['Content-Type', 'text/plain'] as const
const HTML = ['Content-Type', 'text/html; charset=utf-8'] as const
const RESET = 'upstream connect error or disconnect/reset before headers. reset reason: connection termination'

export const PAGES: readonly Page[] = [
  {
    name: 'heroku H12',
    status: 503,
    headers: [...HTML, 'Server', 'Cowboy', 'Via', '1.1 vegur', 'Cache-Control', 'no-cache, no-store'],
    body: '<!DOCTYPE html><html><head><title>Application Error</title></head></html>',
    reached: 'perhaps'
  },
  { name: 'google frontend', status: 503, headers: [...TEXT, 'Server', 'Google Frontend'], body: RESET, reached: 'perhaps' },
  { name: 'envoy behind nginx', status: 503, headers: [...TEXT, 'Server', 'nginx'], body: RESET, reached: 'perhaps' },
  { name: 'envoy, stream timeout', status: 408, headers: [...TEXT, 'Server', 'envoy'], body: 'stream timeout', reached: 'perhaps' },
  { name: 'envoy, no host', status: 503, headers: [...TEXT, 'Server', 'envoy'], body: 'no healthy upstream', reached: 'never' },
  {
    name: 'varnish',
    status: 503,
    headers: [...HTML, 'Server', 'Varnish', 'Retry-After', '5'],
    body: '<!DOCTYPE html><html><head><title>503 Backend fetch failed</title></head></html>',
    reached: 'perhaps'
  },
  {
    name: 'nginx',
    status: 504,
    headers: [...HTML, 'Server', 'nginx'],
    body: '<html><head><title>504 Gateway Time-out</title></head></html>',
    reached: 'perhaps'
  },
  {
    name: 'cloudflare 520',
    status: 520,
    headers: [...HTML, 'Server', 'cloudflare', 'CF-RAY', '1-FRA'],
    body: 'error code: 520',
    reached: 'perhaps'
  },
  {
    name: 'cloudflare 524',
    status: 524,
    headers: [...HTML, 'Server', 'cloudflare', 'CF-RAY', '1-FRA'],
    body: 'error code: 524',
    reached: 'perhaps'
  },
  {
    name: 'cloudflare 521',
    status: 521,
    headers: [...HTML, 'Server', 'cloudflare', 'CF-RAY', '1-FRA'],
    body: 'error code: 521',
    reached: 'never'
  },
  { name: 'alb 460', status: 460, headers: [...HTML, 'Server', 'awselb/2.0'], body: '', reached: 'perhaps' },
  { name: 'nginx 499', status: 499, headers: [...HTML, 'Server', 'nginx'], body: '', reached: 'perhaps' },
  { name: 'a proxy that read in vain', status: 598, headers: [...HTML], body: '', reached: 'perhaps' }
]
