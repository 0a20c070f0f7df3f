/** nginx from Debian in its own prefix: as the upstream that counts executions, as a plain proxy, as a cache with a key. */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findTool } from '../test/harness/binaries.ts'
import { eventually } from '../test/harness/eventually.ts'
import { freePort } from '../test/harness/ports.ts'
import { startChild } from './child.ts'
import type { Child } from './child.ts'
import { AFTER_KEY, BEFORE_KEY, PATH, STATUS } from './exchange.ts'

/** More than any concurrency of the benchmark. */
const KEPT_ALIVE = 512
/** Connections are never ended for their age in the middle of a turn. */
const REQUESTS_OF_A_CONNECTION = 1_000_000_000

/** `atMs`: since 1970, whole. */
export interface Arrival { readonly key: string, readonly atMs: number }

export interface Upstream {
  readonly url: string
  /** The keys of all requests since the last call, in order. */
  readonly taken: () => Promise<string[]>
  /** The same with the times at which they were answered; in one call, or in the other. */
  readonly arrivals: () => Promise<Arrival[]>
  /** How many requests there have been, from some moment on. */
  readonly count: () => Promise<number>
  readonly trouble: () => string | null
  readonly stop: () => Promise<void>
}

/** Answers with what only the key of the request can have, and writes the key down. */
export async function startUpstream (directory: string): Promise<Upstream> {
  const child = await startNginx('upstream', directory, (prefix, port) => `
    log_format key '$http_idempotency_key $msec';
    access_log ${prefix}/keys key buffer=64k;
    default_type application/json;
    server {
      listen 127.0.0.1:${port} backlog=1024;
      location = ${COUNT_PATH} { stub_status; access_log off; }
      location / { return ${STATUS} '${BEFORE_KEY}$http_idempotency_key${AFTER_KEY}'; }
    }`)
  const [log, taken] = [join(directory, 'upstream', 'keys'), join(directory, 'upstream', 'taken')]
  let calls = 0
  let own = 0
  const lines = (): string[] => existsSync(taken) ? readFileSync(taken, 'latin1').split('\n') : []
  // A request of our own is the last line; opening the log anew writes out what is buffered, into the file as it is now called.
  const arrivals = async (): Promise<Arrival[]> => {
    const end = `end-of-${++calls}`
    const isEnd = (line: string): boolean => line.startsWith(`${end} `)
    own++
    await (await fetch(`${child.url}${PATH}`, { method: 'POST', headers: { 'Idempotency-Key': end } })).text()
    renameSync(log, taken)
    process.kill(child.pid, 'SIGUSR1')
    await eventually(() => lines().some(isEnd), 'the upstream has written its keys down')
    const all = lines()
    rmSync(taken)
    return all.slice(0, all.findIndex(isEnd)).map(arrivalOf)
  }
  return {
    url: child.url,
    trouble: child.trouble,
    stop: child.stop,
    arrivals,
    taken: async () => (await arrivals()).map(({ key }) => key),
    async count () {
      own++
      const said = await (await fetch(`${child.url}${COUNT_PATH}`)).text()
      return Number(REQUESTS.exec(said)?.[1]) - own
    }
  }
}

const COUNT_PATH = '/count'
/** Accepted, handled, requests. */
const REQUESTS = /\n \d+ \d+ (\d+) /

function arrivalOf (line: string): Arrival {
  const [key = '', seconds = ''] = line.split(' ')
  return { key, atMs: Math.round(Number(seconds) * 1_000) }
}

/** What nginx does with a request that nobody keeps. */
export async function startProxy (name: string, directory: string, upstreamUrl: string): Promise<Child> {
  return startNginx(name, directory, (_prefix, port) => proxyOf(port, upstreamUrl, ''))
}

/** The idempotency layer that people build of nginx alone: answers to POST are cached by caller and key, one at a time. */
export async function startCache (name: string, directory: string, upstreamUrl: string): Promise<Child> {
  return startNginx(name, directory, (prefix, port) => `
    proxy_cache_path ${prefix}/cache keys_zone=answers:64m max_size=4g inactive=24h;
    ${proxyOf(port, upstreamUrl, `
        proxy_cache answers;
        proxy_cache_methods POST;
        proxy_cache_key "$http_authorization $request_uri $http_idempotency_key";
        proxy_cache_valid ${STATUS} 24h;
        proxy_cache_lock on;`)}`)
}

function proxyOf (port: number, upstreamUrl: string, cache: string): string {
  return `
    access_log off;
    upstream behind { server ${new URL(upstreamUrl).host}; keepalive ${KEPT_ALIVE}; keepalive_requests ${REQUESTS_OF_A_CONNECTION}; }
    server {
      listen 127.0.0.1:${port} backlog=1024;
      location / {
        proxy_pass http://behind;
        proxy_http_version 1.1;
        proxy_set_header Connection "";${cache}
      }
    }`
}

async function startNginx (name: string, directory: string, http: (prefix: string, port: number) => string): Promise<Child> {
  const source = findTool('nginx')
  if (source.kind !== 'binaries') throw new Error(source.kind === 'none' ? source.why : 'nginx does not run in a container here')
  const prefix = join(directory, name)
  mkdirSync(prefix)
  // Its worker is somebody else when this runs as root, and must come this far.
  for (const path of [directory, prefix]) chmodSync(path, 0o755)
  const port = await freePort()
  writeFileSync(join(prefix, 'nginx.conf'), configuration(prefix, http(prefix, port)))
  return startChild({
    name,
    file: join(source.directory, 'nginx'),
    args: ['-p', prefix, '-c', join(prefix, 'nginx.conf'), '-e', join(prefix, 'error.log')],
    directory,
    endSignal: 'SIGQUIT',
    url: `http://127.0.0.1:${port}`
  })
}

function configuration (prefix: string, http: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((what) => `${what}_temp_path ${prefix}/${what};`)
  return `daemon off;
worker_processes 1;
${process.getuid?.() === 0 ? 'user nobody nogroup;' : ''}
pid ${prefix}/pid;
error_log ${prefix}/error.log warn;
events { worker_connections 4096; }
http {
    ${temporary.join('\n    ')}
    keepalive_requests ${REQUESTS_OF_A_CONNECTION};
    keepalive_timeout 1h;
${http}
}
`
}
