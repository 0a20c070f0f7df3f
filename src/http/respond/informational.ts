/**
 * Informational answers of an upstream (RFC 9110 15.2) on their way to the request's own client: as they came, without what
 * belongs to the upstream's connection. Never to HTTP/1.0, which does not know them, and never behind the answer's own head.
 */
import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { passedHeaders } from '../../core/headers/headers.ts'
import { pairs } from '../../core/headers/lines.ts'
import type { RawHeaders } from '../../core/record/record.ts'

/** Of one request: an upstream that never comes to its answer is no reason to write for ever. */
const INFORMATION_MAX = 32

/** Made for one request; what it is called with goes to its client, or nowhere. */
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
    // Node has a method for 102 and one for 103, and takes no other field than Link for that.
    socket.write(informationOf(status, headers), 'latin1')
  }
}

function informationOf (status: number, headers: RawHeaders): string {
  const fields = Array.from(pairs(passedHeaders(status, headers)), ([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Informational'}\r\n${fields.join('')}\r\n`
}
