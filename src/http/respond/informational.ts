/**
 * Passes informational answers of an upstream (RFC 9110 15.2) to the client of the request. Fields of the upstream's
 * connection are removed. HTTP/1.0 does not know these answers and gets none. None is sent after the head of the
 * answer.
 */
import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { passedHeaders } from '../../core/headers/headers.ts'
import { pairs } from '../../core/headers/lines.ts'
import type { RawHeaders } from '../../core/record/record.ts'

/** The most for one request, so that an upstream without an answer cannot send them for ever. */
const INFORMATION_MAX = 32

/** Made for one request. It drops what cannot be sent to the client. */
export function informer (request: IncomingMessage, response: ServerResponse): (status: number, headers: RawHeaders) => void {
  let sent = 0
  return (status, headers) => {
    const { socket } = response
    if (
      request.httpVersion !== '1.1' ||
      response.headersSent ||
      socket === null ||
      !socket.writable ||
      socket.writableNeedDrain ||
      sent >= INFORMATION_MAX
    ) {
      return
    }
    sent++
    // Node has methods for 102 and 103 only, and they take no field but Link.
    socket.write(informationOf(status, headers), 'latin1')
  }
}

function informationOf (status: number, headers: RawHeaders): string {
  const fields = Array.from(pairs(passedHeaders(status, headers)), ([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Informational'}\r\n${fields.join('')}\r\n`
}
