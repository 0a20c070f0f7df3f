/** What no inbox on Node can be below: requests are put into a list and answered, and sent from there by undici's dispatch. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import { ACCEPTED } from '../exchange.ts'

const { UPSTREAM = '', DELIVERIES = '1' } = process.env

interface Message { readonly path: string, readonly headers: string[], readonly body: Buffer }

const places = Number(DELIVERIES)
const upstream = new Pool(UPSTREAM, { connections: places, pipelining: 1 })
let waiting: Message[] = []
let next = 0
let underWay = 0
let held = false
process.on('SIGUSR2', () => { held = true; console.log('deliveries are held') })
process.on('SIGHUP', () => { held = false; console.log('deliveries are free'); deliver() })

const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => { pieces.push(piece) })
  request.on('end', () => {
    waiting.push({
      path: request.url ?? '/',
      headers: request.rawHeaders.filter((_, at, all) => !/^(host|connection)$/i.test(all[at - at % 2] ?? '')),
      body: Buffer.concat(pieces)
    })
    const body = '{"accepted":true}'
    response.writeHead(ACCEPTED, ['Content-Type', 'application/json', 'Content-Length', String(body.length)])
    response.end(body)
    deliver()
  })
})
server.listen(0, '127.0.0.1', () => { console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`) })

function deliver (): void {
  if (held) return
  while (underWay < places && next < waiting.length) send(waiting[next++] as Message)
  if (next === waiting.length) {
    waiting = []
    next = 0
  }
}

function send ({ path, headers, body }: Message): void {
  underWay++
  const over = (): void => { underWay--; deliver() }
  upstream.dispatch({ path, method: 'POST', headers, body }, {
    onRequestStart () {},
    onResponseStart () {},
    onResponseData () {},
    onResponseEnd: over,
    onResponseError (_controller, error) { console.error(String(error)); over() }
  })
}
