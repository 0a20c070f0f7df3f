/**
 * The upstream of a run, in a process of its own. Every request is in its file, and on the disk, before it is answered. Many lines
 * share one fsync. It answers correctly until it must misbehave, in one or several ways at once.
 * The file that uses this defines its purpose and its correct answers.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { PAGES } from '../crash/pages.ts'
import { servePart } from './child.ts'
import { Random } from './random.ts'
import { UPSTREAM_TIMEOUT_MS } from './routes.ts'
import { SyncedFile } from './synced-file.ts'
import type { Misbehaviour, Pace, Sent } from './witness.ts'

/** A request, and all of it. */
export interface Came {
  /** From 1. */
  readonly number: number
  readonly request: IncomingMessage
  readonly sent: Sent
  /** SHA-256 of the body. */
  readonly body: string
  readonly misbehaviour: Misbehaviour | null
}

export interface Answer { readonly status: number, readonly fields: readonly string[], readonly body: string }

export interface Upstream<Line> {
  /** Of its stream of random numbers. */
  readonly name: string
  readonly latencyMs: (pace: Pace, random: Random) => number
  /** How long a late answer is held back that still comes in time. */
  readonly lateMs: (random: Random) => number
  /** Resolves when it is on the disk. */
  readonly keep: (came: Came, book: SyncedFile<Line>) => Promise<void>
  /** What is noted of an answer that is whole. */
  readonly replied: (number: number, atMs: number, status: number, isPage?: true) => Line
  /** For a correct answer. */
  readonly goodStatus: (came: Came, random: Random) => number
  readonly answer: (came: Came, status: number) => Answer
  /** Whether this is for the consumer that is `down` alone. Absent: there is none. */
  readonly goesDown?: (target: string) => boolean
  /** Answers probes. Absent: there are none. */
  readonly questions?: { readonly path: string, readonly answer: (request: IncomingMessage) => Answer }
}

/** Of a consumer that is down, by what stands before it. */
const BAD_GATEWAY = 502

export function serveMisbehaving<Line> (own: Upstream<Line>): void {
  const [file = '', seed = '0', pace = 'usual'] = process.argv.slice(2)
  servePart(new Misbehaving(own, file, new Random(Number(seed)).fork(own.name), pace as Pace).operations())
}

export type Witness = ReturnType<Misbehaving<unknown>['operations']>

class Misbehaving<Line> {
  readonly #own: Upstream<Line>
  readonly #book: SyncedFile<Line>
  readonly #random: Random
  readonly #wrong = new Map<Misbehaviour, number>()
  readonly #server = createServer({ keepAliveTimeout: 30_000 }, (request, response) => {
    void this.#receive(request, response).catch(() => { response.destroy() })
  })

  #pace: Pace
  #count = 0

  constructor (own: Upstream<Line>, file: string, random: Random, pace: Pace) {
    this.#own = own
    this.#book = new SyncedFile(file)
    this.#random = random
    this.#pace = pace
  }

  /** What the run asks of it. */
  operations () {
    return {
      listen: async (): Promise<number> => {
        await new Promise<void>((resolve) => { this.#server.listen(0, '127.0.0.1', resolve) })
        return (this.#server.address() as AddressInfo).port
      },
      /** This share of the requests, until `behaveAgain`. */
      misbehave: (how: Misbehaviour, share: number) => { this.#wrong.set(how, share) },
      behaveAgain: (how: Misbehaviour) => { this.#wrong.delete(how) },
      hurry: () => { this.#pace = 'usual' },
      flush: async () => { await this.#book.flush() },
      close: () => { this.#book.close() }
    }
  }

  // -------------------------------------------------------------- one request

  async #receive (request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {})
    const misbehaviour = this.#nextMisbehaviour(request.url ?? '')
    if (misbehaviour === 'reset-before') {
      request.socket.resetAndDestroy()
      return
    }
    const { method, url: target = '', headers } = request
    const { questions } = this.#own
    if (questions !== undefined && method === 'GET' && target.startsWith(questions.path)) {
      return this.#lookUp(misbehaviour, questions.answer, request, response)
    }
    const body = createHash('sha256')
    for await (const chunk of request as AsyncIterable<Buffer>) body.update(chunk)
    const field = (name: string): string => String(headers[name] ?? '')
    const sent: Sent = {
      record: field('onceway-key'),
      attempt: Number(field('idempotency-attempt')),
      call: field('x-request-id'),
      atMs: Date.now(),
      target
    }
    const came: Came = { number: ++this.#count, request, sent, body: body.digest('base64url'), misbehaviour }
    await this.#own.keep(came, this.#book)
    await this.#takeTime()
    await this.#behave(came, response)
  }

  #nextMisbehaviour (target: string): Misbehaviour | null {
    if (this.#wrong.has('down') && this.#own.goesDown?.(target) === true) return 'down'
    for (const [name, share] of this.#wrong) {
      if (name !== 'down' && this.#random.chance(share)) return name
    }
    return null
  }

  /** Probes are answered as badly as other requests. */
  async #lookUp (
    misbehaviour: Misbehaviour | null,
    answer: (request: IncomingMessage) => Answer,
    request: IncomingMessage,
    response: ServerResponse
  ): Promise<void> {
    await this.#takeTime()
    if (misbehaviour !== null && misbehaviour !== 'late') request.socket.destroy()
    else await write(answer(request), response)
  }

  async #takeTime (): Promise<void> {
    await pause(this.#own.latencyMs(this.#pace, this.#random))
  }

  // -------------------------------------------------------------- its answer

  async #behave (came: Came, response: ServerResponse): Promise<void> {
    const { request: { socket }, misbehaviour } = came
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
      case 'late': return this.#afterwards(this.#own.lateMs(this.#random), came, response)
      case 'too-late': return this.#afterwards(UPSTREAM_TIMEOUT_MS + this.#random.between(300, 2_000), came, response)
      case 'extra': return this.#answerTwice(came)
      case 'page': return this.#answerAsAHop(came, response)
      case '429':
      case '500':
      case '502':
      case '503':
      case '504': return this.#answer(came, response, Number(misbehaviour))
      case 'down': return this.#answer(came, response, BAD_GATEWAY)
      case 'reset-before':
      case null: return this.#answer(came, response, this.#own.goodStatus(came, this.#random))
    }
  }

  async #afterwards (ms: number, came: Came, response: ServerResponse): Promise<void> {
    await pause(ms)
    await this.#answer(came, response, 201)
  }

  /**
   * An answer, and in the same write an extra one, of an execution that never was. A separate write might cross the next request on
   * the wire. HTTP/1.1 could not tell it from the answer to that request then.
   */
  #answerTwice ({ number, request: { socket } }: Came): void {
    const head = (status: string, bytes: number): string =>
      `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`
    const [body, extra] = [`{"execution":${number}}`, '{"execution":-1}']
    this.#noteReply(number, 201)
    socket.write(`${head('201 Created', body.length)}${body}${head('200 OK', extra.length)}${extra}`)
  }

  /** Executed, and a hop does not know it. */
  async #answerAsAHop (came: Came, response: ServerResponse): Promise<void> {
    const { status, headers, body } = this.#random.pick(PAGES.filter(({ reached }) => reached === 'perhaps'))
    this.#book.note(this.#own.replied(came.number, Date.now(), status, true))
    response.writeHead(status, [...headers, 'Content-Length', String(Buffer.byteLength(body))])
    await new Promise<void>((resolve) => { response.end(body, () => { resolve() }) })
  }

  async #answer (came: Came, response: ServerResponse, status: number): Promise<void> {
    if (response.destroyed) return
    this.#noteReply(came.number, status)
    await write(this.#own.answer(came, status), response)
  }

  /** Noted before the first byte, because it is settled later. No fsync is needed: the process is never killed. */
  #noteReply (number: number, status: number): void {
    this.#book.note(this.#own.replied(number, Date.now(), status))
  }
}

async function write ({ status, fields, body }: Answer, response: ServerResponse): Promise<void> {
  const ofBody = status === 204 ? [] : ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body))]
  response.writeHead(status, [...ofBody, ...fields])
  await new Promise<void>((resolve) => { response.end(body, () => { resolve() }) })
}
