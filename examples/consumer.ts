/**
 * A consumer that does its business and protects itself from nothing: what arrives twice is done twice. LEDGER is the
 * file of what it has done, a line for each time.
 */
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'

const { PORT = '3000', LEDGER = 'ledger.txt' } = process.env
/** Now and then it is busy, and says so before it has done anything. */
const BUSY_SHARE = 0.02

const server = createServer((request, response) => {
  // While it is being stopped: what comes next, comes to somebody else.
  if (!server.listening) response.setHeader('Connection', 'close')
  void json(request).then(event => {
    if (Math.random() < BUSY_SHARE) {
      response.writeHead(503, { 'Retry-After': '1' }).end()
      return
    }
    appendFileSync(LEDGER, `${(event as { id: string }).id}\n`)
    response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"done":true}')
  }, () => { response.writeHead(400).end() })
})
server.listen(Number(PORT), '127.0.0.1', () => { console.log(`consumer on http://127.0.0.1:${PORT}`) })
// It finishes what it has begun.
process.once('SIGTERM', () => { server.close() })
