/** The proxies that people put in front: as lenient as they can be told to be, with connections to the gateway that are used again. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findTool } from '../harness/binaries.ts'
import { makeDirectory } from '../harness/directory.ts'
import { freePort } from '../harness/ports.ts'
import { launch } from '../harness/process.ts'
import { DOOR } from './taps.ts'

export interface Front { readonly name: FrontName, readonly version: string, readonly port: number, stop: () => Promise<void> }
export type FrontName = 'nginx' | 'haproxy'

const STARTS_WITHIN_MS = 20_000
const LOOK_EVERY_MS = 50

/** `to`: a port of 127.0.0.1. */
export async function startFront (name: FrontName, to: number): Promise<Front> {
  const source = findTool(name)
  if (source.kind !== 'binaries') throw new Error(`there is no ${name}: ${source.kind === 'none' ? source.why : 'a container is none'}`)
  const directory = makeDirectory(name, tmpdir())
  const port = await freePort()
  const config = join(directory.path, 'front.conf')
  writeFileSync(config, name === 'nginx' ? nginx(directory.path, port, to) : haproxy(port, to))
  const args = name === 'nginx' ? ['-c', config, '-p', directory.path, '-g', 'daemon off;'] : ['-db', '-f', config]
  const launched = launch({
    file: join(source.directory, name),
    args,
    directory: directory.path,
    log: join(directory.path, 'log'),
    endSignal: 'SIGKILL'
  })
  for (const endsAt = performance.now() + STARTS_WITHIN_MS; !await answers(port);) {
    if (performance.now() > endsAt || !launched.running()) throw new Error(`${name} does not start:\n${launched.lastLog()}`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
  return {
    name,
    version: versionOf(join(source.directory, name), name),
    port,
    stop: async () => { await launched.killAll(); directory.remove() }
  }
}

async function answers (port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => { socket.destroy(); resolve(true) })
    socket.once('error', () => { resolve(false) })
  })
}

function versionOf (file: string, name: FrontName): string {
  const { stdout, stderr } = spawnSync(file, ['-v'], { encoding: 'utf8' })
  return /[0-9]+\.[0-9]+(?:\.[0-9]+)?/.exec(`${stdout}${stderr}`)?.[0] ?? `${name} of unknown version`
}

function nginx (directory: string, port: number, to: number): string {
  return `
worker_processes 1;
pid ${directory}/pid;
error_log ${directory}/error.log crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${directory}/body; proxy_temp_path ${directory}/proxy; fastcgi_temp_path ${directory}/fastcgi; uwsgi_temp_path ${directory}/uwsgi; scgi_temp_path ${directory}/scgi;
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
  }
}
`
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
