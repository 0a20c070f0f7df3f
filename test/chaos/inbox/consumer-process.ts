/**
 * The consumer of a run in mode inbox, in a process of its own. Every delivery is in its file, and on the disk, before it is
 * answered. It takes what it gets until it is told to misbehave, in one way or in several at once; some messages it never wants.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { servePart } from '../child.ts'
import { Random } from '../random.ts'
import { UPSTREAM_TIMEOUT_MS } from '../routes.ts'
import { SyncedFile } from '../synced-file.ts'
import type { Misbehaviour, Pace } from '../witness.ts'
import type { Witness } from '../witness-process.ts'
import type { ConsumerLine } from './consumer.ts'
import { GONE } from './routes.ts'
import { printOf } from './wishes.ts'
import type { Poison } from './wishes.ts'

const [file = '', seed = '0', given = 'usual'] = process.argv.slice(2)
let pace = given as Pace
const random = new Random(Number(seed)).fork('consumer')
const wrong = new Map<Misbehaviour, number>()
const book = new SyncedFile<ConsumerLine>(file)
let deliveries = 0

const server = createServer({ keepAliveTimeout: 30_000 }, (request, response) => {
  void receive(request, response).catch(() => { response.destroy() })
})

async function receive (request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.on('error', () => {})
  const misbehaviour = nextMisbehaviour()
  if (misbehaviour === 'reset-before') {
    request.socket.resetAndDestroy()
    return
  }
  const body = createHash('sha256')
  for await (const chunk of request as AsyncIterable<Buffer>) body.update(chunk)
  const delivery = ++deliveries
  const { method = '', url = '', headers, rawHeaders } = request
  const attempt = Number(headers['idempotency-attempt'] ?? 0)
  await book.keep({ delivery, record: String(headers['onceway-key'] ?? ''), attempt, call: String(headers['x-request-id'] ?? ''), atMs: Date.now(), target: url, print: printOf(method, url, rawHeaders, body.digest('base64url')) })
  await pause(latencyMs())
  await behave(misbehaviour, delivery, attempt, request, response)
}

function nextMisbehaviour (): Misbehaviour | null {
  for (const [name, share] of wrong) {
    if (random.chance(share)) return name
  }
  return null
}

/** Mostly quick; `slow`: long enough for others to begin beside it, if they may; `slower`: for as long as it takes to find a worker dead. */
function latencyMs (): number {
  if (pace === 'slower') return random.between(2_000, 4_000)
  if (pace === 'slow') return random.between(50, 400)
  const kind = random.float()
  if (kind < 0.03) return random.between(200, 700)
  return kind < 0.15 ? random.between(20, 80) : random.between(1, 8)
}

async function behave (misbehaviour: Misbehaviour | null, delivery: number, attempt: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { socket } = request
  switch (misbehaviour) {
    case 'reset-after':
      socket.resetAndDestroy()
      return
    case 'half':
      socket.write('HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"delivery":')
      socket.destroySoon()
      return
    case 'garbage':
      socket.end('\x16\x03\x01 this is no HTTP\r\n\r\n')
      return
    case 'never': return
    case 'late': return afterwards(random.between(1_000, 3_000), delivery, response, 201)
    case 'too-late': return afterwards(UPSTREAM_TIMEOUT_MS + random.between(300, 2_000), delivery, response, 201)
    case 'extra': return answerTwice(delivery, request)
    case '429':
    case '500':
    case '502':
    case '503':
    case '504': return answer(delivery, response, Number(misbehaviour))
    case 'reset-before':
    case null: return answer(delivery, response, wanted(request.headers['x-poison'] as Poison | undefined, attempt))
  }
}

function wanted (poison: Poison | undefined, attempt: number): number {
  switch (poison) {
    case 'gone': return GONE
    case 'refused': return 422
    case 'later': return attempt <= 2 ? 503 : 204
    default: return random.pick([200, 201, 201, 204])
  }
}

async function afterwards (ms: number, ...rest: Parameters<typeof answer>): Promise<void> {
  await pause(ms)
  await answer(...rest)
}

/** An answer, and in the same write one that nobody asked for. */
function answerTwice (delivery: number, { socket }: IncomingMessage): void {
  const head = (status: string, bytes: number): string => `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`
  const [body, extra] = [bodyOf(delivery), '{"execution":-1}']
  book.note({ delivery, answeredMs: Date.now(), status: 201 })
  socket.write(`${head('201 Created', body.length)}${body}${head('200 OK', extra.length)}${extra}`)
}

async function answer (delivery: number, response: ServerResponse, status: number): Promise<void> {
  if (response.destroyed) return
  // Noted before its first byte: whoever settles it does so later. It needs no fsync; the process is never killed.
  book.note({ delivery, answeredMs: Date.now(), status })
  const body = status === 204 ? '' : bodyOf(delivery)
  response.writeHead(status, [...status === 204 ? [] : ['Content-Type', 'application/json', 'Content-Length', String(body.length)], ...status === 503 || status === 429 ? ['Retry-After', '1'] : []])
  await new Promise<void>(resolve => { response.end(body, () => { resolve() }) })
}

/** `execution`: as told.ts looks for it. */
function bodyOf (delivery: number): string {
  return JSON.stringify({ execution: delivery })
}

async function pause (ms: number): Promise<void> {
  await new Promise<void>(resolve => { setTimeout(resolve, ms) })
}

servePart({
  listen: async (): Promise<number> => {
    await new Promise<void>(resolve => { server.listen(0, '127.0.0.1', resolve) })
    return (server.address() as AddressInfo).port
  },
  misbehave: (how: Misbehaviour, share: number) => { wrong.set(how, share) },
  behaveAgain: (how: Misbehaviour) => { wrong.delete(how) },
  hurry: () => { pace = 'usual' },
  flush: async () => { await book.flush() },
  close: () => { book.close() }
} satisfies Witness)
