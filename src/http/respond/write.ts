/**
 * Writes a reply to a hijacked response: raw header lists, own framing. A client that is gone or does not read never
 * holds anything up but its own connection.
 */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { mayHaveBody } from '../../core/headers/headers.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import type { Reply } from './answer.ts'
import { isRead } from '../shared/body.ts'

/** Unread bytes of a refused upload that are still taken, so that the client can read why before the connection closes. */
const LINGER_BYTES_MAX = 16 * 1024 * 1024
export const LINGER_MS = 2_000
export type WritableReply = Pick<Reply, 'status' | 'headers' | 'body' | 'close'>
export type BufferedReply = WritableReply & { readonly body: Buffer }

/** Nothing is in its way: it can be written in one go, without waiting for anybody. */
export function isWritableAtOnce<Some extends WritableReply> (
  raw: IncomingMessage,
  reply: Some
): reply is Some & { readonly body: Buffer } {
  return isRead(raw) && Buffer.isBuffer(reply.body)
}

/** How long a client may not read. */
export interface IdleLimit {
  /** A client that does not read for so long has gone. (Node counts once more if its own queue has moved meanwhile.) */
  readonly idleMs: number
  /** Called when it is cut off for that. */
  stalled: () => void
}

/** What an answer may cost while its client does not read it. */
export interface SendBudget extends IdleLimit {
  /** Before an answer of so many bytes is written that may be asked for again. null: its room is taken until the response is closed. */
  reserve: (response: ServerResponse, bytes: number) => Refusal | null
  /** Told how many bytes wait for the client, whole answers only. null: there is no room for them; else how to give it back. */
  holdUnsent: (bytes: number) => (() => void) | null
}

/** Bytes of body written. Throws only for headers that Node refuses to write. */
export function writeAtOnce (response: ServerResponse, reply: BufferedReply, closing: boolean, budget: SendBudget): number {
  if (response.destroyed) return 0
  const { body } = reply
  const empty = !mayHaveBody(reply.status)
  writeHead(response, reply, empty ? null : body, reply.close || closing)
  if (empty) response.end()
  // Head and body then leave as one string in one write; any byte is a latin1 character.
  else if (body.length <= ONE_WRITE_BYTES_MAX) response.end(body.toString('latin1'), 'latin1')
  else response.end(body)
  // Most are with the kernel by now.
  if (response.socket === null || response.socket.writableLength > 0) limitUnsent(response, budget)
  return empty ? 0 : body.length
}

/** Longer ones would be copied for nothing. */
const ONE_WRITE_BYTES_MAX = 16 * 1024

/** The answer is a stream, or comes before the request is whole. Bytes of body written. Rejects as {@link writeAtOnce} throws. */
export async function writeInParts (
  raw: IncomingMessage,
  response: ServerResponse,
  reply: WritableReply,
  closing: boolean,
  budget: SendBudget
): Promise<number> {
  const { body } = reply
  if (!Buffer.isBuffer(body)) {
    if (reply.close || closing || !isRead(raw)) reply.headers.push('Connection', 'close')
    return writeStream(response, reply, body, budget)
  }
  if (response.destroyed) return 0
  const empty = !mayHaveBody(reply.status)
  writeHead(response, reply, empty ? null : body, true)
  // To HEAD nothing else would send them before the rest is read.
  response.flushHeaders()
  if (!empty) response.write(body)
  limitUnsent(response, budget)
  await discardRest(raw)
  response.end()
  return empty ? 0 : body.length
}

function writeHead (response: ServerResponse, { status, headers }: WritableReply, body: Buffer | null, close: boolean): void {
  if (close) headers.push('Connection', 'close')
  if (body !== null) headers.push('Content-Length', String(body.length))
  response.writeHead(status, headers)
}

/** An answer that nobody reads is neither held for ever nor beyond what there is room for. Progress starts the time anew. */
function limitUnsent (response: ServerResponse, budget: SendBudget): void {
  startIdleTimer(response, budget)
  const give = budget.holdUnsent(response.socket?.writableLength ?? response.writableLength)
  if (give === null) response.destroy()
  else response.once('close', give)
}

/**
 * The connection is cut rather than ended, so that nobody takes the part for the whole. To HTTP/1.0 an answer without a
 * length ends where its connection does: it is reset.
 */
export function breakOff (response: ServerResponse): void {
  if (response.req.httpVersion === '1.0') response.socket?.resetAndDestroy()
  response.destroy()
}

/** From now on a client that does not read has so long. */
export function startIdleTimer (response: ServerResponse, idleLimit: IdleLimit): void {
  if (response.listenerCount('timeout') === 0) {
    response.on('timeout', () => {
      idleLimit.stalled()
      response.destroy()
    })
  }
  response.setTimeout(idleLimit.idleMs)
}

/** It has all the time: nothing waits for it. */
export function stopIdleTimer (response: ServerResponse): void {
  response.setTimeout(0)
}

/**
 * The request is answered before its body was read. Closing at once would reset the connection under a client that is
 * still writing, and it would never see the answer: so a bounded rest of the body is read and dropped first.
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
  body: Exclude<WritableReply['body'], Buffer>,
  idleLimit: IdleLimit
): Promise<number> {
  let bytes = 0
  const abandoned = new AbortController()
  response.once('close', () => abandoned.abort())
  try {
    if (!response.destroyed) response.writeHead(reply.status, reply.headers)
    for await (const chunk of body) {
      bytes += chunk.length
      // The client has gone: the exchange runs to its end unread (E1).
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
  // Node's own looks whether the client takes anything at all.
  startIdleTimer(response, idleLimit)
  try {
    await once(response, 'drain', { signal: abandoned })
  } catch {
    // Gone, or stalled for too long: the loop above reads on without it.
  } finally {
    stopIdleTimer(response)
  }
}
