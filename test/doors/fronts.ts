/** The proxies that people put in front: as lenient as they can be told to be, with connections to the gateway that are used again. */
import { freePort } from '../harness/ports.ts'
import { nginxAround, startProxy } from '../harness/proxies.ts'
import type { Proxy, ProxyName } from '../harness/proxies.ts'
import { DOOR } from './taps.ts'

export type FrontName = ProxyName

/** `to`: a port of 127.0.0.1. */
export async function startFront (name: FrontName, to: number): Promise<Proxy> {
  const port = await freePort()
  return startProxy(name, port, (directory) => ({ 'front.conf': name === 'nginx' ? nginx(directory, port, to) : haproxy(port, to) }))
}

function nginx (directory: string, port: number, to: number): string {
  return nginxAround(directory, `
  ignore_invalid_headers off; underscores_in_headers on; merge_slashes off;
  large_client_header_buffers 4 64k; client_body_timeout 2s; client_header_timeout 2s; client_max_body_size 0;
  upstream gateway { server 127.0.0.1:${to}; keepalive 8; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://gateway;
      proxy_http_version 1.1; proxy_request_buffering off; proxy_next_upstream off;
      proxy_set_header Host $http_host; proxy_set_header Connection ""; proxy_set_header ${DOOR} $request_id;
    }
  }`)
}

function haproxy (port: number, to: number): string {
  return `
defaults
  mode http
  timeout client 2s
  timeout server 10s
  timeout connect 2s
  retries 0
  option http-keep-alive
  option accept-invalid-http-request
frontend front
  bind 127.0.0.1:${port}
  http-request set-header ${DOOR} %[uuid()]
  default_backend gateway
backend gateway
  http-reuse always
  server gateway 127.0.0.1:${to} maxconn 64
`
}
