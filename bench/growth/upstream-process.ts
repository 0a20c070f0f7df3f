/**
 * The upstream of a run, in a process of its own so that it shares no event loop with the clients: answers at once, or
 * holds what comes until it is told otherwise, and counts how often each key was executed.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ANSWER_HEADERS, ANSWER_STATUS, answerOf, parseKey } from './thing.ts'
import type { UpstreamAsk, UpstreamCounts, UpstreamReply } from './upstream.ts'

/** One byte a key, grown by doubling: a million keys as strings would be a hundred megabytes beside what is measured. */
let executed = new Uint8Array(1 << 20)
const counts = { executions: 0, keys: 0, twice: 0, strangers: 0 }
const held: Array<() => void> = []
let holding = false

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  response.on('error', () => {})
  request.on('error', () => {})
  request.resume()
  request.once('end', () => { receive(request, response) })
})

server.listen(0, '127.0.0.1', () => { tell({ kind: 'listens', port: (server.address() as AddressInfo).port }) })

function receive (request: IncomingMessage, response: ServerResponse): void {
  const key = String(request.headers['idempotency-key'])
  count(key)
  const answer = (): void => { response.writeHead(ANSWER_STATUS, ANSWER_HEADERS).end(answerOf(key)) }
  if (holding) held.push(answer)
  else answer()
}

/** A seeded key has its answer in the table: whoever executes it does it a second time. */
function count (key: string): void {
  counts.executions++
  const parsed = parseKey(key)
  if (parsed === null || parsed.kind === 'seed') {
    counts.strangers++
    return
  }
  while (parsed.number >= executed.length) {
    const larger = new Uint8Array(executed.length * 2)
    larger.set(executed)
    executed = larger
  }
  const times = Math.min(255, (executed[parsed.number] ?? 0) + 1)
  executed[parsed.number] = times
  if (times === 1) counts.keys++
  if (times === 2) counts.twice++
}

process.on('message', (ask: UpstreamAsk) => {
  switch (ask.kind) {
    case 'hold':
      holding = true
      break
    case 'release':
      holding = false
      for (const answer of held.splice(0)) answer()
      break
    case 'count':
      break
  }
  tell({ kind: 'done', counts: { ...counts, held: held.length } satisfies UpstreamCounts })
})

/** The run has ended, however it did. */
process.once('disconnect', () => { process.exit(0) })

function tell (reply: UpstreamReply): void { process.send?.(reply) }
