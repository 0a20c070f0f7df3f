/**
 * A consumer that does its business and protects itself from nothing: what arrives twice is done twice. LEDGER is the
 * file of what it has done, a line for each time.
 */
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'

const { PORT = '3000', LEDGER = 'ledger.txt' } = process.env
/** Now and then it is busy, and says so before it has done anything. */
const BUSY_SHARE = 0.02
/** Between the deed and the answer, at most. */
const ANSWER_MS_MAX = 20

const server = createServer((request, response) => {
  handle(request, response).catch(() => { response.writeHead(400).end() })
})
server.listen(Number(PORT), '127.0.0.1', () => { console.log(`consumer on http://127.0.0.1:${PORT}`) })
// It finishes what it has begun.
process.once('SIGTERM', () => { server.close() })

async function handle (request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id } = await json(request) as { id: string }
  // While it is being stopped: what comes next, comes to somebody else.
  if (!server.listening) response.setHeader('Connection', 'close')
  if (Math.random() < BUSY_SHARE) {
    response.writeHead(503, { 'Retry-After': '1' }).end()
    return
  }
  appendFileSync(LEDGER, `${id}\n`)
  await pause(Math.random() * ANSWER_MS_MAX)
  response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"done":true}')
}
