/**
 * Handles what happens on a connection beside its requests. Pipelined requests are handled one after another (RFC 9112
 * 9.3.2). Nothing is handled after an answer that ends the connection (9.6). Bytes that Node's parser refuses get an
 * answer, and so do clients that send Expect: 100-continue. A request never gets two answers.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { problem } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import { NO_ROUTE } from '../../ports/telemetry.ts'
import type { Meter } from '../../ports/telemetry.ts'
import { addRequestId, requestIdOf } from '../shared/request-id.ts'
import { countAnswer } from './counted-response.ts'
import type { CountedResponse } from './counted-response.ts'
import { startIdleTimer, LINGER_MS } from '../respond/write.ts'
import type { IdleLimit } from '../respond/write.ts'
import { connectionEvent } from './tls.ts'

/**
 * The most complete requests that wait for an earlier answer. A client with more gets the answers of these, and of as
 * many more none. Beyond that Node would keep all of them, thousands for each read, so the connection is cut.
 */
const PIPELINED_MAX = 64

interface Exchange { readonly request: IncomingMessage, readonly response: ServerResponse, readonly handle: RequestListener }

/** The requests of one connection, in their order. */
class Pipeline {
  current: Exchange | null = null
  waiting: Exchange[] = []
  /** No further request is accepted. After the last answer the connection ends. */
  last = false
  /** Requests since then. */
  dropped = 0
}

export class Connections {
  readonly #problemBaseUri: () => string
  readonly #patience: () => IdleLimit
  readonly #meter: Pick<Meter, 'answered'>
  readonly #pipelines = new WeakMap<Socket, Pipeline>()
  /** Those that HTTP is spoken on: no tunnels. As many as limits.connections. */
  readonly #open = new Set<Socket>()
  readonly #unswitched = new WeakSet<IncomingMessage>()

  constructor (problemBaseUri: () => string, patience: () => IdleLimit, meter: Pick<Meter, 'answered'>) {
    this.#problemBaseUri = problemBaseUri
    this.#patience = patience
    this.#meter = meter
  }

  watch (server: Server): void {
    // A server that closes calls this. Node's own takes an answer for sent when it has been handed over, and cuts it there.
    server.closeIdleConnections = () => { this.#endThose((pipeline) => pipeline?.current === null) }
    server.on(connectionEvent(server), (socket: Socket) => {
      this.#open.add(socket)
      socket.once('close', () => { this.#open.delete(socket) })
    })
    // The reader of the request sends 100 or a final answer: see sendContinue.
    server.on('checkContinue', (request, response) => {
      // Node also emits this event if the field has other expectations too.
      server.emit(isContinue(request) ? 'request' : 'checkExpectation', request, response)
    })
    // The gateway is no proxy for CONNECT. Node would cut the connection, together with answers that are still due.
    server.on('connect', (request: IncomingMessage, socket: Duplex) => { this.#refuseConnect(request, socket as Socket) })
    // Only 100-continue is known (RFC 9110 10.1.1).
    server.on('checkExpectation', (request, response) => {
      this.take(request, response, () => { this.#refuseExpectation(request, response) })
    })
  }

  /**
   * The request asks for another protocol and is answered in this one. Node's parser stops behind it and drops the rest
   * of that read (measured with Node 24.21.0). So no later request of the connection is accepted.
   */
  notSwitched (request: IncomingMessage): void {
    this.#unswitched.add(request)
  }

  /** `handle` is called when all earlier requests are answered. It is never called if the connection ends before. */
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
   * For a request that takes its connection over. false: an earlier request has no answer yet, or no further request is
   * accepted. The bytes of the takeover would land in the middle of that answer. The earlier request gets its answer,
   * and the connection ends.
   */
  mayTakeOver (socket: Socket): boolean {
    const pipeline = this.#pipelines.get(socket)
    if (pipeline === undefined || (pipeline.current === null && !pipeline.last)) {
      this.#open.delete(socket)
      return true
    }
    relaySocketEvents(socket, () => pipeline.current?.response ?? null)
    this.#endAfterAnswers(socket)
    return false
  }

  /**
   * For a server that closes: ends the connections without a request. Node ends only those that have had one, and only once. Nothing
   * has been claimed for a head that is not whole.
   */
  endIdle (): void {
    this.#endThose((pipeline) => pipeline === undefined || pipeline.current === null)
  }

  #endThose (isIdle: (pipeline: Pipeline | undefined) => boolean): void {
    for (const socket of this.#open) {
      const pipeline = this.#pipelines.get(socket)
      if (!isIdle(pipeline) || socket.writableEnded) continue
      if (pipeline === undefined) socket.destroy()
      else endSent(socket, pipeline)
    }
  }

  /** The current request gets its answer. Nothing is read after it. */
  #endAfterAnswers (socket: Socket): void {
    socket.pause()
    const pipeline = this.#pipelines.get(socket)
    if (pipeline?.current == null) {
      socket.destroy()
      return
    }
    pipeline.last = true
    // A request with a broken body never becomes complete.
    pipeline.waiting = pipeline.waiting.filter(({ request }) => request.complete)
  }

  #begin (socket: Socket, pipeline: Pipeline, exchange: Exchange): void {
    const { request, response, handle } = exchange
    pipeline.current = exchange
    response.on('close', () => {
      countAnswer(this.#meter, response)
      this.#next(socket, pipeline)
    })
    handle(request, response)
  }

  #next (socket: Socket, pipeline: Pipeline): void {
    pipeline.current = null
    // The answer said `Connection: close`.
    if (socket.destroyed || socket.writableEnded) {
      pipeline.last = true
      pipeline.waiting = []
      return
    }
    const next = pipeline.waiting.shift()
    if (next !== undefined) {
      // The idle timer belonged to the previous answer.
      socket.setTimeout(0)
      if (pipeline.waiting.length === 0 && !pipeline.last) socket.resume()
      return this.#begin(socket, pipeline, next)
    }
    if (pipeline.last) endSent(socket, pipeline)
  }

  #refuseConnect ({ method }: IncomingMessage, socket: Socket): void {
    socket.on('error', () => {})
    if (!this.mayTakeOver(socket)) return
    const status = endWithProblem(socket, 'bad-request', {
      status: 405,
      detail: 'The gateway is no proxy that clients connect through.',
      base: this.#problemBaseUri()
    })
    this.#meter.answered(NO_ROUTE, method, status, null)
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

  /**
   * What the parser refuses never becomes a request. It gets a problem on the socket, and the connection is closed (RFC
   * 9112 6.1).
   */
  refuse (error: Error & { readonly code?: string }, socket: Socket): void {
    // The connection has been ended. Node reports an error for every later read.
    if (socket.writableEnded && error.code !== 'ECONNRESET') return
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    if (this.#hasAnswers(socket)) return this.#endAfterAnswers(socket)
    const status = endWithProblem(socket, codeOf(error), { base: this.#problemBaseUri() })
    const current = this.#pipelines.get(socket)?.current ?? null
    // Its response closes without an answer of its own, and is counted then.
    if (current !== null) (current.response as CountedResponse).bareStatus = status
    else this.#meter.answered(NO_ROUTE, undefined, status, null)
  }

  /**
   * An answer here would look like the answer to an earlier request, or land inside one that has begun. A single
   * request whose own body is broken may be answered.
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
 * Leaves later bytes in the kernel until the requests are handled. It waits for the next tick, because Node resumes
 * reading after a complete request.
 */
function stopReading (socket: Socket, pipeline: Pipeline): void {
  process.nextTick(() => { if (pipeline.waiting.length > 0 || pipeline.last) socket.pause() })
}

/**
 * Node removes its listeners from the socket before it emits `upgrade` or `connect` (in 24.21 also those for `drain`
 * and `timeout`). Without them an answer on that socket would stop and never end. Returns the function that removes the
 * new listeners.
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

/** All answers are sent. The client may still be reading the last one. */
function endSent (socket: Socket, pipeline: Pipeline): void {
  pipeline.last = true
  socket.end()
  destroyAfterLinger(socket)
}

/** Writes a problem on a bare socket and ends it. Returns its status. */
export function endWithProblem (
  socket: Socket,
  code: ProblemCode,
  { base, requestId = 'none', detail, status }: {
    readonly base: string
    readonly requestId?: string
    readonly detail?: string
    readonly status?: number
  }
): number {
  const answer = problem(code, { requestId, base, ...(detail !== undefined && { detail }), ...(status !== undefined && { status }) })
  let head = `HTTP/1.1 ${answer.status} ${code}\r\n`
  if (requestId !== 'none') addRequestId(answer.headers, requestId)
  for (let i = 0; i < answer.headers.length; i += 2) head += `${answer.headers[i]}: ${answer.headers[i + 1]}\r\n`
  socket.end(Buffer.concat([Buffer.from(`${head}Content-Length: ${answer.body.length}\r\nConnection: close\r\n\r\n`), answer.body]))
  destroyAfterLinger(socket)
  return answer.status
}

/**
 * The connection has been ended from this side. Reads and drops what the client still sends, so that its end is seen,
 * up to LINGER_MS. An immediate cut would reset a client that is still writing, and it would never see the answer.
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

/** Sends 100 to a client that waits for it. */
export function sendContinue (request: IncomingMessage, response: ServerResponse): void {
  if (asksToContinue(request)) response.writeContinue()
}
