/**
 * Writes a reply to a hijacked response, with raw header lists and its own framing. A client that is gone or does not
 * read delays only its own connection.
 */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { mayHaveBody } from '../../core/headers/headers.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import type { Reply } from './answer.ts'
import { isRead } from '../shared/body.ts'

/** Bytes of a refused upload that are still read, so that the client can read the reason before the connection closes. */
const LINGER_BYTES_MAX = 16 * 1024 * 1024
export const LINGER_MS = 2_000
export type WritableReply = Pick<Reply, 'status' | 'headers' | 'body' | 'close'>
export type BufferedReply = WritableReply & { readonly body: Buffer | string }

/** The request is read and the answer is complete, so it can be written without waiting. */
export function isWritableAtOnce<Some extends WritableReply> (
  raw: IncomingMessage,
  reply: Some
): reply is Some & { readonly body: Buffer | string } {
  return isRead(raw) && isWhole(reply.body)
}

export function isWhole (body: WritableReply['body']): body is Buffer | string {
  return typeof body === 'string' || Buffer.isBuffer(body)
}

/** How long a client may not read. */
export interface IdleLimit {
  /** A client that does not read for this long counts as gone. Node waits once more if its own queue has moved in that time. */
  readonly idleMs: number
  /** Called when the client is cut off for that reason. */
  stalled: () => void
}

/** The memory that an answer may use while its client does not read it. */
export interface SendBudget extends IdleLimit {
  /**
   * Call it before writing an answer of this size that a retry can get again. null: the room is reserved until the
   * response closes.
   */
  reserve: (response: ServerResponse, bytes: number) => Refusal | null
  /** `bytes` wait for the client. Only for complete answers. null: there is no room. Else the function gives the room back. */
  holdUnsent: (bytes: number) => (() => void) | null
}

/** Returns the bytes of body written. Throws only for headers that Node refuses. */
export function writeAtOnce (response: ServerResponse, reply: BufferedReply, closing: boolean, budget: SendBudget): number {
  if (response.destroyed) return 0
  const { body } = reply
  const empty = !mayHaveBody(reply.status)
  writeHead(response, reply, empty ? null : body, reply.close || closing)
  if (empty) response.end()
  // Head and body then leave as one string in one write. Any byte is a latin1 character.
  else if (typeof body === 'string') response.end(body, 'latin1')
  else if (body.length <= ONE_WRITE_BYTES_MAX) response.end(body.toString('latin1'), 'latin1')
  else response.end(body)
  // Most answers are in the kernel by now.
  if (response.socket === null || response.socket.writableLength > 0) limitUnsent(response, budget)
  return empty ? 0 : body.length
}

/** A copy of a longer body would cost more than it saves. */
const ONE_WRITE_BYTES_MAX = 16 * 1024

/**
 * For a stream, or an answer before the request is complete. Returns the bytes of body written. Rejects where {@link
 * writeAtOnce} throws.
 */
export async function writeInParts (
  raw: IncomingMessage,
  response: ServerResponse,
  reply: WritableReply,
  closing: boolean,
  budget: SendBudget
): Promise<number> {
  const { body } = reply
  if (!isWhole(body)) {
    if (reply.close || closing || !isRead(raw)) reply.headers.push('Connection', 'close')
    return writeStream(response, reply, body, budget)
  }
  if (response.destroyed) return 0
  const empty = !mayHaveBody(reply.status)
  writeHead(response, reply, empty ? null : body, true)
  // For HEAD, nothing else would send the head before the rest of the request is read.
  response.flushHeaders()
  if (!empty) response.write(body, 'latin1')
  limitUnsent(response, budget)
  await discardRest(raw)
  response.end()
  return empty ? 0 : body.length
}

function writeHead (response: ServerResponse, { status, headers }: WritableReply, body: Buffer | string | null, close: boolean): void {
  if (close) headers.push('Connection', 'close')
  if (body !== null) headers.push('Content-Length', String(body.length))
  response.writeHead(status, headers)
}

/** An unread answer is held neither for ever nor beyond its room. Progress restarts the timer. */
function limitUnsent (response: ServerResponse, budget: SendBudget): void {
  startIdleTimer(response, budget)
  const give = budget.holdUnsent(response.socket?.writableLength ?? response.writableLength)
  if (give === null) response.destroy()
  else response.once('close', give)
}

/**
 * The connection is cut instead of ended, so that the client sees that the answer is incomplete. In HTTP/1.0 an answer
 * without length ends with its connection, so that is reset.
 */
export function breakOff (response: ServerResponse): void {
  if (response.req.httpVersion === '1.0') response.socket?.resetAndDestroy()
  response.destroy()
}

/** From now on a client that does not read has this much time. */
export function startIdleTimer (response: ServerResponse, idleLimit: IdleLimit): void {
  if (response.listenerCount('timeout') === 0) {
    response.on('timeout', () => {
      idleLimit.stalled()
      response.destroy()
    })
  }
  response.setTimeout(idleLimit.idleMs)
}

/** Nothing waits for the client now, so it has no time limit. */
export function stopIdleTimer (response: ServerResponse): void {
  response.setTimeout(0)
}

/** false: the client is behind. `resume` is called when it has caught up. Until then it may idle no longer than the limit. */
export function writeChunk (response: ServerResponse, chunk: Buffer, idleLimit: IdleLimit, resume: () => void): boolean {
  if (response.write(chunk)) return true
  startIdleTimer(response, idleLimit)
  response.once('drain', () => {
    stopIdleTimer(response)
    resume()
  })
  return false
}

/**
 * The request is answered before its body is read. An immediate close would reset a client that is still writing, and
 * it would never see the answer. So a bounded part of the rest is read and dropped first.
 */
export async function discardRest (raw: IncomingMessage): Promise<void> {
  if (isRead(raw) || raw.destroyed) return
  await new Promise<void>((resolve) => {
    let bytes = 0
    const timer = setTimeout(resolve, LINGER_MS)
    const done = (): void => { clearTimeout(timer); resolve() }
    raw.on('data', (chunk: Buffer) => { if ((bytes += chunk.length) > LINGER_BYTES_MAX) done() })
    raw.once('end', done)
    raw.once('close', done)
    raw.resume()
  })
}

async function writeStream (
  response: ServerResponse,
  reply: WritableReply,
  body: Exclude<WritableReply['body'], Buffer | string>,
  idleLimit: IdleLimit
): Promise<number> {
  let bytes = 0
  const abandoned = new AbortController()
  response.once('close', () => abandoned.abort())
  try {
    if (!response.destroyed) response.writeHead(reply.status, reply.headers)
    for await (const chunk of body) {
      bytes += chunk.length
      // The client has gone. The exchange runs to its end unread (E1).
      if (response.destroyed) continue
      if (!response.write(chunk)) await drained(response, abandoned.signal, idleLimit)
    }
    response.end()
  } catch {
    // The upstream broke off.
    breakOff(response)
    body.destroy()
  }
  return bytes
}

async function drained (response: ServerResponse, abandoned: AbortSignal, idleLimit: IdleLimit): Promise<void> {
  // Node's timer checks whether the client takes anything at all.
  startIdleTimer(response, idleLimit)
  try {
    await once(response, 'drain', { signal: abandoned })
  } catch {
    // The client is gone or stalled. The loop above reads on without it.
  } finally {
    stopIdleTimer(response)
  }
}
