/**
 * The upstream of a run, in a process of its own. Every execution is in its file, and on the disk, before it is answered;
 * many executions share one fsync. It answers well until it is told to misbehave, in one way or in several at once.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { servePart } from './child.ts'
import { Random } from './random.ts'
import { ANSWER_WITHIN_MS, LOOKUP_PATH, RESPONSE_BYTES_MAX, UPSTREAM_TIMEOUT_MS } from './routes.ts'
import { SyncedFile } from './synced-file.ts'
import type { Misbehaviour, Pace, WitnessLine } from './witness.ts'

const [file = '', seed = '0', given = 'usual'] = process.argv.slice(2)
let pace = given as Pace
const random = new Random(Number(seed)).fork('witness')
const wrong = new Map<Misbehaviour, number>()
const book = new SyncedFile<WitnessLine>(file)
let executions = 0

// ---------------------------------------------------------------- one request

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
  if (request.method === 'GET' && (request.url ?? '').startsWith(LOOKUP_PATH)) return lookUp(misbehaviour, request, response)
  const body = createHash('sha256')
  for await (const chunk of request as AsyncIterable<Buffer>) body.update(chunk)
  const execution = ++executions
  const field = (name: string): string => String(request.headers[name] ?? '')
  await book.keep({ execution, record: field('onceway-key'), attempt: Number(field('idempotency-attempt')), call: field('x-request-id'), atMs: Date.now(), scope: field('authorization'), target: request.url ?? '', body: body.digest('base64url') })
  if (!NOT_DONE.has(misbehaviour)) books.set(field('onceway-key'), execution)
  await pause(latencyMs())
  await behave(misbehaviour, execution, request, response)
}

/** What it has done, by record: known as soon as it is on the disk. What is answered as not done is not in it. */
const books = new Map<string, number>()
const NOT_DONE: ReadonlySet<Misbehaviour | null> = new Set(['429', '503'])

/** A question is answered as badly as everything else. */
async function lookUp (misbehaviour: Misbehaviour | null, request: IncomingMessage, response: ServerResponse): Promise<void> {
  await pause(latencyMs())
  const execution = books.get((request.url ?? '').slice(LOOKUP_PATH.length))
  if (misbehaviour !== null && misbehaviour !== 'late') {
    request.socket.destroy()
    return
  }
  const body = Buffer.from(execution === undefined ? '{}' : bodyOf(execution, ''))
  response.writeHead(execution === undefined ? 404 : 200, ['Content-Type', 'application/json', 'Content-Length', String(body.length)])
  await new Promise<void>(resolve => { response.end(body, () => { resolve() }) })
}

function bodyOf (execution: number, padding: string): string {
  return JSON.stringify({ execution, bytes: 'ÿ', padding })
}

function nextMisbehaviour (): Misbehaviour | null {
  for (const [name, share] of wrong) {
    if (random.chance(share)) return name
  }
  return null
}

/** Mostly quick; some long enough to be joined, some longer than a lease. */
function latencyMs (): number {
  if (pace === 'slower') return random.between(900, 2_400)
  const kind = random.float()
  const slowShare = pace === 'slow' ? 0.5 : 0.08
  if (kind < slowShare) return random.between(200, 700)
  if (kind < slowShare + 0.01) return random.between(1_000, 2_600)
  return kind < slowShare + 0.2 ? random.between(20, 120) : random.between(1, 12)
}

async function behave (misbehaviour: Misbehaviour | null, execution: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { socket } = request
  switch (misbehaviour) {
    case 'reset-after':
      socket.resetAndDestroy()
      return
    case 'half':
      socket.write('HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"execution":')
      socket.destroySoon()
      return
    case 'garbage':
      socket.end('\x16\x03\x01 this is no HTTP\r\n\r\n')
      return
    case 'never': return
    case 'late': return afterwards(ANSWER_WITHIN_MS + random.between(100, 1_500), execution, request, response, 201)
    case 'too-late': return afterwards(UPSTREAM_TIMEOUT_MS + random.between(300, 2_000), execution, request, response, 201)
    case 'extra': return answerTwice(execution, request)
    case '429':
    case '500':
    case '502':
    case '503':
    case '504': return answer(execution, request, response, Number(misbehaviour))
    case 'reset-before':
    case null: return answer(execution, request, response, 201)
  }
}

async function afterwards (ms: number, ...rest: Parameters<typeof answer>): Promise<void> {
  await pause(ms)
  await answer(...rest)
}

/**
 * An answer, and in the same write one that nobody asked for, of an execution that never was. A write of its own might
 * cross the next request on the wire, and nothing in HTTP/1.1 tells it from that one's answer then.
 */
function answerTwice (execution: number, { socket }: IncomingMessage): void {
  const head = (status: string, bytes: number): string => `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`
  const [body, extra] = [`{"execution":${execution}}`, '{"execution":-1}']
  book.note({ execution, repliedMs: Date.now(), status: 201 })
  socket.write(`${head('201 Created', body.length)}${body}${head('200 OK', extra.length)}${extra}`)
}

async function answer (execution: number, request: IncomingMessage, response: ServerResponse, status: number): Promise<void> {
  if (response.destroyed) return
  const target = request.url ?? ''
  // Noted before its first byte: whoever settles it does so later. It needs no fsync; the process is never killed.
  book.note({ execution, repliedMs: Date.now(), status })
  const padding = target.includes('large') ? 'x'.repeat(2 * RESPONSE_BYTES_MAX) : ''
  const body = Buffer.from(bodyOf(execution, padding))
  response.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', String(body.length), 'Link', '</a>', 'Link', '</b>', 'Location', `/things/${execution}`, 'Set-Cookie', 's=1', ...target.includes('bodiless') ? ['Idempotency-Policy', 'no-body'] : []])
  await new Promise<void>(resolve => { response.end(body, () => { resolve() }) })
}

async function pause (ms: number): Promise<void> {
  await new Promise<void>(resolve => { setTimeout(resolve, ms) })
}

// ---------------------------------------------------------------- what it is asked

const operations = {
  listen: async (): Promise<number> => {
    await new Promise<void>(resolve => { server.listen(0, '127.0.0.1', resolve) })
    return (server.address() as AddressInfo).port
  },
  /** This share of the requests, until {@link behaveAgain}. */
  misbehave: (how: Misbehaviour, share: number) => { wrong.set(how, share) },
  behaveAgain: (how: Misbehaviour) => { wrong.delete(how) },
  hurry: () => { pace = 'usual' },
  flush: async () => { await book.flush() },
  close: () => { book.close() }
}

export type Witness = typeof operations

servePart(operations)
