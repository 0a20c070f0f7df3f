/**
 * What nothing on Node can be below, for what the others are measured against: `reply` reads a request by node:http and
 * answers what its key alone decides, asking nobody; `forward` hands it on by undici's dispatch and hands the answer back.
 * Neither looks at anything, writes anything down, or survives a mishap.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import { answerTo, STATUS } from '../exchange.ts'

const { FLOOR = '', UPSTREAM = '' } = process.env
/** As many as the largest concurrency of the benchmark. */
const CONNECTIONS = 256

const upstream = new Pool(UPSTREAM, { connections: CONNECTIONS, pipelining: 1 })

const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => { pieces.push(piece) })
  request.on('end', () => {
    if (FLOOR === 'reply') reply(request, response)
    else forward(request, response, pieces.length === 1 ? pieces[0] as Buffer : Buffer.concat(pieces))
  })
})

function reply (request: IncomingMessage, response: ServerResponse): void {
  const body = answerTo(String(request.headers['idempotency-key']))
  response.writeHead(STATUS, ['Content-Type', 'application/json', 'Content-Length', String(body.length)])
  response.end(body, 'latin1')
}

function forward (request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  const { 'idempotency-key': key = '', 'content-type': type = '', authorization = '' } = request.headers
  const pieces: Buffer[] = []
  let status = 0
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart () {},
    onResponseStart (_controller, code) { status = code },
    onResponseData (_controller, piece) { pieces.push(piece) },
    onResponseEnd () {
      const whole = pieces.length === 1 ? pieces[0] as Buffer : Buffer.concat(pieces)
      response.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', String(whole.length)])
      response.end(whole.toString('latin1'), 'latin1')
    },
    onResponseError () { response.destroy() }
  }
  upstream.dispatch({
    path: request.url ?? '/',
    method: 'POST',
    headers: ['content-type', type, 'authorization', authorization, 'idempotency-key', String(key), 'content-length', String(body.length)],
    body
  }, handler)
}

server.listen(0, '127.0.0.1', () => { console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`) })
