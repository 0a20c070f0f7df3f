/** A consumer without any protection against duplicates. LEDGER: a file with one line per execution. */
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'

const { PORT = '3000', LEDGER = 'ledger.txt' } = process.env
/** This share of requests gets 503 before anything is executed. */
const BUSY_SHARE = 0.02
/** Maximum pause between execution and answer. */
const ANSWER_MS_MAX = 20

const server = createServer((request, response) => {
  handle(request, response).catch(() => { response.writeHead(400).end() })
})
server.listen(Number(PORT), '127.0.0.1', () => { console.log(`consumer on http://127.0.0.1:${PORT}`) })
// Finishes the requests in flight.
process.once('SIGTERM', () => { server.close() })

async function handle (request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id } = await json(request) as { id: string }
  // During the shutdown, closes connections so that later requests go elsewhere.
  if (!server.listening) response.setHeader('Connection', 'close')
  if (Math.random() < BUSY_SHARE) {
    response.writeHead(503, { 'Retry-After': '1' }).end()
    return
  }
  appendFileSync(LEDGER, `${id}\n`)
  await pause(Math.random() * ANSWER_MS_MAX)
  response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"done":true}')
}
