/**
 * Writes a reply to a hijacked response: raw header lists, own framing. A client that is gone or does not read never
 * holds anything up but its own connection.
 */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { mayHaveBody } from '../core/headers.ts'
import type { Reply } from './answer.ts'

/** Unread bytes of a refused upload that are still taken, so that the client can read why before the connection closes. */
const LINGER_BYTES_MAX = 16 * 1024 * 1024
const LINGER_MS = 2_000
/** A client that does not read for so long has gone. (Node counts once more if its own queue has moved meanwhile.) */
const STALLED_MS = 30_000

/** Nothing is in its way: it can be written in one go, without waiting for anybody. */
export function isWhole (raw: IncomingMessage, reply: Reply): reply is WholeReply {
  return raw.complete && Buffer.isBuffer(reply.body)
}

export type WholeReply = Reply & { readonly body: Buffer }

/** Bytes of body written. Throws only for headers that Node refuses to write. */
export function writeWhole (response: ServerResponse, reply: WholeReply, closing: boolean): number {
  if (response.destroyed) return 0
  const { body } = reply
  const empty = !mayHaveBody(reply.status)
  writeHead(response, reply, empty ? null : body, reply.close || closing)
  if (empty) response.end()
  // Head and body then leave as one string in one write; any byte is a latin1 character.
  else if (body.length <= ONE_WRITE_BYTES_MAX) response.end(body.toString('latin1'), 'latin1')
  else response.end(body)
  // An answer that nobody reads is not held for ever; most are with the kernel by now. Progress starts the time anew.
  if (response.socket === null || response.socket.writableLength > 0) endStalled(response)
  return empty ? 0 : body.length
}

/** Longer ones would be copied for nothing. */
const ONE_WRITE_BYTES_MAX = 16 * 1024

/** The answer is a stream, or comes before the request is whole. Bytes of body written. Rejects as {@link writeWhole} throws. */
export async function writeSlowly (raw: IncomingMessage, response: ServerResponse, reply: Reply, closing: boolean): Promise<number> {
  const { body } = reply
  if (!Buffer.isBuffer(body)) {
    if (reply.close || closing || !raw.complete) reply.headers.push('Connection', 'close')
    return writeStream(response, reply, body)
  }
  if (response.destroyed) return 0
  const empty = !mayHaveBody(reply.status)
  writeHead(response, reply, empty ? null : body, true)
  endStalled(response)
  await lingeringEnd(raw, response, body)
  return empty ? 0 : body.length
}

function writeHead (response: ServerResponse, { status, headers }: Reply, body: Buffer | null, close: boolean): void {
  if (close) headers.push('Connection', 'close')
  if (body !== null) headers.push('Content-Length', String(body.length))
  response.writeHead(status, headers)
}

function endStalled (response: ServerResponse): void {
  response.setTimeout(STALLED_MS, () => { response.destroy() })
}

/**
 * The request is answered before its body was read. Closing at once would reset the connection under a client that is
 * still writing, and it would never see the answer: so a bounded rest of the body is read and dropped first.
 */
async function lingeringEnd (raw: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> {
  response.write(body)
  await new Promise<void>(resolve => {
    let bytes = 0
    const timer = setTimeout(resolve, LINGER_MS)
    const done = (): void => { clearTimeout(timer); resolve() }
    raw.on('data', (chunk: Buffer) => { if ((bytes += chunk.length) > LINGER_BYTES_MAX) done() })
    raw.once('end', done)
    raw.once('close', done)
    raw.resume()
  })
  response.end()
}

async function writeStream (response: ServerResponse, reply: Reply, body: Exclude<Reply['body'], Buffer>): Promise<number> {
  let bytes = 0
  const abandoned = new AbortController()
  response.once('close', () => abandoned.abort())
  try {
    if (!response.destroyed) response.writeHead(reply.status, reply.headers)
    for await (const chunk of body) {
      bytes += chunk.length
      // The client has gone: the exchange runs to its end unread (E1).
      if (response.destroyed) continue
      if (!response.write(chunk)) await drained(response, abandoned.signal)
    }
    response.end()
  } catch {
    // The upstream broke off. The connection is cut rather than ended, so that nobody takes the part for the whole.
    response.destroy()
    body.destroy()
  }
  return bytes
}

async function drained (response: ServerResponse, abandoned: AbortSignal): Promise<void> {
  const timer = setTimeout(() => response.destroy(), STALLED_MS)
  try {
    await once(response, 'drain', { signal: abandoned })
  } catch {
    // Gone, or stalled for too long: the loop above reads on without it.
  } finally {
    clearTimeout(timer)
  }
}
