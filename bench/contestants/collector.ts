/** A collector of traces that takes everything, and reads none of it. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const server = createServer((request, response) => {
  request.resume().on('end', () => { response.writeHead(200, { 'Content-Type': 'application/x-protobuf' }).end() })
})
server.listen(0, '127.0.0.1', () => { console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`) })
