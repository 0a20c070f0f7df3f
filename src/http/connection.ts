/**
 * What happens on a connection beside its requests: bytes that Node's parser refuses, and clients that ask before they
 * upload (Expect: 100-continue). A connection never carries two answers to one request.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Bag } from '../bag.ts'
import { problem } from '../core/problems.ts'
import type { ProblemCode } from '../core/problems.ts'
import { addRequestId, requestIdOf } from './request-id.ts'

export class Connections {
  readonly #problemBaseUri: () => string
  /** Requests of a connection that are not answered yet; more than one only where a client pipelines. */
  readonly #open = new WeakMap<Socket, Bag<ServerResponse>>()

  constructor (problemBaseUri: () => string) {
    this.#problemBaseUri = problemBaseUri
  }

  watch (server: Server): void {
    server.prependListener('request', (request, response) => { this.#note(request.socket, response) })
    // Whoever takes the request says 100 (or a final answer) in its own time: see mayContinue.
    // Only 100-continue is known (RFC 9110 10.1.1).
    server.on('checkExpectation', (request, response) => { this.#refuseExpectation(request, response) })
    server.on('checkContinue', (request, response) => { server.emit('request', request, response) })
  }

  #refuseExpectation (request: IncomingMessage, response: ServerResponse): void {
    const requestId = requestIdOf(request)
    const { status, headers, body } = problem('bad-request', { status: 417, detail: 'The only expectation that is understood is 100-continue.', requestId, base: this.#problemBaseUri() })
    addRequestId(headers, requestId)
    response.writeHead(status, [...headers, 'Connection', 'close', 'Content-Length', String(body.length)])
    response.end(body)
  }

  #note (socket: Socket, response: ServerResponse): void {
    let open = this.#open.get(socket)
    if (open === undefined) this.#open.set(socket, open = new Bag())
    const place = open.add(response)
    response.on('close', () => { open.remove(place) })
  }

  /** What the parser refuses never becomes a request: answered on the socket, in our shape, and closed (RFC 9112 6.1). */
  refuse (error: Error & { readonly code?: string }, socket: Socket): void {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    if (this.#answering(socket)) {
      this.#closeAfterAnswers(socket)
      return
    }
    const code = codeOf(error)
    const { status, headers, body } = problem(code, { requestId: 'none', base: this.#problemBaseUri() })
    let head = `HTTP/1.1 ${status} ${code}\r\n`
    for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
    socket.end(Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`), body]))
  }

  /** What is executed gets its own answer, and nothing more is read behind it. */
  #closeAfterAnswers (socket: Socket): void {
    socket.pause()
    const open = this.#open.get(socket) ?? new Bag()
    for (const response of open.all()) {
      response.once('close', () => { if (open.size === 0) socket.destroy() })
      response.once('finish', () => { if (open.size <= 1) socket.end() })
    }
  }

  /**
   * An answer here would be taken for the answer to an earlier request that still runs, or stand behind one that has
   * begun. A single request whose own body is broken may be answered.
   */
  #answering (socket: Socket): boolean {
    const [only, another] = this.#open.get(socket)?.all() ?? []
    if (only === undefined) return false
    return another !== undefined || only.headersSent || only.req.complete
  }
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
export function mayContinue (request: IncomingMessage, response: ServerResponse): void {
  if (asksToContinue(request)) response.writeContinue()
}
