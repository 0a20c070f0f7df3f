/** A gateway with one guarded route and one that passes through, whose metrics and lines of the log are read. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import type { TestContext } from 'node:test'
import { WebSocket, WebSocketServer } from 'ws'
import type { AccessConfig } from '../../src/config/config.ts'
import type { Route } from '../../src/core/policy/policy.ts'
import { createLogs } from '../../src/telemetry/log.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import type { Metrics } from '../../src/telemetry/metrics.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'

export interface Traffic extends TestGateway {
  readonly witness: Witness
  readonly metrics: Metrics
  /** What `GET /metrics` would say. */
  readonly exposed: () => Promise<string>
  /** The series of all traffic that are not 0, as `route method status` and their number. */
  readonly counted: () => Promise<Record<string, number>>
  /** The whole log, as it is written. */
  readonly log: () => string
  readonly lines: (event: string) => Array<Readonly<Record<string, unknown>>>
}

export function passing (url: string, path = '/*', name = path): Route {
  return { ...guardedRoute(url), name, match: { path, methods: [], host: null, exact: false }, idempotency: null }
}

export async function startTraffic (
  t: TestContext,
  { access, answer, sockets }: { readonly access?: AccessConfig, readonly answer?: Behaviour, readonly sockets?: string } = {}
): Promise<Traffic> {
  const witness = await startWitness(answer)
  const metrics = createMetrics({ processMetrics: false })
  const texts: string[] = []
  const logs = createLogs({
    level: 'debug',
    ...access !== undefined && { access },
    destination: { write: (line) => { texts.push(line) } }
  })
  const guarded = guardedRoute(witness.url)
  const routes = [
    { ...guarded, match: { ...guarded.match, path: '/things/*', methods: ['POST'] } },
    ...sockets === undefined ? [] : [passing(sockets, '/sockets', 'sockets')],
    passing(witness.url, '/open/*')
  ]
  const started = await startGateway(t, {
    routes,
    world: { meter: metrics, log: logs.log },
    requests: logs.requests,
    passes: logs.passes
  })
  t.after(async () => { await started.close(); await witness.close() })
  metrics.serves(routes.map(({ name, match: { methods } }) => ({ name, methods })))
  metrics.guarded([{ name: guarded.name }])
  const exposed = async (): Promise<string> => (await metrics.expose()).text
  /** An event is written at once, and the lines before it. */
  const log = (): string => {
    logs.log.debug({ event: 'background-recovered' }, 'flush')
    return texts.join('')
  }
  return {
    ...started,
    witness,
    metrics,
    exposed,
    counted: async () => Object.fromEntries(Array.from(
      (await exposed()).matchAll(/^onceway_http_requests_total\{route="(.*?)",method="(.*?)",status="(.*?)"\} ([1-9]\d*)$/gm),
      ([, route, method, status, count]) => [`${route} ${method} ${status}`, Number(count)]
    )),
    log,
    lines: (event) => log().trim().split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((line) => line.event === event)
  }
}

/** An upstream of WebSockets that repeats what it is sent. Its URL. */
export async function startSockets (t: TestContext): Promise<string> {
  const server = createServer((_request, response) => { response.writeHead(403).end('no') })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket) => { socket.on('message', (message) => { socket.send(message as Buffer) }) })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const client of sockets.clients) client.terminate()
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Opens a tunnel, sends one message and waits for its echo. */
export async function talk (url: string, message: string, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const socket = new WebSocket(url.replace('http', 'ws'), { headers, perMessageDeflate: false })
  await once(socket, 'open')
  socket.send(message)
  await once(socket, 'message')
  socket.close()
  await once(socket, 'close')
}
