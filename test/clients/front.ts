/** A real reverse proxy before an admin port, such as oauth2-proxy: it may end TLS, and sets headers that clients cannot. */
import { once } from 'node:events'
import { createServer, request as forward } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'
import { textOf } from '../harness/certificates.ts'
import type { Signed } from '../harness/certificates.ts'
import type { Ends } from './console-world.ts'

const BAD_GATEWAY = 502

export interface FrontOptions {
  readonly tls?: Signed
  /** Where its connections to the gateway come from. */
  readonly localAddress?: string
}

export interface Front {
  readonly url: string
  /** Of a gateway. Nothing is forwarded before it is known. */
  target: string
  /** Set in every request, in place of what the client sent under these names. In lower case. */
  headers: Readonly<Record<string, string>>
}

export async function startFront (ends: Ends, { tls, localAddress = '127.0.0.1' }: FrontOptions = {}): Promise<Front> {
  const front = { url: '', target: '', headers: {} as Readonly<Record<string, string>> }
  const receive = (incoming: IncomingMessage, response: ServerResponse): void => {
    const lines = incoming.rawHeaders.flatMap(
      (name, at, all) => at % 2 === 1 || name.toLowerCase() in front.headers ? [] : [name, all[at + 1] ?? '']
    )
    const outgoing = forward(new URL(front.target), {
      method: incoming.method,
      path: incoming.url,
      agent: false,
      localAddress,
      headers: [...lines, ...Object.entries(front.headers).flat()]
    })
    outgoing.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? BAD_GATEWAY, answer.rawHeaders)
      pipeline(answer, response, () => {})
    })
    outgoing.on('error', () => { response.writeHead(BAD_GATEWAY).end() })
    pipeline(incoming, outgoing, () => {})
  }
  const server = tls === undefined ? createServer(receive) : createTlsServer({ cert: textOf(tls.cert), key: textOf(tls.key) }, receive)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  ends.after(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  front.url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`
  return front
}
