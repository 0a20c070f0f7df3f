/** Cells of a test: each is one small server that answers with its name, behind a real proxy with the generated configuration. */
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { haproxyConfig, haproxyLua, LUA_FILE } from '../../src/cli/cells-haproxy.ts'
import { nginxConfig } from '../../src/cli/cells-nginx.ts'
import { readCells } from '../../src/config/cells.ts'
import type { Cells } from '../../src/core/cells/cells.ts'
import { nginxAround, startProxy } from '../harness/proxies.ts'
import type { Proxy, ProxyFiles, ProxyName } from '../harness/proxies.ts'

export const PROXIES: readonly ProxyName[] = ['nginx', 'haproxy']

/** The files of a proxy that routes by these cells. */
export function filesFor (name: ProxyName, cells: Cells): ProxyFiles {
  return (directory): Record<string, string> => name === 'nginx'
    ? { 'front.conf': nginxAround(directory, nginxConfig(cells)) }
    : { 'front.conf': haproxyConfig(cells), [LUA_FILE]: haproxyLua() }
}

export async function startRouter (name: ProxyName, port: number, cells: Cells): Promise<Proxy> {
  return startProxy(name, port, filesFor(name, cells))
}

export function cellsOf (yaml: string): Cells { return readCells('cells.yaml', yaml) }

export interface Origin { readonly address: string, readonly seen: () => number }

/** Answers every request with its name. */
export async function startOrigin (t: TestContext, name: string): Promise<Origin> {
  let seen = 0
  const server = createServer((incoming, response) => {
    seen++
    incoming.resume()
    incoming.on('end', () => { response.end(name) })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.closeAllConnections(); server.close() })
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, seen: () => seen }
}

/** Status 0: the connection was cut. */
export interface Answer { readonly status: number, readonly headers: Readonly<Record<string, unknown>>, readonly body: string }

/** Sends header lines as they are, which fetch would not. One connection for all. */
export class Asker {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 })
  readonly #port: number

  constructor (port: number) { this.#port = port }

  async ask (headers: readonly string[], { method = 'POST', host = 'api.example' } = {}): Promise<Answer> {
    const sent = request({
      port: this.#port,
      host: '127.0.0.1',
      method,
      path: '/things',
      agent: this.#agent,
      headers: ['Host', host, 'Content-Length', '0', ...headers],
      setHost: false
    })
    sent.end()
    let response: IncomingMessage
    try {
      [response] = await once(sent, 'response') as [IncomingMessage]
    } catch {
      return { status: 0, headers: {}, body: '' }
    }
    let body = ''
    for await (const chunk of response) body += String(chunk)
    return { status: response.statusCode ?? 0, headers: response.headers, body }
  }

  close (): void { this.#agent.destroy() }
}
