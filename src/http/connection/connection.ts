/**
 * What happens on a connection beside its requests: which of several that were pipelined is handled (one after another,
 * RFC 9112 9.3.2), that nothing is handled behind an answer that ends the connection (9.6), what becomes of bytes that Node's parser
 * refuses, and of clients that ask before they upload (Expect: 100-continue). A connection never carries two answers to one request.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { problem } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import { addRequestId, requestIdOf } from '../shared/request-id.ts'
import { startIdleTimer, LINGER_MS } from '../respond/write.ts'
import type { IdleLimit } from '../respond/write.ts'

/**
 * Requests that came whole behind one that is not answered yet. More is no client that pipelines; it gets the answers of those, and
 * of as many again none. Of still more Node would keep all, some thousands for each piece that it reads: the connection is cut.
 */
const PIPELINED_MAX = 64

interface Exchange { readonly request: IncomingMessage, readonly response: ServerResponse, readonly handle: RequestListener }

/** The requests of one connection, in their order. */
class Pipeline {
  current: Exchange | null = null
  waiting: Exchange[] = []
  /** Nothing is taken any more; when all is answered, the connection ends. */
  last = false
  /** Came since. */
  dropped = 0
}

export class Connections {
  readonly #problemBaseUri: () => string
  readonly #patience: () => IdleLimit
  readonly #pipelines = new WeakMap<Socket, Pipeline>()
  readonly #unswitched = new WeakSet<IncomingMessage>()

  constructor (problemBaseUri: () => string, patience: () => IdleLimit) {
    this.#problemBaseUri = problemBaseUri
    this.#patience = patience
  }

  watch (server: Server): void {
    // Whoever takes the request says 100 (or a final answer) in its own time: see mayContinue.
    server.on('checkContinue', (request, response) => {
      // Node finds it among others, too.
      server.emit(isContinue(request) ? 'request' : 'checkExpectation', request, response)
    })
    // There is nothing to connect to; Node would cut the connection, and with it the answers that it still owes.
    server.on('connect', (_request: IncomingMessage, socket: Duplex) => { this.#refuseConnect(socket as Socket) })
    // Only 100-continue is known (RFC 9110 10.1.1).
    server.on('checkExpectation', (request, response) => {
      this.take(request, response, () => { this.#refuseExpectation(request, response) })
    })
  }

  /**
   * It asks for another protocol, and is answered in this one. Node's parser stops behind it and drops what came in the same
   * piece (measured with Node 24.21.0): so nothing is taken behind it.
   */
  notSwitched (request: IncomingMessage): void {
    this.#unswitched.add(request)
  }

  /** `handle` is called when its turn has come; never, where the connection ends before. */
  take (request: IncomingMessage, response: ServerResponse, handle: RequestListener): void {
    const { socket } = request
    let pipeline = this.#pipelines.get(socket)
    if (pipeline === undefined) this.#pipelines.set(socket, pipeline = new Pipeline())
    const exchange = { request, response, handle }
    const isLast = this.#unswitched.has(request)
    if (isLast) response.shouldKeepAlive = false
    if (pipeline.current === null && !pipeline.last) {
      pipeline.last = isLast
      return this.#begin(socket, pipeline, exchange)
    }
    stopReading(socket, pipeline)
    if (pipeline.last) {
      if (++pipeline.dropped > PIPELINED_MAX) socket.destroy()
      return
    }
    pipeline.waiting.push(exchange)
    if (isLast || pipeline.waiting.length >= PIPELINED_MAX) pipeline.last = true
  }

  /**
   * Of a request that takes its connection over: false, where it stands behind one that has no answer yet, or behind
   * the last one that is taken. Its bytes would stand in the middle of that one's; so that one gets its answer, and the
   * connection ends.
   */
  mayTakeOver (socket: Socket): boolean {
    const pipeline = this.#pipelines.get(socket)
    if (pipeline === undefined || (pipeline.current === null && !pipeline.last)) return true
    relaySocketEvents(socket, () => pipeline.current?.response ?? null)
    this.#endAfterAnswers(socket)
    return false
  }

  /** What is being answered gets its answer, and nothing more is read behind it. */
  #endAfterAnswers (socket: Socket): void {
    socket.pause()
    const pipeline = this.#pipelines.get(socket)
    if (pipeline?.current == null) {
      socket.destroy()
      return
    }
    pipeline.last = true
    // Of a request whose body is broken nothing more comes.
    pipeline.waiting = pipeline.waiting.filter(({ request }) => request.complete)
  }

  #begin (socket: Socket, pipeline: Pipeline, exchange: Exchange): void {
    const { request, response, handle } = exchange
    pipeline.current = exchange
    response.on('close', () => { this.#next(socket, pipeline) })
    handle(request, response)
  }

  #next (socket: Socket, pipeline: Pipeline): void {
    pipeline.current = null
    // Its answer said that it was the last.
    if (socket.destroyed || socket.writableEnded) {
      pipeline.last = true
      pipeline.waiting = []
      return
    }
    const next = pipeline.waiting.shift()
    if (next !== undefined) {
      // The time that the one before had for being read is not this one's.
      socket.setTimeout(0)
      if (pipeline.waiting.length === 0 && !pipeline.last) socket.resume()
      return this.#begin(socket, pipeline, next)
    }
    if (!pipeline.last) return
    socket.end()
    destroyAfterLinger(socket)
  }

  #refuseConnect (socket: Socket): void {
    socket.on('error', () => {})
    if (!this.mayTakeOver(socket)) return
    endWithProblem(socket, 'bad-request', {
      status: 405,
      detail: 'The gateway is no proxy that clients connect through.',
      base: this.#problemBaseUri()
    })
  }

  #refuseExpectation (request: IncomingMessage, response: ServerResponse): void {
    const requestId = requestIdOf(request)
    const { status, headers, body } = problem('bad-request', {
      status: 417,
      detail: 'The only expectation that is understood is 100-continue.',
      requestId,
      base: this.#problemBaseUri()
    })
    addRequestId(headers, requestId)
    response.writeHead(status, [...headers, 'Connection', 'close', 'Content-Length', String(body.length)])
    response.end(body)
    startIdleTimer(response, this.#patience())
  }

  /** What the parser refuses never becomes a request: answered on the socket, in our shape, and closed (RFC 9112 6.1). */
  refuse (error: Error & { readonly code?: string }, socket: Socket): void {
    // Ended already, and what its client still sends is dropped until it is cut: Node tells of each piece anew.
    if (socket.writableEnded && error.code !== 'ECONNRESET') return
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    if (this.#hasAnswers(socket)) return this.#endAfterAnswers(socket)
    endWithProblem(socket, codeOf(error), { base: this.#problemBaseUri() })
  }

  /**
   * An answer here would be taken for the answer to an earlier request that still runs, or stand behind one that has
   * begun. A single request whose own body is broken may be answered.
   */
  #hasAnswers (socket: Socket): boolean {
    const pipeline = this.#pipelines.get(socket)
    if (pipeline?.current == null) return pipeline?.last === true
    const { request, response } = pipeline.current
    if (pipeline.waiting.length > 0 || response.headersSent || request.complete) return true
    pipeline.last = true
    return false
  }
}

function isContinue ({ headers: { expect = '' } }: IncomingMessage): boolean {
  return /^100-continue(?:, *100-continue)*$/i.test(expect)
}

/**
 * What is behind these requests is in the kernel's hands until there is time for it. Behind this turn: Node reads on by itself as
 * soon as the request that it has just told of is whole.
 */
function stopReading (socket: Socket, pipeline: Pipeline): void {
  process.nextTick(() => { if (pipeline.waiting.length > 0 || pipeline.last) socket.pause() })
}

/**
 * Node lets go of a socket before it tells that a request would take it over (24.21: of `drain` and `timeout` too): an
 * answer that is written on it would never go on, nor be ended. Returns how to let go of it as well.
 */
export function relaySocketEvents (socket: Socket, answering: () => ServerResponse | null): () => void {
  const onDrain = (): void => { answering()?.emit('drain') }
  const onTimeout = (): void => { answering()?.emit('timeout') }
  socket.on('drain', onDrain)
  socket.on('timeout', onTimeout)
  return () => {
    socket.off('drain', onDrain)
    socket.off('timeout', onTimeout)
  }
}

/** A problem on a bare socket, and the end of it. */
export function endWithProblem (
  socket: Socket,
  code: ProblemCode,
  { base, requestId = 'none', detail, status }: {
    readonly base: string
    readonly requestId?: string
    readonly detail?: string
    readonly status?: number
  }
): void {
  const answer = problem(code, { requestId, base, ...(detail !== undefined && { detail }), ...(status !== undefined && { status }) })
  let head = `HTTP/1.1 ${answer.status} ${code}\r\n`
  if (requestId !== 'none') addRequestId(answer.headers, requestId)
  for (let i = 0; i < answer.headers.length; i += 2) head += `${answer.headers[i]}: ${answer.headers[i + 1]}\r\n`
  socket.end(Buffer.concat([Buffer.from(`${head}Content-Length: ${answer.body.length}\r\nConnection: close\r\n\r\n`), answer.body]))
  destroyAfterLinger(socket)
}

/**
 * It has been ended from here. What its client still sends is dropped, so that its own end is seen; and it is not waited for. Cut at
 * once it would be reset under a client that is still writing, which would never see the answer.
 */
export function destroyAfterLinger (socket: Socket): void {
  const timer = setTimeout(() => { socket.destroy() }, LINGER_MS)
  socket.once('close', () => { clearTimeout(timer) })
  socket.resume()
}

function codeOf (error: { readonly code?: string }): ProblemCode {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW': return 'headers-too-large'
    case 'ERR_HTTP_REQUEST_TIMEOUT': return 'request-timeout'
    default: return 'bad-request'
  }
}

/** The client waits for a 100 before it sends its body (RFC 9110 10.1.1). */
export function asksToContinue (request: IncomingMessage): boolean {
  return request.headers.expect !== undefined && request.httpVersion === '1.1'
}

/** Lets a client that asked send its body. */
export function sendContinue (request: IncomingMessage, response: ServerResponse): void {
  if (asksToContinue(request)) response.writeContinue()
}
